"""Requests of 10 MiB that are refused, or whose client goes away: a hundred of each leave nothing in memory."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from itertools import cycle, islice

import pytest
from support.clients_raw import RawConnection, frame, growth_bytes, request, resident_bytes
from support.node import ServerProcess
from support.oracle import Oracle

from minikafka.protocol.messages.alter_configs import AlterableConfig as SetConfig
from minikafka.protocol.messages.alter_configs import AlterConfigsRequest
from minikafka.protocol.messages.alter_configs import AlterConfigsResource as SetResource
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MIB = 1 << 20
SIZE_BYTES = 10 * MIB
TIMES = 100
LEFT_BYTES_MAX = 16 * MIB
NAME = "n" * 30_000
NAMES = range(SIZE_BYTES // len(NAME))
TOO_MANY = 500_000
TOPIC = "memory"


@pytest.fixture(scope="module", autouse=True)
def of_this_node(node: ServerProcess) -> None:
    """Skips Apache Kafka; creates the topic."""
    if isinstance(node, Oracle):
        pytest.skip("about this node's memory")
    with RawConnection(node.address) as first:
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        first.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)


def fetch(topics: list[FetchTopic], max_wait_ms: int = 0) -> bytes:
    asked = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1, session_id=0, session_epoch=-1, topics=topics
    )
    return request(asked, 11)


def partition(number: int = 0) -> FetchPartition:
    return FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1)


def metadata(names: list[str]) -> bytes:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return request(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 8)


def alter_configs(value: str = NAME, count: int = len(NAMES)) -> bytes:
    configs = [SetConfig(name=f"x{number}", value=value) for number in range(count)]
    return request(AlterConfigsRequest(resources=[SetResource(resource_type=2, resource_name="x", configs=configs)]), 1)


def produce() -> bytes:
    data = [PartitionProduceData(index=0, records=bytes(SIZE_BYTES))]
    topics = [TopicProduceData(name=TOPIC, partition_data=data)]
    return request(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 8)


def join_group(session_timeout_ms: int) -> bytes:
    """With the bounds of a node, this session time-out is refused."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(SIZE_BYTES))]
    return request(
        JoinGroupRequest(
            group_id="memory",
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=1000,
            member_id="",
            protocol_type="consumer",
            protocols=protocols,
        ),
        3,
    )


def whole() -> list[bytes]:
    """Requests of 10 MiB with few elements, of several APIs."""
    topics = [FetchTopic(topic=NAME, partitions=[partition()]) for _ in NAMES]
    return [fetch(topics), metadata([NAME] * len(NAMES)), alter_configs(), produce(), join_group(1)]


def waiting() -> bytes:
    """A Fetch of 10 MiB that waits for records: of more topics than these it wants none."""
    topics = [FetchTopic(topic=TOPIC, partitions=[partition()])]
    topics += [FetchTopic(topic=NAME, partitions=[]) for _ in NAMES]
    return fetch(topics, 10_000)


def too_many() -> list[bytes]:
    """Requests with more elements than any client sends."""
    topics = [FetchTopic(topic="t", partitions=[partition(number) for number in range(TOO_MANY)])]
    return [fetch(topics), *[alter_configs("value", TOO_MANY)] * 4]


def malformed() -> list[bytes]:
    return [frame(one[4:-3]) for one in whole()]


def of_key(key: int, version: int) -> bytes:
    return frame(struct.pack(">hhih", key, version, 1, 0) + bytes(SIZE_BYTES))


def hung_up(connection: RawConnection, data: bytes) -> None:
    """The node closes the connection, maybe before it has read all."""
    with contextlib.suppress(ConnectionError):
        connection.send(data)
    assert connection.is_hung_up_on()


def answered(connection: RawConnection, data: bytes) -> None:
    connection.send(data)
    connection.receive_frame()


def left_while_read(connection: RawConnection, data: bytes) -> None:
    connection.send(data[: -len(data) // 10])


def left_while_handled(connection: RawConnection, data: bytes) -> None:
    """The client resets the connection."""
    connection.send(data)
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def left_while_answered(connection: RawConnection, data: bytes) -> None:
    connection.send(data)
    connection.receive(4)


Way = Callable[[RawConnection, bytes], None]
WAYS: dict[str, tuple[Way, Callable[[], list[bytes]]]] = {
    "malformed": (hung_up, malformed),
    "too many elements": (hung_up, too_many),
    "unsupported API or version": (hung_up, lambda: [of_key(1, 99), of_key(0, 99), of_key(1234, 0)]),
    "refused": (answered, whole),
    "left while it is read": (left_while_read, whole),
    "left while it is handled": (left_while_handled, lambda: [*whole(), waiting()]),
    "left while it is answered": (left_while_answered, lambda: [metadata([NAME] * len(NAMES)), alter_configs()]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_a_hundred_large_requests_leave_nothing_in_memory(node: ServerProcess, name: str) -> None:
    way, requests = WAYS[name]
    made = requests()

    def repeat(times: int) -> None:
        for data in islice(cycle(made), times):
            with RawConnection(node.address) as connection:
                way(connection, data)

    repeat(len(made))
    before = resident_bytes(node.pid)
    repeat(TIMES)
    left = growth_bytes(node.pid, before, LEFT_BYTES_MAX)
    assert left < LEFT_BYTES_MAX, f"{left // MIB} MiB are left of {TIMES} requests"
