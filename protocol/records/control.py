"""Control batches: records that Kafka writes for itself and that never reach a user (KIP-98).

A control record's key is `version: int16, type: int16`. That of a transaction's end, a marker, has the value
`version: int16, coordinator epoch: int32`; the batch around it bears the producer id and epoch that it ends.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from minikafka.protocol.records.batch import Batch, encode_batch
from minikafka.protocol.records.record import CorruptRecords, Record

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")


class ControlType(IntEnum):
    """What a control record says (Kafka's `ControlRecordType`). Types of the future read as UNKNOWN."""

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
    """The end of a transaction in one partition: ABORT or COMMIT, and the coordinator that said so."""

    type: ControlType
    coordinator_epoch: int


def control_type(key: bytes | None) -> ControlType:
    """What the control record with this key says. Raises CorruptRecords for a key that is none."""
    if key is None or len(key) < _KEY.size:
        raise CorruptRecords(f"a control record's key takes {_KEY.size} bytes; this one is {key!r}")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecords(f"a control record's key has the impossible version {version}")
    return ControlType(kind)


def control_key(kind: ControlType) -> bytes:
    """The key of a control record, in version 0."""
    return _KEY.pack(0, kind)


def parse_end_transaction(batch: Batch) -> EndTxnMarker | None:
    """The marker in a control batch, or None where the batch says something else. Raises CorruptRecords."""
    records = batch.records()
    if not records:
        return None  # The cleaner empties a batch and keeps its header.
    kind = control_type(records[0].key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    value = records[0].value
    if value is None or len(value) < _MARKER.size:
        raise CorruptRecords(f"a marker's value takes {_MARKER.size} bytes; this one is {value!r}")
    version, coordinator_epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise CorruptRecords(f"a marker with the impossible version {version}")
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
    """The batch that ends the open transaction of this producer id and epoch; `timestamp` in ms."""
    return encode_control(
        marker.type,
        _MARKER.pack(0, marker.coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        timestamp=timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def encode_control(
    kind: ControlType,
    value: bytes,
    *,
    timestamp: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A control batch of one record."""
    return encode_batch(
        [Record(-1, timestamp, control_key(kind), value)],
        control=True,
        transactional=transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )
