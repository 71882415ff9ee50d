"""`encode_batch` with a keyword for each field of the header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minikafka.protocol.records import batch
from minikafka.protocol.records.batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, BatchHeader, Span
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.record import Record


def encode_batch(
    records: Sequence[Record],
    *,
    deltas: Sequence[int] | None = None,
    level: int | None = None,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    **fields: Any,
) -> bytes:
    """As the `encode_batch` of the protocol; `fields` are those of `header_of`."""
    if last_offset_delta is None:
        last_offset_delta = (batch._deltas(records) if deltas is None else deltas)[-1]
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else -1
    if max_timestamp is None:
        max_timestamp = max([record.timestamp for record in records], default=-1)
    span = Span(last_offset_delta, base_timestamp, max_timestamp)
    return batch.encode_batch(records, header_of(**fields), deltas=deltas, span=span, level=level)


def header_of(
    *,
    codec: Codec = Codec.NONE,
    timestamp_type: int = 0,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
    **numbers: int,
) -> BatchHeader:
    """The header with these attributes and numbers."""
    attributes = codec | LOG_APPEND_TIME * timestamp_type | TRANSACTIONAL * transactional
    return BatchHeader(attributes | CONTROL * control | DELETE_HORIZON * delete_horizon, **numbers)
