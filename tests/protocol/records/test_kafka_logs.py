"""Logs written by Apache Kafka decode to the records that its consumer read, and encode to the same bytes."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from support.batches import encode_batch

from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.control import ControlType, parse_end_transaction
from minikafka.protocol.records.record import Record

LOGS = Path(__file__).resolve().parents[3].parent / "shared" / "kafka-logs"
MANIFEST: dict[str, Any] = (
    json.loads((LOGS / "manifest.json").read_text()) if (LOGS / "manifest.json").exists() else {}
)
pytestmark = pytest.mark.skipif(not MANIFEST, reason="no ../shared/kafka-logs beside the checkout")


def stored_batches(topic: str) -> list[Batch]:
    """Every batch in the files of partition 0, without preallocated or truncated tails."""
    files = sorted((LOGS / "clean" / f"{topic}-0").glob("*.log"))
    return [batch for file in files for batch in batches(file.read_bytes())]


def matches(field: bytes | None, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return field is not None and [len(field), zlib.crc32(field)] == [wanted["length"], wanted["crc32"]]
    return field == (None if wanted is None else base64.b64decode(wanted))


def is_wanted(record: Record, timestamp_type: int, wanted: list[Any]) -> bool:
    offset, kind, timestamp, key, value, headers = wanted
    return (
        (record.offset, timestamp_type + 1, record.timestamp) == (offset, kind, timestamp)
        and matches(record.key, key)
        and matches(record.value, value)
        and [name for name, _ in record.headers] == [name for name, _ in headers]
        and all(matches(mine[1], other[1]) for mine, other in zip(record.headers, headers, strict=True))
    )


@pytest.mark.parametrize("topic", MANIFEST)
def test_every_record_equals_the_manifest(topic: str) -> None:
    found = [
        (record, batch.timestamp_type)
        for batch in stored_batches(topic)
        if not batch.is_control
        for record in batch.records()
        if record.offset >= MANIFEST[topic]["log_start_offset"]
    ]
    wanted = MANIFEST[topic]["read_uncommitted"]
    assert len(found) == len(wanted)
    wrong = [pair for pair, line in zip(found, wanted, strict=True) if not is_wanted(*pair, line)]
    assert not wrong


@pytest.mark.parametrize("topic", MANIFEST)
def test_batch_headers_match_their_records(topic: str) -> None:
    for batch in stored_batches(topic):
        batch.check_crc()
        records = batch.records()
        assert len(records) == batch.record_count
        if records and not batch.has_delete_horizon:
            assert batch.max_timestamp == max(record.timestamp for record in records)


@pytest.mark.parametrize("topic", MANIFEST)
def test_uncompressed_batches_encode_to_the_same_bytes(topic: str) -> None:
    for batch in stored_batches(topic):
        if batch.codec is Codec.NONE and not batch.timestamp_type:  # LogAppendTime overwrites the producer's timestamps
            assert encode_again(batch, Codec.NONE) == bytes(batch.data)


@pytest.mark.parametrize("codec", Codec)
def test_recompressed_batches_contain_the_same_records(codec: Codec) -> None:
    for batch in stored_batches("mixed-codecs"):
        again = next(batches(encode_again(batch, codec)))
        again.check_crc()
        assert again.codec is codec
        assert again.records() == batch.records()


def encode_again(batch: Batch, codec: Codec) -> bytes:
    records = batch.records()
    return encode_batch(
        records,
        codec=codec,
        base_offset=batch.base_offset,
        timestamp_type=batch.timestamp_type,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        leader_epoch=batch.leader_epoch,
        deltas=[record.offset - batch.base_offset for record in records],
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        delete_horizon=batch.has_delete_horizon,
    )


def test_markers_end_transactions() -> None:
    markers = [parse_end_transaction(batch) for batch in stored_batches("transactions") if batch.is_control]
    assert {marker.type for marker in markers if marker} == {ControlType.ABORT, ControlType.COMMIT}


def test_a_truncated_log_ends_with_its_last_complete_batch() -> None:
    data = next((LOGS / "clean" / "codec-none-0").glob("*.log")).read_bytes()
    ends: list[int] = []
    for batch in batches(data):
        ends.append((ends[-1] if ends else 0) + batch.size_bytes)
    for size in range(0, len(data), 61):
        assert len(list(batches(data[:size]))) == sum(end <= size for end in ends)
