"""Control batches: transaction markers round trip and equal Kafka's bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.batches import encode_batch

from minikafka.protocol.records.batch import parse_header
from minikafka.protocol.records.control import (
    ControlType,
    EndTxnMarker,
    control_key,
    control_type,
    encode_end_transaction,
    parse_end_transaction,
)
from minikafka.protocol.records.record import CorruptRecords, Record


@given(
    kind=st.sampled_from([ControlType.ABORT, ControlType.COMMIT]),
    coordinator_epoch=st.integers(0, (1 << 31) - 1),
    producer_id=st.integers(0, 1 << 62),
    producer_epoch=st.integers(0, (1 << 15) - 1),
)
def test_markers_round_trip(
    kind: ControlType, coordinator_epoch: int, producer_id: int, producer_epoch: int
) -> None:
    marker = EndTxnMarker(kind, coordinator_epoch)
    data = encode_end_transaction(
        marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=5, base_offset=3
    )
    batch = parse_header(data)
    batch.check_crc()
    assert parse_end_transaction(batch) == marker
    assert (batch.is_control, batch.is_transactional, batch.base_sequence) == (True, True, -1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_offset) == (producer_id, producer_epoch, 3)


def test_other_control_records_are_not_markers() -> None:
    record = Record(-1, 1, control_key(ControlType.LEADER_CHANGE), b"\x00\x00")
    batch = parse_header(encode_batch([record], control=True))
    assert parse_end_transaction(batch) is None
    assert control_type(b"\x00\x00\x00\x63") is ControlType.UNKNOWN
    assert control_type(control_key(ControlType.SNAPSHOT_FOOTER)) is ControlType.SNAPSHOT_FOOTER


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_invalid_keys_are_rejected(key: bytes | None) -> None:
    with pytest.raises(CorruptRecords, match="key"):
        control_type(key)


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x00"])
def test_invalid_marker_values_are_rejected(value: bytes | None) -> None:
    batch = encode_batch([Record(-1, 0, control_key(ControlType.ABORT), value)], control=True)
    with pytest.raises(CorruptRecords, match="marker"):
        parse_end_transaction(parse_header(batch))
