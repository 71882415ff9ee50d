"""Consumers of the new protocol (KIP-848), of librdkafka and of Kafka, in groups whose partitions minikafka assigns."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.node import NodeProcess
from support.oracle import needs_oracle, tool

pytestmark = pytest.mark.timeout(120)
PARTITIONS = 6
RECORDS = 60
WITHIN_S = 45.0
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "100",
}
CLASSIC: dict[str, object] = {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 200}
COOPERATIVE = {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node") / "data", settings=QUICK) as started:
        yield started


@pytest.fixture(scope="module")
def topic(node: NodeProcess) -> str:
    """A topic with `RECORDS` records, evenly distributed."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("filled", PARTITIONS, 1)])["filled"].result()
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(RECORDS):
        producer.produce("filled", str(number).encode(), partition=number % PARTITIONS)
    assert not producer.flush(30)
    return "filled"


class Members:
    """Consumers of one group that are polled in turn.

    Attributes:
        seen: The values of all records so far.
        revoked: The partitions that members were told to give up, in turn.
    """

    def __init__(self, node: NodeProcess, group: str, partitions: int = PARTITIONS) -> None:
        self._partitions = partitions
        self.revoked: list[int] = []
        self._place = {"bootstrap.servers": node.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        self.there: list[Consumer] = []
        self.seen: set[str] = set()

    def join(self, topic: str, **settings: object) -> Consumer:
        member = Consumer({**self._place, **settings})
        member.subscribe([topic], on_revoke=lambda _, ones: self.revoked.extend(one.partition for one in ones))
        self.there.append(member)
        return member

    def leave(self, member: Consumer) -> None:
        self.there.remove(member)
        member.close()

    def poll_until(self, done: Callable[[], bool]) -> None:
        """Poll all members until `done`; fails after `WITHIN_S`."""
        until = time.monotonic() + WITHIN_S
        while not done():
            assert time.monotonic() < until, self.shares()
            for member in self.there:
                message = member.poll(0.02)
                assert message is None or not message.error(), message
                if message is not None:
                    self.seen.add(message.value().decode())

    def shares(self) -> list[list[int]]:
        """The partitions of each member."""
        return [sorted(one.partition for one in member.assignment()) for member in self.there]

    def settle(self, sizes: Sequence[int]) -> None:
        """Wait until the members have so many partitions, together all of them once."""

        def settled() -> bool:
            shares = self.shares()
            everything = sorted(one for share in shares for one in share)
            return sorted(map(len, shares)) == sorted(sizes) and everything == list(range(self._partitions))

        self.poll_until(settled)


@pytest.fixture
def members(node: NodeProcess, request: pytest.FixtureRequest) -> Iterator[Members]:
    group = Members(node, request.node.name)
    yield group
    for member in list(group.there):
        group.leave(member)


def state_of(node: NodeProcess, group: str) -> tuple[str, str]:
    """The type and state of a group, as listed."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.list_topics(timeout=30)  # The list comes from the brokers that the client knows.
    [found] = [one for one in admin.list_consumer_groups().result().valid if one.group_id == group]
    return found.type.name, found.state.name


@pytest.mark.slow
def test_members_of_librdkafka_join_and_leave_and_every_record_is_read(
    members: Members, topic: str, node: NodeProcess, request: pytest.FixtureRequest
) -> None:
    new = {"group.protocol": "consumer"}
    first = members.join(topic, **new)
    members.settle([6])
    members.join(topic, **new)
    members.join("^fill.*", **new)
    members.settle([2, 2, 2])
    assert state_of(node, request.node.name)[0] == "CONSUMER"
    members.leave(first)
    members.settle([3, 3])
    members.poll_until(lambda: len(members.seen) == RECORDS)


@pytest.mark.slow
def test_a_live_group_changes_its_protocol_both_ways(
    members: Members, topic: str, node: NodeProcess, request: pytest.FixtureRequest
) -> None:
    members.join(topic, **CLASSIC)
    members.settle([6])
    assert state_of(node, request.node.name) == ("CLASSIC", "STABLE")
    new = members.join(topic, **{"group.protocol": "consumer"})
    members.settle([3, 3])
    members.join(topic, **CLASSIC)
    members.settle([2, 2, 2])
    assert state_of(node, request.node.name)[0] == "CONSUMER"
    members.leave(new)
    members.settle([3, 3])
    assert state_of(node, request.node.name)[0] == "CLASSIC"
    members.poll_until(lambda: len(members.seen) == RECORDS)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"group.protocol": "consumer"}, COOPERATIVE], ids=["new", "classic"])
def test_only_what_moves_stops_when_a_fifth_member_of_librdkafka_joins(
    node: NodeProcess, settings: dict[str, object]
) -> None:
    topic = f"twelve-{len(settings)}"
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(topic, 12, 1)])[topic].result()
    members = Members(node, topic, 12)
    for _ in range(4):
        members.join(topic, **settings)
    members.settle([3, 3, 3, 3])
    owned = members.shares()
    begins = len(members.revoked)
    members.join(topic, **settings)
    members.settle([2, 2, 2, 3, 3])
    moved = members.revoked[begins:]
    stayed = [set(before) & set(after) for before, after in zip(owned, members.shares(), strict=False)]
    for member in list(members.there):
        members.leave(member)
    assert len(moved) == len(set(moved)) <= 3
    assert sum(map(len, stayed)) == 12 - len(moved)


def test_a_static_member_returns_to_its_partitions(members: Members, topic: str) -> None:
    new = {"group.protocol": "consumer"}
    static = members.join(topic, **new, **{"group.instance.id": "one"})
    members.join(topic, **new)
    members.settle([3, 3])
    before = members.shares()
    members.leave(static)
    members.join(topic, **new, **{"group.instance.id": "one"})
    members.settle([3, 3])
    assert members.shares() == before[::-1]


@pytest.mark.oracle
@pytest.mark.slow
@needs_oracle
def test_kafkas_own_consumer_and_tools(node: NodeProcess, topic: str) -> None:
    place = ("--bootstrap-server", node.bootstrap)
    protocol = ("--command-property", "group.protocol=consumer")
    read = tool(
        "console-consumer", *place, "--topic", topic, "--from-beginning", "--max-messages", str(RECORDS), "--group",
        "java", *protocol,
    )  # fmt: skip
    assert sorted(read.split(), key=int) == [str(number) for number in range(RECORDS)]
    groups = ("consumer-groups", *place, "--describe", "--group", "java")
    assert len(re.findall(rf"java\s+{topic}\s+\d\s+10\s+10\s+0\s", tool(*groups))) == PARTITIONS
    assert re.search(r"java\s.*uniform\s+Empty\s+0", tool(*groups, "--state"))
    listed = tool("consumer-groups", *place, "--list", "--state", "--type")
    assert re.search(r"java\s+Consumer\s+Empty", listed)
    assert "successful" in tool("consumer-groups", *place, "--delete", "--group", "java")


@pytest.mark.oracle
@pytest.mark.slow
@needs_oracle
def test_kafkas_tool_describes_the_members(members: Members, node: NodeProcess, topic: str) -> None:
    group = "test_kafkas_tool_describes_the_members"
    members.join(topic, **{"group.protocol": "consumer"})
    members.join(topic, **{"group.protocol": "consumer"})
    members.settle([3, 3])
    place = ("--bootstrap-server", node.bootstrap)
    described = ("consumer-groups", *place, "--describe", "--group", group)
    assert re.search(rf"{group}\s.*uniform\s+Stable\s+2", tool(*described, "--state"))
    told = tool(*described, "--members", "--verbose")
    found = re.findall(rf"{group}\s+\S+\s+\S+\s+rdkafka\s+3\s+\d+\s+{topic}:(\S+)", told)
    assert sorted(one for part in found for one in part.split(",")) == [str(one) for one in range(PARTITIONS)], told
