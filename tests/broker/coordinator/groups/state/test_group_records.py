"""Records of `__consumer_offsets`: Kafka's are read, and the same bytes are written."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.batches import encode_batch
from support.coordinator_bench import NO_DELAY
from support.coordinator_node import MemoryNode
from support.coordinator_requests import commit, member_of_stable_group, with_node
from support.oracle import SHARED, needs_oracle, tool

from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.state.classic_group_states import EMPTY
from minikafka.broker.coordinator.groups.state.group_records import OffsetCommitValue, decode_record, encode_record
from minikafka.controller.metadata.image import Image
from minikafka.protocol.message import MalformedMessage, encode
from minikafka.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from minikafka.protocol.names import uuid_from_text
from minikafka.protocol.records.batch import batches
from minikafka.protocol.records.record import Record

KAFKAS_LOG = SHARED / "kafka-logs" / "clean" / "__consumer_offsets-1" / "00000000000000000000.log"
needs_kafkas_log = pytest.mark.skipif(not KAFKAS_LOG.exists(), reason="no log directories of Kafka's here")


@needs_kafkas_log
def test_kafkas_batches_are_reproduced_byte_for_byte() -> None:
    count = 0
    for batch in batches(KAFKAS_LOG.read_bytes()):
        records: list[Record] = []
        for record in batch.records():
            known = decode_record(record.key or b"", record.value)
            assert known is not None
            records.append(Record(record.offset, record.timestamp, *encode_record(*known)))
            count += 1
        again = encode_batch(
            records, base_offset=batch.base_offset, base_sequence=0, leader_epoch=batch.leader_epoch
        )
        assert again == bytes(batch.data)
    assert count == 5


@needs_kafkas_log
def test_a_coordinator_continues_from_kafkas_log() -> None:
    state = GroupShard(NO_DELAY, Random(0), Image())
    for batch in batches(KAFKAS_LOG.read_bytes()):
        for record in batch.records():
            known = decode_record(record.key or b"", record.value)
            assert known is not None
            state.apply(*known, record.offset, -1)
    group = state.classic_groups["golden-group"]
    assert (group.state, group.generation, group.protocol_type) == (EMPTY, 2, "consumer")
    committed = state.offsets.get("golden-group", "codec-none", 0)
    assert committed is not None
    assert (committed.offset, committed.metadata) == (41, "half way\0")
    assert committed.topic_id == uuid_from_text("GSgMFGb-TpiqysbVGSmfFw")


def test_an_offset_with_explicit_expiry_is_written_as_version_1() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=6, commit_timestamp=1, expire_timestamp=2, leader_epoch=9)
    encoded = encode_record(key, value)
    assert encoded[1] is not None
    assert encoded[1][:2] == b"\x00\x01"
    assert decode_record(*encoded) == (
        key,
        OffsetCommitValue(offset=6, commit_timestamp=1, expire_timestamp=2, leader_epoch=-1),
    )


def test_tombstones_have_no_value() -> None:
    for key in (OffsetCommitKey(group="g", topic="t"), GroupMetadataKey(group="g")):
        encoded = encode_record(key, None)
        assert encoded[1] is None
        assert decode_record(*encoded) == (key, None)


@pytest.mark.parametrize("version", range(4))
def test_groups_of_older_versions_can_be_read(version: int) -> None:
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="m")
    data = version.to_bytes(2, "big") + encode(value, version)
    assert decode_record(b"\x00\x02\x00\x01g", data) == (GroupMetadataKey(group="g"), value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\x00", None),
        (b"\x00\x02\x00\x09g", None),
        (b"\x00\x02\x00\x01g", b"\x00"),
        (b"\x00\x02\x00\x01g", b"\x00\x63"),
    ],
)
def test_malformed_records_are_rejected(key: bytes, value: Any) -> None:
    with pytest.raises(MalformedMessage):
        decode_record(key, value)


def test_unknown_record_types_are_skipped() -> None:
    assert decode_record(b"\x00\x09\x00\x01g", b"") is None


@pytest.mark.slow
@pytest.mark.oracle
@needs_oracle
def test_kafkas_dump_tool_reads_what_the_coordinator_writes(tmp_path: Path) -> None:
    async def body(node: MemoryNode) -> MemoryNode:
        member_id = await member_of_stable_group(node, instance="one")
        await commit(node, {1: 42}, member_id=member_id, generation_id_or_member_epoch=1)
        await commit(node, {0: 7}, version=2, group_id="old", retention_time_ms=60_000)
        return node

    shown = ""
    for number, held in enumerate(with_node(body).logs.batches.values()):
        file = tmp_path / str(number) / "00000000000000000000.log"
        file.parent.mkdir()
        file.write_bytes(b"".join(held))
        shown += tool("dump-log", "--offsets-decoder", "--files", str(file))
    assert shown.count("isvalid: true") == 4
    assert '"version":"3","data":{"protocolType":"consumer","generation":1,"protocol":"range"' in shown
    assert '"groupInstanceId":"one","clientId":"conversation","clientHost":"/127.0.0.1"' in shown
    assert '"version":"4","data":{"offset":42,"leaderEpoch":-1,"metadata":"m","commitTimestamp":' in shown
    assert '"version":"1","data":{"offset":7,"metadata":"m","commitTimestamp":' in shown
