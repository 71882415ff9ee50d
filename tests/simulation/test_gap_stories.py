"""Stories about what goes on during a rebalance: the largest gap in what is read of each partition, counted in records.

A writer gives each partition a record in turn. The gap of a partition is the number of records that are written to it
between two that a member reads. It is counted from the events in their order, so that a partition which waits for a
rebalance is seen even though it ends where it began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio
import pytest

from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.consumer.listener import Listener
from minikafka.client.producer.producer import Producer
from minikafka.protocol.names import TopicPartition
from simulation.story import Story, Tell

GROUP, TOPIC = "delays", "flights"
PARTITIONS, MEMBERS, KEPT_MIN = 12, 4, 9
GAP_MAX = 2
"""In records: one is written while the one before is on its way."""
WRITTEN_MIN = 5
"""Records for each partition during the rebalance; with fewer a gap could not be told from a turn."""
TURN_S = 0.1
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
}
HEARTBEATS_MS = (300, 500, 700, 2900, 500)
"""Of the members of a classic group: they notice a rebalance one after the other."""
COOPERATIVE = {"session_timeout_ms": 9000, "partition_assignment_strategy": ["cooperative-sticky"]}
EAGER = {"session_timeout_ms": 9000, "partition_assignment_strategy": ["range"]}
CONSUMER = {"group_protocol": "consumer"}


@dataclass(frozen=True)
class Event:
    """A record that a member read or the writer wrote, or partitions that a member was given or gave up.

    Attributes:
        what: "read", "written", "assigned", "revoked" or "lost".
        member: Empty for the writer.
        offset: Of a record; -1 otherwise.
    """

    what: str
    member: str
    partitions: frozenset[int]
    offset: int = -1


class Course:
    """What happened, in order.

    Attributes:
        owners: The member that has each partition.
    """

    def __init__(self, story: Story) -> None:
        self.story = story
        self.events: list[Event] = []
        self.owners: dict[int, str] = {}
        self.written = 0

    def note(self, what: str, member: str, partitions: Sequence[int], offset: int = -1) -> None:
        self.events.append(Event(what, member, frozenset(partitions), offset))

    async def write(self, seams: Seams) -> None:
        """A record for each partition, again and again."""
        async with Producer(bootstrap_servers=self.story.cluster.bootstrap_servers, seams=seams) as producer:
            while True:
                for partition in range(PARTITIONS):
                    await producer.send(TOPIC, b"", partition=partition)
                await producer.flush()
                self.note("written", "", range(PARTITIONS), self.written)
                self.written += 1
                await anyio.sleep(TURN_S)

    def join(self, number: int, options: Mapping[str, object]) -> None:
        name = f"member-{number}"
        if "session_timeout_ms" in options:
            options = {**options, "heartbeat_interval_ms": HEARTBEATS_MS[number]}
        self.story.cluster.start_client(name, name, Member(self, name, options).run)

    def until_settled(self, members: int) -> None:
        """Let time pass until so many members share the partitions evenly, and for ten turns more."""

        def settled() -> bool:
            shares = [[*self.owners.values()].count(name) for name in sorted({*self.owners.values()})]
            return len(shares) == members and sum(shares) == PARTITIONS and max(shares) - min(shares) <= 1

        self.story.until(settled)
        self.story.wait(10 * TURN_S)
        assert settled()

    def gap(self, partition: int, start: int, end: int | None = None) -> int:
        """The most records that were written to a partition from one that was read to the next, among these events."""
        gap = longest = 0
        for event in self.events[start:end]:
            if partition in event.partitions and event.what == "read":
                gap = 0
            gap += event.what == "written"
            longest = max(longest, gap)
        return longest


class Member(Listener):
    """A consumer in a process of its own."""

    def __init__(self, course: Course, name: str, options: Mapping[str, object]) -> None:
        self._course, self._name, self._options = course, name, options

    async def run(self, seams: Seams) -> None:
        options = {"group_id": GROUP, "auto_offset_reset": "earliest", **self._options}
        servers = self._course.story.cluster.bootstrap_servers
        async with Consumer(bootstrap_servers=servers, seams=seams, **options) as consumer:
            await consumer.subscribe([TOPIC], listener=self)
            while True:
                for one in await consumer.poll(50):
                    self._course.note("read", self._name, [one.partition], one.offset)

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._course.note("assigned", self._name, [tp.partition for tp in partitions])
        self._course.owners |= {tp.partition: self._name for tp in partitions}

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._give_up("revoked", partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._give_up("lost", partitions)

    def _give_up(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        self._course.note(what, self._name, [tp.partition for tp in partitions])
        for tp in partitions:
            del self._course.owners[tp.partition]


def a_fifth_member_joins(tell: Tell, options: Mapping[str, object]) -> tuple[Course, int, set[int]]:
    """Returns what happened, the event before which the fifth member began, and the partitions that nobody gave up."""
    story = tell(SETTINGS, brokers=2)
    story.start()

    async def create(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.create_topic(TOPIC, assignments={number: [1 + number % 2] for number in range(PARTITIONS)})

    story.do(create)
    course = Course(story)
    for number in range(MEMBERS):
        course.join(number, options)
    course.until_settled(MEMBERS)
    story.begin(course.write, host="writer")
    story.until(lambda: course.written >= 2 * WRITTEN_MIN)
    begun = len(course.events)
    course.join(MEMBERS, options)
    course.until_settled(MEMBERS + 1)
    given_up = frozenset[int]().union(*(one.partitions for one in course.events[begun:] if one.what == "revoked"))
    assert not [event for event in course.events if event.what == "lost"]
    return course, begun, {*range(PARTITIONS)} - given_up


@pytest.mark.slow
@pytest.mark.parametrize("options", [COOPERATIVE, CONSUMER], ids=["classic", "consumer"])
def test_nine_of_twelve_partitions_are_read_without_a_gap_while_a_fifth_member_joins(
    tell: Tell, options: Mapping[str, object]
) -> None:
    course, begun, kept = a_fifth_member_joins(tell, options)
    assert len(kept) >= KEPT_MIN
    last = max(at for at, event in enumerate(course.events) if event.what == "assigned" and event.partitions)
    during = course.events[begun:last]
    assert sum(event.what == "written" for event in during) >= WRITTEN_MIN, "the rebalance was too short to be seen"
    written_before = sum(event.what == "written" for event in course.events[:begun])
    for partition in kept:
        assert course.gap(partition, begun, last) <= GAP_MAX, partition
        read = [event for event in during if event.what == "read" and partition in event.partitions]
        assert {event.member for event in read} == {course.owners[partition]}, "it has one reader throughout"
        assert read[-1].offset > written_before, "what was written after the fifth member began was read"
    for partition in range(PARTITIONS):
        offsets = [event.offset for event in course.events if event.what == "read" and partition in event.partitions]
        assert offsets == [*range(len(offsets))], "nothing is passed over, and nothing is read twice"


def test_there_are_gaps_where_members_give_up_all_that_they_have(tell: Tell) -> None:
    """What the other test measures: with `range` each member stops until the last one has noticed the rebalance."""
    course, begun, kept = a_fifth_member_joins(tell, EAGER)
    assert kept == set()
    gaps = [course.gap(partition, begun) for partition in range(PARTITIONS)]
    assert sum(gap > GAP_MAX for gap in gaps) >= KEPT_MIN
