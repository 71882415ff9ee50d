"""Measures small requests from many connections: closed-loop clients over bare sockets, beside the node's CPU time.

*In*: each connection sends a Produce of a record of 100 bytes with acks=1, and the next once the last is acknowledged.
*Out*: each connection waits with a Fetch at the end of a partition; a producer sends the next record once all have the
last. The CPU time is that of the node's process with all its threads and the kernel's work for it; it depends less than
a rate on what else uses the cores. That of a delivery includes its share of the Produce.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from bench.nodes import Node
from bench.raw import create_topic
from bench.results import Beside, Figure, Goal
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record

TOPIC = "connections"
CONNECTIONS = (1, 64, 1000)
RECORD_BYTES = 100
PRODUCE_VERSION, FETCH_VERSION = 9, 12
FETCH_SIZE_BYTES = 1 << 20
LONG_POLL_MS = 5_000
TIMEOUT_S = 30
RECEIVE_SIZE_BYTES = 1 << 16
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Load:
    """What was measured in one interval.

    Attributes:
        times: The duration of each request, or the time from sending a record until its delivery, in seconds.
        seconds: The length of the interval.
        cpu_s: The CPU time of the node in it.
    """

    times: list[float] = field(default_factory=lambda: [])
    seconds: float = 0
    cpu_s: float = 0


def measure_connections(node: Node, quick: bool) -> Iterator[Figure]:
    """Rate, latency and CPU time of requests in and deliveries out, and the memory, by number of connections."""
    create_topic(node.address, TOPIC)
    for what, drive in (("requests", produce), ("deliveries", deliver)):
        for count in CONNECTIONS:
            load = drive(node, count, 1 if quick else 5, 1 if quick else 8)
            yield from figures(node, f"{what}, {count:,} connections", what, load, goal=count > 1)


def figures(node: Node, subject: str, what: str, load: Load, *, goal: bool) -> Iterator[Figure]:
    cuts = quantiles(load.times, n=100)
    rate, below = (Goal(20_000), Beside(at_most=True)) if goal else (None, None)
    yield Figure(subject, f"{what}/s", rate, {node.name: len(load.times) / load.seconds})
    yield Figure(subject, "ms, p50", None, {node.name: cuts[49] * 1000})
    yield Figure(subject, "ms, p99", below, {node.name: cuts[98] * 1000})
    yield Figure(subject, "µs of CPU each", None, {node.name: load.cpu_s / len(load.times) * 1e6})
    yield Figure(subject, "MiB of memory", None, {node.name: node.resident_bytes() / 2**20})


def produce(node: Node, count: int, warm_up_s: float, seconds: float) -> Load:
    """Requests in."""
    clients = Clients(node, count)
    request = produce_request()
    for client in clients.sockets.values():
        client.sendall(request)
    sent = dict.fromkeys(clients.sockets, time.perf_counter())

    def turn(times: list[float]) -> None:
        answered = []
        for fd, _ in clients.answered():
            times.append(time.perf_counter() - sent[fd])
            answered.append(fd)
        for fd in answered:  # as independent clients do: none has its next request out before others are heard
            sent[fd] = time.perf_counter()
            clients.sockets[fd].sendall(request)

    try:
        return timed(node, turn, warm_up_s, seconds)
    finally:
        clients.close()


def deliver(node: Node, count: int, warm_up_s: float, seconds: float) -> Load:
    """Deliveries out: each turn is a record for all connections."""
    consumers, producer = Clients(node, count), Clients(node, 1)
    request = produce_request()
    [source] = producer.sockets.values()
    source.sendall(request)
    offset = base_offset(next(iter(producer.answered()))[1]) + 1
    for client in consumers.sockets.values():
        client.sendall(fetch_request(offset))

    def turn(times: list[float]) -> None:
        nonlocal offset
        offset += 1
        after, missing, began = fetch_request(offset), count, time.perf_counter()
        source.sendall(request)
        while missing:
            answered = []
            for fd, _ in consumers.answered():
                times.append(time.perf_counter() - began)
                answered.append(fd)
            for fd in answered:
                consumers.sockets[fd].sendall(after)
            missing -= len(answered)
        if base_offset(next(iter(producer.answered()))[1]) != offset - 1:
            raise SystemExit(f"{node.name} gave a record another offset than {offset - 1}")

    try:
        return timed(node, turn, warm_up_s, seconds)
    finally:
        consumers.close()
        producer.close()


def timed(node: Node, turn: Callable[[list[float]], None], warm_up_s: float, seconds: float) -> Load:
    """Take turns, first unmeasured ones."""
    load = Load()
    end = time.perf_counter() + warm_up_s
    while time.perf_counter() < end:
        turn([])
    began, before = time.perf_counter(), cpu_s(node)
    end = began + seconds
    while time.perf_counter() < end:
        turn(load.times)
    load.seconds = time.perf_counter() - began
    load.cpu_s = cpu_s(node) - before
    return load


class Clients:
    """Connections that each have one request in flight."""

    def __init__(self, node: Node, count: int) -> None:
        self.sockets: dict[int, socket.socket] = {}
        self._received: dict[int, bytes] = {}
        self._poll = select.epoll()
        self._name = node.name
        for _ in range(count):
            client = socket.create_connection(node.address, TIMEOUT_S)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets[client.fileno()] = client
            self._poll.register(client.fileno(), select.EPOLLIN)

    def answered(self) -> Iterator[tuple[int, bytes]]:
        """Wait until at least one response is complete; each with its connection."""
        found = False
        while not found:
            ready = self._poll.poll(TIMEOUT_S)
            if not ready:
                raise SystemExit(f"{self._name} does not answer")
            for fd, _ in ready:
                data = self._received.pop(fd, b"") + self.sockets[fd].recv(RECEIVE_SIZE_BYTES)
                if not data:
                    raise SystemExit(f"{self._name} closed a connection")
                if len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
                    self._received[fd] = data
                    continue
                found = True
                yield fd, data

    def close(self) -> None:
        """Close all connections."""
        self._poll.close()
        for client in self.sockets.values():
            client.close()


def cpu_s(node: Node) -> float:
    """The CPU time of the node's process so far, of user and system, in seconds."""
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def produce_request() -> bytes:
    batch = encode_batch([Record(0, 1_700_000_000_000, None, bytes(RECORD_BYTES), ())])
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data])
    return encode_request(request, PRODUCE_VERSION, 1, "bench")


def base_offset(response: bytes) -> int:
    """The base offset in the response to `produce_request`, which must not have an error.

    It lies behind the size, the correlation id, the header's tags, one topic, and its one partition's index.
    """
    position = 4 + 4 + 1 + 1 + 1 + len(TOPIC) + 1 + 4
    error_code, offset = struct.unpack_from(">hq", response, position)
    if error_code:
        raise SystemExit(f"a record was not appended: error {error_code}")
    return int(offset)


def fetch_request(offset: int) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_SIZE_BYTES)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=LONG_POLL_MS,
        min_bytes=1,
        max_bytes=FETCH_SIZE_BYTES,
        isolation_level=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    return encode_request(request, FETCH_VERSION, 1, "bench")
