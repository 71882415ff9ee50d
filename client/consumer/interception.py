"""Calls a consumer's interceptors (KIP-42), and logs the errors that they raise."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from minikafka.client.escaped_log import escaped
from minikafka.client.interceptors import ConsumerInterceptor
from minikafka.client.offsets import OffsetAndMetadata
from minikafka.client.records import ConsumerRecord
from minikafka.client.user_code import tolerated
from minikafka.protocol.names import TopicPartition

_logger = escaped(logging.getLogger("minikafka.client.consumer"))


def on_consume(interceptors: Sequence[ConsumerInterceptor], records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """Pass records through the interceptors in order; return the records for the application."""
    for one in interceptors:
        with tolerated(_logger, "interceptor failed: %s.on_consume", type(one).__name__):
            records = list(one.on_consume(records))
    return records


def on_commit(
    interceptors: Sequence[ConsumerInterceptor], offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Tell the interceptors which offsets were committed."""
    for one in interceptors:
        with tolerated(_logger, "interceptor failed: %s.on_commit", type(one).__name__):
            one.on_commit(offsets)
