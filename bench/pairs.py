"""Measures what settings of a node cost: a node that has them beside one that does not, in alternating rounds.

Compared is the CPU time of the nodes, which other work on the machine disturbs less than rates; of each round with the
settings and the one beside it without, the quotient; of the quotients of two nodes, the median. Two nodes with the same
settings differ by a few percent, each time they are started (memory lies elsewhere), so several pairs of nodes are
measured: stated is the mean of the pairs, with its standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev

from bench.nodes import Node
from bench.raw import Connection, create_topic
from bench.results import Figure, Goal
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record

TOPIC = "measured"
ROUNDS_NOT_MEASURED = 10
MICROSECONDS = list[tuple[float, float]]
"""What a request costs the node without the settings and the one with them, round by round."""


@dataclass(frozen=True)
class Case:
    """Equal requests, whose responses are of equal size.

    Attributes:
        request: With its size.
        turns: How often all connections send, each once the responses to all of the last turn are there.
        connections: Of one process.
        pipelined: How many requests each connection sends in a turn.
    """

    request: bytes
    turns: int
    connections: int = 1
    pipelined: int = 1


@dataclass(frozen=True)
class Compared:
    """What is measured.

    Attributes:
        name: What the settings are called in the table.
        settings: The settings of the second node of each pair, by name; called for each.
        goal: Of the additional CPU time in percent.
        prepare: Called with each of both nodes once it runs, and whether it has the settings.
    """

    name: str
    settings: Callable[[], dict[str, object]]
    goal: Goal
    cases: Mapping[str, Case]
    prepare: Callable[[Node, bool], None] = lambda node, has_them: create_topic(node.address, TOPIC)


def measure_pairs(what: Compared, kind: type[Node], folder: Path, pairs: int, rounds: int) -> Iterator[Figure]:
    """The CPU time of requests without the settings, and how many percent more they take with them."""
    measured = [_two_nodes(what, kind, folder / str(number), rounds) for number in range(pairs)]
    for subject in what.cases:
        usual_us = median(before for pair in measured for before, _ in pair[subject])
        costs = [100 * (median(after / before for before, after in pair[subject]) - 1) for pair in measured]
        yield Figure(f"{subject}, without {what.name}", "µs of CPU each", None, {kind.name: usual_us})
        yield Figure(f"{subject}, more with {what.name}", "%", what.goal, {kind.name: fmean(costs)})
        yield Figure(f"{subject}, standard error", "%", None, {kind.name: stdev(costs) / len(costs) ** 0.5})


def _two_nodes(what: Compared, kind: type[Node], folder: Path, rounds: int) -> dict[str, MICROSECONDS]:
    with kind(folder / "without") as without, kind(folder / "with", what.settings()) as having:
        what.prepare(without, False)
        what.prepare(having, True)
        return {subject: _in_turns(without, having, case, rounds) for subject, case in what.cases.items()}


def _in_turns(without: Node, having: Node, case: Case, rounds: int) -> MICROSECONDS:
    """Measure a case with both nodes in alternating rounds; which of them comes first alternates."""
    with ExitStack() as stack:
        clients = {
            node: [stack.enter_context(closing(Connection(node.address))) for _ in range(case.connections)]
            for node in (without, having)
        }
        pairs: MICROSECONDS = []
        for number in range(rounds + ROUNDS_NOT_MEASURED):
            order = (without, having) if number % 2 else (having, without)
            used = {node: _cpu_us(node, clients[node], case) for node in order}
            pairs.append((used[without], used[having]))
    return pairs[ROUNDS_NOT_MEASURED:]


def _cpu_us(node: Node, connections: list[Connection], case: Case) -> float:
    """The CPU time of the node's event loop for each request, in microseconds."""
    size_bytes = 4 + len(connections[0].exchange(case.request))
    requests, received_bytes = case.request * case.pipelined, size_bytes * case.pipelined
    schedstat = Path(f"/proc/{node.pid}/schedstat")
    began = int(schedstat.read_text().split()[0])
    for _ in range(case.turns):
        for connection in connections:
            connection.socket.sendall(requests)
        for connection in connections:
            connection.receive(received_bytes)
    used_ns = int(schedstat.read_text().split()[0]) - began
    return used_ns / 1000 / (case.turns * len(connections) * case.pipelined)


def produce(records: int, size_bytes: int) -> bytes:
    """A Produce of a batch to `TOPIC`."""
    batch = encode_batch([Record(offset, 1_700_000_000_000, None, bytes(size_bytes), ()) for offset in range(records)])
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    return encode_request(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 9, 1, "bench")


def fetch(max_bytes: int) -> bytes:
    """A Fetch from the begin of `TOPIC`."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
    request = FetchRequest(max_wait_ms=0, max_bytes=max_bytes, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])
    return encode_request(request, 11, 1, "bench")
