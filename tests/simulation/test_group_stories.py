"""Stories about the members of groups of both protocols: who has which partition, when, and who gets it next.

In all of them no two live members have a partition at the same time, and each partition has a member in the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio
import pytest

from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.consumer.listener import Listener
from minikafka.protocol.errors import FencedInstanceIdError, KafkaError, UnreleasedInstanceIdError
from minikafka.protocol.names import TopicPartition
from simulation.story import Story, Tell

GROUP, TOPIC = "delays", "flights"
OFFSETS = "__consumer_offsets"
PATTERN = "flights.*"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
}
CLASSIC = {
    "session_timeout_ms": 6000,
    "heartbeat_interval_ms": 500,
    "partition_assignment_strategy": ["cooperative-sticky"],
}
CONSUMER = {"group_protocol": "consumer"}
PROTOCOLS = pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])


class Member(Listener):
    """A consumer in a process of its own, and what it has.

    Attributes:
        owned: From the call of the listener on, until the listener has returned that gives it up.
        error: What it has failed with.
        release_s: So long it works on before it gives partitions up.
        given: How many partitions its listener was given.
    """

    def __init__(self, group: Group, name: str, options: Mapping[str, object], pattern: str | None) -> None:
        self.name, self.owned = name, set[TopicPartition]()
        self.error: KafkaError | None = None
        self.release_s = 0.0
        self.given = 0
        self.instance_id = options.get("group_instance_id")
        self._group, self._options, self._pattern = group, options, pattern
        self._wanted: list[str] = ["subscribe"]

    def do(self, wanted: str) -> None:
        """Let it `subscribe`, `unsubscribe` or `leave`."""
        self._wanted.append(wanted)
        self._group.story.until(lambda: not self._wanted)

    async def run(self, seams: Seams) -> None:
        servers = self._group.story.cluster.bootstrap_servers
        options = {"bootstrap_servers": servers, "group_id": GROUP, "metadata_max_age_ms": 2000, **self._options}
        try:
            async with Consumer(seams=seams, **options) as consumer:
                while await self._goes_on(consumer):
                    await self.work(consumer)
        except KafkaError as error:
            self.error = error
            self.owned.clear()
        while self.error is None and self._wanted:
            self._wanted.pop()

    async def work(self, consumer: Consumer) -> None:
        """Take records."""
        await consumer.poll(100)

    async def _goes_on(self, consumer: Consumer) -> bool:
        wanted = self._wanted[0] if self._wanted else ""
        if wanted == "leave":
            return False
        if wanted == "subscribe" and self._pattern:
            await consumer.subscribe(pattern=self._pattern, listener=self)
        elif wanted == "subscribe":
            await consumer.subscribe([TOPIC], listener=self)
        elif wanted == "unsubscribe":
            await consumer.unsubscribe()
        if wanted:
            self._wanted.pop(0)
        if not consumer.assignment() and wanted == "unsubscribe":
            await anyio.sleep(1)
        return True

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.given += len(partitions)
        self._group.note_assigned(self, partitions)
        self.owned.update(partitions)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._group.taken += len(partitions)
        await anyio.sleep(self.release_s)
        self.owned.difference_update(partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.owned.difference_update(partitions)


class Group:
    """The members that live.

    Attributes:
        anomalies: What must not be, in words.
        taken: How many partitions members have given up.
    """

    member_class = Member

    def __init__(self, story: Story) -> None:
        self.story = story
        self.members: dict[str, Member] = {}
        self.anomalies: list[str] = []
        self.taken = 0

    def join(self, name: str, options: Mapping[str, object], *, pattern: str | None = None) -> Member:
        """Start a member."""
        member = self.members[name] = self.member_class(self, name, options, pattern)
        self.story.cluster.start_client(name, name, member.run)
        return member

    def leave(self, name: str) -> None:
        """Let a member leave the block of its consumer."""
        self.members[name].do("leave")
        del self.members[name]

    def kill(self, name: str) -> None:
        """End a member's process; the coordinator is not told."""
        self.story.world.kill(self.story.cluster.clients[name])
        del self.members[name]

    def note_assigned(self, member: Member, partitions: Sequence[TopicPartition]) -> None:
        for other in self.members.values():
            fenced = other.instance_id is not None and other.instance_id == member.instance_id
            if other is not member and not fenced and (both := other.owned.intersection(partitions)):
                self.anomalies.append(f"{member.name} is given {sorted(both)}, which {other.name} still has")

    @property
    def shares(self) -> list[int]:
        """The number of partitions of each member, ascending."""
        return sorted(len(member.owned) for member in self.members.values())

    def until(self, *shares: int, within_s: float = 30) -> None:
        """Let time pass until the members have so many partitions; nothing must have gone wrong until then."""
        end_s = self.story.world.now + within_s
        self.story.world.run_until(end_s, lambda: self.shares == [*shares] or bool(self.anomalies))
        assert self.anomalies == []
        owned = [one for member in self.members.values() for one in member.owned]
        assert len(owned) == len(set(owned))
        assert self.shares == [*shares], "the members do not get all partitions, in equal shares"
        self.story.wait(3)
        assert self.anomalies == []
        assert self.shares == [*shares], "the members do not keep what they have"


