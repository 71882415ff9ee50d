"""Calls a consumer's interceptors (KIP-42). Errors of theirs are logged."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from minikafka.client.interceptors import ConsumerInterceptor
from minikafka.client.offsets import OffsetAndMetadata
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.names import TopicPartition

_logger = logging.getLogger("minikafka.client.consumer")


def on_consume(interceptors: Sequence[ConsumerInterceptor], records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """The records to return."""
    for one in interceptors:
        try:
            records = list(one.on_consume(records))
        except Exception:  # what users write must not keep records from the application
            _logger.exception("interceptor failed: %s.on_consume", type(one).__name__)
    return records


def on_commit(
    interceptors: Sequence[ConsumerInterceptor], offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Tell of offsets that were committed."""
    for one in interceptors:
        try:
            one.on_commit(offsets)
        except Exception:  # the offsets are committed, whatever users write
            _logger.exception("interceptor failed: %s.on_commit", type(one).__name__)
