"""Measures groups: how fast one settles after a change, commits, the first record, and many groups on one node.

*Settled* is a group whose members all know the same generation or epoch, and have all partitions, as they see it. All
members live in one process (`light_members.py`) and send heartbeats every 200 ms, which is how they learn of changes.
What a change costs therefore depends on when in the interval it comes: joins and leaves come at random moments of it,
the same ones for both nodes, five of each in a round. A session lasts ten intervals and a half, and a death is measured
from the end of the dead member's session.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

import trio

from bench.connections import Clients
from bench.light_members import HEARTBEAT_MS, MEMBERS, SESSION_MS, Group, Member
from bench.nodes import Node
from bench.raw import Connection, create_topic
from bench.results import Beside, Figure, Goal
from minikafka.client import Admin, Consumer
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record

SIZES, PARTITIONS = (3, 30, 100), (12, 300)
EVENTS = ("a join", "a leave", "a death")
ROUNDS, ROUNDS_OF_GOALS = 3, 12
CHANGES = 5
"""Joins, and leaves, in a round; they take turns. A round has one death, for it takes a session."""
SETTLE_MS_MAX, COMMITS_MIN, FIRST_RECORD_MS_MAX = 1500, 5000, 100
COMMITTERS = 32
GROUPS = 1000
SETTINGS: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.consumer.assignment.interval.ms": 0,
}
NUMBERS = itertools.count()


def measure_groups(kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    """Settling by members and partitions, commits, the first record; then 1,000 groups on another node."""
    with kind(folder / "groups", SETTINGS) as node:
        for count in PARTITIONS:
            trio.run(_make_topic, node, f"settle-{count}", count)
        for protocol, size, partitions in itertools.product(MEMBERS, SIZES, PARTITIONS):
            goal = Beside(at_most=True, limit=SETTLE_MS_MAX) if (size, partitions) == (100, 300) else None
            numbers = range(1 if quick else ROUNDS if goal is None else ROUNDS_OF_GOALS)
            rounds = [trio.run(_settle, node, protocol, size, partitions, random.Random(one)) for one in numbers]
            for event in EVENTS:
                times = [seconds for one in rounds for seconds in one[event]]
                subject = f"{protocol}: {size} members, {partitions} partitions, settled after {event}"
                yield Figure(subject, "ms", goal, {node.name: median(times) * 1000})
        yield Figure("commits", "commits/s", Goal(COMMITS_MIN), {node.name: commits(node, 1 if quick else 5)})
        for protocol in MEMBERS:
            first = median(trio.run(_first_record, node, protocol) for _ in range(3 if quick else 9))
            goal = Goal(FIRST_RECORD_MS_MAX, at_most=True)
            yield Figure(f"{protocol}: first record after subscribing", "ms", goal, {node.name: first * 1000})
    with kind(folder / "many", {"group.initial.rebalance.delay.ms": 0}) as node:
        yield from many(node, 2 if quick else 15)


async def _make_topic(node: Node, topic: str, partitions: int) -> None:
    async with Admin(bootstrap_servers=node.bootstrap) as admin:
        await admin.create_topic(topic, partitions=partitions)
        await admin.cluster.retry(lambda: admin.cluster.coordinator(topic), "creating __consumer_offsets")


async def _settle(
    node: Node, protocol: str, size: int, partitions: int, moments: random.Random
) -> dict[str, list[float]]:
    """The seconds in which a group of `size` members settles, by event."""
    group = Group(node.address, f"settle-{next(NUMBERS)}", f"settle-{partitions}", partitions)
    times: dict[str, list[float]] = {event: [] for event in EVENTS}
    async with trio.open_nursery() as tasks:
        for _ in range(size):
            tasks.start_soon(MEMBERS[protocol](group).run)
        await group.settle()
        for event in (*(EVENTS[:2] * CHANGES), EVENTS[2]):
            await trio.sleep((1 + moments.random()) * HEARTBEAT_MS / 1000)
            before = group.members[0].epoch
            began = _change(group, protocol, event, tasks)
            times[event].append(await group.settle(before) - began)
        for member in group.members:
            member.leaves.set()
    return times


def _change(group: Group, protocol: str, event: str, tasks: trio.Nursery) -> float:
    """Begin; return from when on it counts."""
    if event == "a join":
        tasks.start_soon(MEMBERS[protocol](group).run)
        return time.perf_counter()
    gone: Member = group.members.pop(0)
    if event == "a leave":
        gone.leaves.set()
        return time.perf_counter()
    gone.scope.cancel()
    return gone.heard_at + SESSION_MS / 1000


def commits(node: Node, seconds: float) -> float:
    """Commits a second of connections that each send the next one once the last is answered."""
    topic = f"commits-{next(NUMBERS)}"
    create_topic(node.address, topic)
    clients = Clients(node, COMMITTERS)
    requests = {
        fd: encode_request(commit_request(f"commits-{number % 8}", topic), 8, 1, "bench")
        for number, fd in enumerate(clients.sockets)
    }
    for fd, client in clients.sockets.items():
        client.sendall(requests[fd])
    count, began, end = 0, time.perf_counter() + 1, time.perf_counter() + 1 + seconds
    while (now := time.perf_counter()) < end:
        for fd, _ in list(clients.answered()):
            count += now >= began
            clients.sockets[fd].sendall(requests[fd])
    clients.close()
    return count / seconds


def commit_request(group_id: str, topic: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=topics)


async def _first_record(node: Node, protocol: str) -> float:
    """The seconds from subscribing, as a new group, until a record that was there before."""
    topic = f"first-{next(NUMBERS)}"
    await trio.to_thread.run_sync(_fill, node, topic)
    arguments = {"group_id": topic, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    async with Consumer(bootstrap_servers=node.bootstrap, **arguments) as consumer:  # type: ignore[arg-type]
        began = time.perf_counter()
        await consumer.subscribe([topic])
        while not await consumer.poll(10_000):
            pass
        return time.perf_counter() - began


def _fill(node: Node, topic: str) -> None:
    create_topic(node.address, topic)
    batch = encode_batch([Record(0, 1_700_000_000_000, None, bytes(100), ())])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    connection = Connection(node.address)
    connection.ask(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 9)
    connection.close()


def many(node: Node, seconds: float) -> Iterator[Figure]:
    """Memory and heartbeats of 1,000 groups with one member each."""
    trio.run(_make_topic, node, "many", 1)
    before = node.resident_bytes()
    latencies = trio.run(_many, node, seconds)
    cuts = quantiles(latencies, n=100)
    subject = f"{GROUPS:,} groups of one member"
    yield Figure(subject, "MiB more memory", None, {node.name: (node.resident_bytes() - before) / 2**20})
    yield Figure(f"{subject}, heartbeat", "ms, p50", None, {node.name: cuts[49] * 1000})
    yield Figure(f"{subject}, heartbeat", "ms, p99", None, {node.name: cuts[98] * 1000})


async def _many(node: Node, seconds: float) -> list[float]:
    """How long heartbeats take, each member's every five seconds at times of its own."""
    groups = [Group(node.address, f"many-{number}", "many", 1) for number in range(GROUPS)]
    async with trio.open_nursery() as tasks:
        for group in groups:
            tasks.start_soon(MEMBERS["consumer"](group, heartbeat_ms=5_000).run)
            await trio.sleep(5 / GROUPS)
        for group in groups:
            await group.settle()
            group.latencies_s.clear()
        await trio.sleep(seconds + 5)
        tasks.cancel_scope.cancel()
    return [one for group in groups for one in group.latencies_s]
