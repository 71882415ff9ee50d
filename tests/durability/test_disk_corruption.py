"""A segment that becomes corrupt on a running node: fetches of its records fail, all others succeed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from support.clients import connect
from support.clients_logs import segments
from support.clients_raw import RawConnection
from support.node import NodeProcess, ServerProcess
from support.oracle import KAFKA_ITSELF, Oracle, needs_oracle

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

pytestmark = pytest.mark.timeout(300)
TOPIC = "corrupt"
BATCHES = 25
VALUE = bytes(100_000)


@pytest.fixture(params=["minikafka", pytest.param("kafka", marks=[*KAFKA_ITSELF, needs_oracle])])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    make = Oracle if request.param == "kafka" else NodeProcess
    with make(tmp_path / "data") as running:
        yield running


@pytest.mark.slow
def test_a_corrupt_batch_fails_only_fetches_of_its_records(node: ServerProcess) -> None:
    with connect("confluent-kafka", node.bootstrap) as client:
        client.create_topic(TOPIC, settings={"segment.bytes": "1048576"})
        client.create_topic("intact")
    for _ in range(BATCHES):
        produce(node, TOPIC, VALUE)
    assert node.terminate() == 0
    first, second, *_ = segments(logs(node) / f"{TOPIC}-0")
    break_length(first, 4)
    node.start()
    behind = int(second.stem)
    codes = [fetch(node, TOPIC, offset) for offset in (0, 4, behind, BATCHES - 1)]
    assert codes == [ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE, ErrorCode.NONE]
    produce(node, TOPIC, b"next")
    produce(node, "intact", b"next")
    assert fetch(node, TOPIC, BATCHES) == fetch(node, "intact", 0) == ErrorCode.NONE


def logs(node: ServerProcess) -> Path:
    return node.logs if isinstance(node, Oracle) else node.data_dir


def produce(node: ServerProcess, topic: str, value: bytes) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def break_length(segment: Path, number: int) -> None:
    """Sets the length of a batch to an invalid value."""
    data, at = bytearray(segment.read_bytes()), 0
    for _ in range(number):
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    struct.pack_into(">i", data, at + 8, 3)
    segment.write_bytes(data)


def fetch(node: ServerProcess, topic: str, offset: int) -> ErrorCode:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    request = FetchRequest(max_bytes=1000, topics=[FetchTopic(topic=topic, partitions=[partition])])
    with RawConnection(node.address) as connection:
        answer = connection.ask(request, 12)
    return ErrorCode(answer.responses[0].partitions[0].error_code)
