"""Records of consumer groups: the same bytes as Apache Kafka's, and the same text in both dump tools."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.batches import encode_batch
from support.oracle import needs_oracle, tool

from minikafka.broker.coordinator.groups.state.consumer_group_records import (
    CONSUMER_GROUP_RECORDS,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    PartitionMetadata,
    TopicMetadata,
    decode_consumer_group_record,
    encode_consumer_group_record,
)
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.records.record import Record

RECORDED = Path(__file__).with_name("kafkas-consumer-group-records.txt")
BEFORE_4_1 = (
    ConsumerGroupPartitionMetadataKey(group_id="g"),
    ConsumerGroupPartitionMetadataValue(
        topics=[
            TopicMetadata(
                topic_id=b"t" * 16,
                topic_name="t",
                num_partitions=1,
                partition_metadata=[PartitionMetadata(partition=0, racks=["r"])],
            )
        ]
    ),
)


def recorded() -> list[tuple[bytes, bytes | None]]:
    pairs = [line.split() for line in RECORDED.read_text().splitlines() if not line.startswith("#")]
    return [(bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)) for key, value in pairs]


def test_kafkas_records_are_read_and_written_byte_for_byte() -> None:
    types = set()
    for key, value in recorded():
        known = decode_consumer_group_record(key, value)
        assert known is not None
        assert encode_consumer_group_record(*known) == (key, value)
        types.add(int.from_bytes(key[:2], "big"))
    assert types == CONSUMER_GROUP_RECORDS.keys() - {4}, "4 is no longer written"


def test_what_kafka_no_longer_writes_can_be_read() -> None:
    assert decode_consumer_group_record(*encode_consumer_group_record(*BEFORE_4_1)) == BEFORE_4_1


def test_a_member_is_of_the_consumer_protocol_only_if_that_is_said() -> None:
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    for value in (ConsumerGroupMemberMetadataValue(), ConsumerGroupMemberMetadataValue(classic_member_metadata=None)):
        assert decode_consumer_group_record(*encode_consumer_group_record(key, value)) == (key, value)


def test_other_types_are_left_to_others_and_malformed_records_refused() -> None:
    assert decode_consumer_group_record(b"\x00\x02\x00\x01g", None) is None
    for key, value in [(b"\x00", None), (b"\x00\x03\x00\x09g", None), (b"\x00\x03\x00\x01g", b"\x00\x00\x01")]:
        with pytest.raises(MalformedMessage):
            decode_consumer_group_record(key, value)


@pytest.mark.slow
@pytest.mark.oracle
@needs_oracle
def test_both_dump_tools_show_the_same(tmp_path: Path) -> None:
    file = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    file.parent.mkdir()
    pairs = [*recorded(), encode_consumer_group_record(*BEFORE_4_1)]
    file.write_bytes(encode_batch([Record(offset, 0, *pair) for offset, pair in enumerate(pairs)], base_offset=0))
    theirs = tool("dump-log", "--offsets-decoder", "--files", str(file))
    command = [sys.executable, "-m", "minikafka.cli.main", "dump-log", str(file)]
    ours = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    wanted = re.findall(r"key: .*payload: .*", theirs)
    assert len(wanted) == len(pairs)
    assert re.findall(r"key: .*payload: .*", ours) == wanted
