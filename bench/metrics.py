"""Measures what metrics cost: a node with `metrics.listener` beside one without, in alternating rounds.

Compared is the CPU time of the nodes, which other work on the machine disturbs less than rates; of each round with
metrics and the one before it without, the quotient; of the quotients of two nodes, the median. Two nodes with the same
settings differ by a few percent, each time they are started (memory lies elsewhere), so several pairs of nodes are
measured: stated is the mean of the pairs, with its standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, median, stdev

from bench.nodes import KafkaNode, Node, free_port
from bench.raw import Connection, create_topic
from bench.results import Figure, Goal
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record

TOPIC = "measured"
PIPELINED = 50
GOAL = Goal(2, at_most=True)
Work = Callable[[Connection], int]


def measure_metrics(kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    """The additional CPU time of a node whose requests are measured."""
    if kind is KafkaNode:
        return
    pairs, rounds = (2, 30) if quick else (12, 60)
    measured = [_two_nodes(kind, folder / str(number), rounds) for number in range(pairs)]
    for subject in CASES:
        usual_us = median(before for pair in measured for before, _ in pair[subject])
        costs = [100 * (median(after / before for before, after in pair[subject]) - 1) for pair in measured]
        yield Figure(f"{subject}, without metrics", "µs of CPU each", None, {kind.name: usual_us})
        yield Figure(f"{subject}, more with metrics", "%", GOAL, {kind.name: fmean(costs)})
        yield Figure(f"{subject}, standard error", "%", None, {kind.name: stdev(costs) / len(costs) ** 0.5})


def _two_nodes(kind: type[Node], folder: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """What a request of each case costs a node without metrics and one with them, round by round."""
    metrics: dict[str, object] = {"metrics.listener": f"http://127.0.0.1:{free_port()}"}
    with kind(folder / "without") as without, kind(folder / "with", metrics) as with_metrics:
        for node in (without, with_metrics):
            create_topic(node.address, TOPIC)
        return {
            subject: [_pair(without, with_metrics, work, swapped=bool(n % 2)) for n in range(rounds + 10)][10:]
            for subject, work in CASES.items()
        }


def _pair(one: Node, other: Node, work: Work, *, swapped: bool) -> tuple[float, float]:
    """What a request costs each node; which of them comes first alternates."""
    if swapped:
        after, before = _cpu_us(other, work), _cpu_us(one, work)
        return before, after
    return _cpu_us(one, work), _cpu_us(other, work)


def _cpu_us(node: Node, work: Work) -> float:
    """The CPU time of the node's event loop for each request, in microseconds."""
    connection = Connection(node.address)
    schedstat = Path(f"/proc/{node.pid}/schedstat")
    began = int(schedstat.read_text().split()[0])
    requests = work(connection)
    used_ns = int(schedstat.read_text().split()[0]) - began
    connection.close()
    return used_ns / 1000 / requests


def _one_at_a_time(request: bytes, count: int) -> Work:
    def work(connection: Connection) -> int:
        for _ in range(count):
            connection.exchange(request)
        return count

    return work


def _pipelined(request: bytes, rounds: int) -> Work:
    requests = request * PIPELINED

    def work(connection: Connection) -> int:
        size_bytes = 4 + len(connection.exchange(request))
        for _ in range(rounds):
            connection.socket.sendall(requests)
            connection.receive(size_bytes * PIPELINED)
        return rounds * PIPELINED + 1

    return work


def _produce(records: int, size_bytes: int) -> bytes:
    batch = encode_batch([Record(offset, 1_700_000_000_000, None, bytes(size_bytes), ()) for offset in range(records)])
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    return encode_request(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 9, 1, "bench")


def _fetch(max_bytes: int) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
    request = FetchRequest(max_wait_ms=0, max_bytes=max_bytes, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])
    return encode_request(request, 11, 1, "bench")


CASES: dict[str, Work] = {
    "Produce of 1 record, one at a time": _one_at_a_time(_produce(1, 100), 200),
    "Produce of 1 record, pipelined": _pipelined(_produce(1, 100), 8),
    "Produce of 100 records, one at a time": _one_at_a_time(_produce(100, 100), 100),
    "Fetch of 16 KiB, one at a time": _one_at_a_time(_fetch(16 << 10), 100),
    "Fetch of 256 KiB, one at a time": _one_at_a_time(_fetch(256 << 10), 50),
}
