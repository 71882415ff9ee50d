"""Encodes and decodes control batches: internal records that consumers do not return (KIP-98).

The key of a control record is `version: int16, type: int16`. The value of a transaction marker is `version: int16,
coordinator epoch: int32`; its batch has the producer id and epoch of the transaction.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from minikafka.protocol.records.batch import CONTROL, TRANSACTIONAL, Batch, BatchHeader, encode_batch
from minikafka.protocol.records.record import CorruptRecords, Record

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")


class ControlType(IntEnum):
    """The type of a control record (Kafka's `ControlRecordType`); later types are UNKNOWN."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @classmethod
    def _missing_(cls, value: object) -> ControlType:
        return cls.UNKNOWN


class EndTxnMarker(NamedTuple):
    """The end of a transaction in a partition: ABORT or COMMIT, and the coordinator epoch."""

    type: ControlType
    coordinator_epoch: int


def control_type(key: bytes | None) -> ControlType:
    """The type of the control record with this key. Raises CorruptRecords if the key is invalid."""
    if key is None or len(key) < _KEY.size:
        raise CorruptRecords(f"control record key {key!r} is shorter than {_KEY.size} bytes")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecords(f"control record key has the invalid version {version}")
    return ControlType(kind)


def control_key(kind: ControlType) -> bytes:
    """The key of a control record, version 0."""
    return _KEY.pack(0, kind)


def parse_end_transaction(batch: Batch) -> EndTxnMarker | None:
    """The transaction marker in a control batch; None if it has none. Raises CorruptRecords."""
    records = batch.records()
    if not records:
        return None  # The cleaner may remove all records of a batch and keep its header.
    kind = control_type(records[0].key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    value = records[0].value
    if value is None or len(value) < _MARKER.size:
        raise CorruptRecords(f"transaction marker {value!r} is shorter than {_MARKER.size} bytes")
    version, coordinator_epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise CorruptRecords(f"transaction marker has the invalid version {version}")
    return EndTxnMarker(kind, coordinator_epoch)


def encode_end_transaction(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Encode the control batch that ends the open transaction of a producer id and epoch; `timestamp` is in ms."""
    attributes = CONTROL | TRANSACTIONAL
    header = BatchHeader(attributes, base_offset, leader_epoch, producer_id, producer_epoch)
    record = Record(-1, timestamp, control_key(marker.type), _MARKER.pack(0, marker.coordinator_epoch))
    return encode_batch([record], header)
