"""Measures requests over a bare socket, without the cost of a client."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from statistics import median, quantiles
from typing import Any

from bench.nodes import Node
from bench.results import Figure, Goal
from minikafka.protocol.apis import api_of
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record

NOT_READY = {3, 5, 6}
LATEST = -1
PIPELINED = 200
CONNECTIONS = 4


class Connection:
    """A connection that sends encoded requests; with `tls`, its handshake is done."""

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket)

    def exchange(self, request: bytes) -> bytes:
        """Send a request and return the response, without the size prefix."""
        self.socket.sendall(request)
        [size] = struct.unpack(">i", self.receive(4))
        return self.receive(size)

    def ask(self, message: Any, version: int) -> Any:
        answer = self.exchange(encode_request(message, version, 1, "bench"))
        return decode_response(api_of(type(message)).response, version, answer)[1]

    def receive(self, count: int) -> bytes:
        received = self.socket.recv(count)
        while len(received) < count:
            more = self.socket.recv(count - len(received))
            if not more:
                raise ConnectionError("connection closed by the node")
            received += more
        return received

    def close(self) -> None:
        self.socket.close()


def create_topic(
    address: tuple[str, int], topic: str, configs: dict[str, str] | None = None, partitions: int = 1
) -> None:
    """Create a topic and wait until its first partition accepts records."""
    settings = [CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()]
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=settings)
    connection = Connection(address)
    created = connection.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 5).topics[0]
    if created.error_code:
        raise SystemExit(f"topic {topic} was not created: error {created.error_code}")
    while connection.ask(list_offsets(topic, LATEST), 5).topics[0].partitions[0].error_code in NOT_READY:
        time.sleep(0.05)
    connection.close()


def delete_topic(address: tuple[str, int], topic: str) -> None:
    connection = Connection(address)
    deleted = connection.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000), 5).responses[0]
    if deleted.error_code:
        raise SystemExit(f"topic {topic} was not deleted: error {deleted.error_code}")
    connection.close()


def list_offsets(topic: str, timestamp: int) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])


def measure_requests(node: Node, quick: bool) -> Iterator[Figure]:
    """Small requests, with hundreds in flight on each of a few connections."""
    create_topic(node.address, "requests")
    connections = [Connection(node.address) for _ in range(CONNECTIONS)]
    request = encode_request(list_offsets("requests", LATEST), 5, 1, "bench")
    response_bytes = 4 + len(connections[0].exchange(request))
    requests = request * PIPELINED
    rounds = 20 if quick else 150
    pipelined_rounds(connections, requests, response_bytes, 10)
    began = time.perf_counter()
    pipelined_rounds(connections, requests, response_bytes, rounds)
    rate = rounds * PIPELINED * CONNECTIONS / (time.perf_counter() - began)
    yield Figure("small requests, pipelined (ListOffsets)", "requests/s", None, {node.name: rate})
    for connection in connections:
        connection.close()


def pipelined_rounds(connections: list[Connection], requests: bytes, response_bytes: int, rounds: int) -> None:
    """Send the next requests before reading the last responses, so that all connections stay busy."""
    for connection in connections:
        connection.socket.sendall(requests)
    for number in range(rounds):
        for connection in connections:
            if number < rounds - 1:
                connection.socket.sendall(requests)
            connection.receive(response_bytes * PIPELINED)


def measure_latency(node: Node, quick: bool) -> Iterator[Figure]:
    """One record at a time, each after the acknowledgement of the previous one: acks=1, 100 bytes."""
    create_topic(node.address, "latency")
    batch = encode_batch([Record(0, 1_700_000_000_000, None, bytes(100), ())])
    data = TopicProduceData(name="latency", partition_data=[PartitionProduceData(index=0, records=batch)])
    request = encode_request(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 9, 1, "bench")
    connection = Connection(node.address)
    timed(connection, [request] * (2_000 if quick else 10_000))
    rounds = [timed(connection, [request] * 3_000) for _ in range(1 if quick else 7)]
    connection.close()
    rate = median(len(times) / sum(times) for times in rounds)
    cuts = [median(cut) for cut in zip(*(quantiles(times, n=100) for times in rounds), strict=True)]
    yield Figure("one record at a time, acks 1", "records/s", Goal(4000, reference="Kafka 2,500"), {node.name: rate})
    p50, p99 = Goal(0.25, at_most=True, reference="Kafka 0.31"), Goal(1, at_most=True, reference="Kafka 3.4")
    yield Figure("one record at a time, p50", "ms", p50, {node.name: cuts[49] * 1000})
    yield Figure("one record at a time, p99", "ms", p99, {node.name: cuts[98] * 1000})


def timed(connection: Connection, requests: list[bytes]) -> list[float]:
    """The duration of each exchange in seconds."""
    times: list[float] = []
    for request in requests:
        began = time.perf_counter()
        connection.exchange(request)
        times.append(time.perf_counter() - began)
    return times


def lookup_ms(node: Node, topic: str, first_time_ms: int, count: int, lookups: int) -> float:
    """The median time of a ListOffsets request for a random timestamp, in ms."""
    generator = random.Random(count)
    connection = Connection(node.address)
    requests = [
        encode_request(list_offsets(topic, first_time_ms + generator.randrange(count)), 5, 1, "bench")
        for _ in range(lookups)
    ]
    times = timed(connection, requests)
    connection.close()
    return quantiles(times, n=100)[49] * 1000