def begin_story(tell: Tell, *, partitions: int = 4, settings: Mapping[str, str] | None = None) -> Group:
    story = tell({**SETTINGS, **(settings or {})}, brokers=2)
    story.start()
    create(story, TOPIC, partitions)
    return Group(story)


def create(story: Story, topic: str, partitions: int) -> None:
    async def program(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.create_topic(topic, assignments={number: [1, 2] for number in range(partitions)})

    story.do(program)


def grow(story: Story, partitions: int) -> None:
    async def program(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.create_partitions(TOPIC, partitions)

    story.do(program)


def move_coordinator(story: Story) -> None:
    """Let the other broker coordinate the group, which knows it from the log only."""
    leader = story.state(OFFSETS).leader
    story.prefer(OFFSETS, 3 - leader, leader)


@pytest.mark.slow
@PROTOCOLS
@pytest.mark.parametrize("moves", [False, True], ids=["one coordinator", "the coordinator moves"])
def test_members_come_and_go_and_no_partition_has_two_or_none(
    tell: Tell, options: Mapping[str, object], moves: bool
) -> None:
    """They take their time to give partitions up, and give up what others get; the rest stays where it is."""
    group = begin_story(tell, partitions=7)
    group.join("a", options).release_s = 4.0
    group.until(7)
    second = group.join("b", options)
    second.release_s = 4.0
    group.until(3, 4)
    assert group.taken == second.given
    if moves:
        move_coordinator(group.story)
    third = group.join("c", options)
    group.until(2, 2, 3)
    assert group.taken == second.given + third.given
    group.kill("b")
    group.until(3, 4)
    given = third.given + 7 - len(third.owned)
    if moves:
        move_coordinator(group.story)
    group.leave("a")
    group.until(7)
    assert third.given == given, "it was given anew what it had"
    grow(group.story, 8)
    group.until(8)
    group.join("d", options)
    group.until(4, 4)


@PROTOCOLS
def test_a_static_member_returns_to_what_it_had_and_is_missed_when_it_vanishes(
    tell: Tell, options: Mapping[str, object]
) -> None:
    """It is another process with another member id; the other member notices nothing of its return (KIP-345)."""
    group = begin_story(tell)
    group.join("a", {**options, "group_instance_id": "one"})
    group.until(4)
    other = group.join("b", {**options, "group_instance_id": "two"})
    group.until(2, 2)
    given = other.given
    group.leave("a")
    group.join("returned", {**options, "group_instance_id": "one"})
    group.until(2, 2)
    assert other.given == given
    group.kill("returned")
    group.until(4)


@pytest.mark.slow
@PROTOCOLS
def test_a_second_process_with_an_instance_id(tell: Tell, options: Mapping[str, object]) -> None:
    """It is refused by the consumer protocol; in the classic one it is given what the first has, which is fenced."""
    group = begin_story(tell)
    first = group.join("a", {**options, "group_instance_id": "one"})
    group.join("b", options)
    group.until(2, 2)
    second = group.join("second", {**options, "group_instance_id": "one"})
    refused = second if options is CONSUMER else first
    group.story.until(lambda: refused.error is not None)
    assert isinstance(refused.error, UnreleasedInstanceIdError if options is CONSUMER else FencedInstanceIdError)
    del group.members[refused.name]
    group.until(2, 2)


def test_a_static_member_that_subscribes_again_is_missed_when_it_vanishes(tell: Tell) -> None:
    """It keeps its member id: the session that ended with its leaving has to begin again."""
    group = begin_story(tell)
    member = group.join("a", {**CONSUMER, "group_instance_id": "one"})
    group.join("b", CONSUMER)
    group.until(2, 2)
    member.do("unsubscribe")
    member.do("subscribe")
    group.until(2, 2)
    group.kill("a")
    group.until(4)


def test_a_topic_that_matches_is_assigned_when_it_is_created(tell: Tell) -> None:
    group = begin_story(tell)
    group.join("a", CONSUMER, pattern=PATTERN)
    group.until(4)
    create(group.story, "flights-of-night", 2)
    group.until(6)
    group.join("b", CONSUMER, pattern=PATTERN)
    group.until(3, 3)
    create(group.story, "flights-of-day", 2)
    group.until(4, 4)
