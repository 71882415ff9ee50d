"""In an incremental rebalance only the partitions that move stop; static members that restart move nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from support.clients import eventually
from support.group_members import RecordingListener

from minikafka.client.blocking import Admin, Consumer, Producer

PARTITIONS, MEMBERS, KEPT_MIN = 12, 4, 9
PATIENCE_S = 90
PROTOCOLS: dict[str, dict[str, Any]] = {
    "consumer": {"group_protocol": "consumer"},
    "classic": {
        "partition_assignment_strategy": ("cooperative-sticky",), "heartbeat_interval_ms": 100,
        "session_timeout_ms": 60_000,
    },
}  # fmt: skip


class Group:
    """Members that are polled in turn.

    Attributes:
        listeners: Of each member; one that is started again has the same one.
        read: The offsets that members have read, by partition, with the number of the member.
        written: The number of records of each partition.
    """

    def __init__(self, bootstrap: str, topic: str, options: dict[str, Any]) -> None:
        self._options = {"bootstrap_servers": bootstrap, "group_id": topic, "auto_offset_reset": "earliest", **options}
        self._bootstrap, self._topic = bootstrap, topic
        self._stacks: dict[int, ExitStack] = {}
        self._producer = Producer(bootstrap)
        self.members: dict[int, Consumer] = {}
        self.listeners: dict[int, RecordingListener] = defaultdict(RecordingListener)
        self.read: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.written = 0
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, partitions=PARTITIONS)

    def __enter__(self) -> Group:
        self._producer.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        for number in list(self._stacks):
            self.stop(number)
        self._producer.__exit__(*exception)

    def start(self, number: int, **options: Any) -> None:
        stack = self._stacks[number] = ExitStack()
        member = self.members[number] = stack.enter_context(Consumer(**{**self._options, **options}))
        member.subscribe([self._topic], listener=self.listeners[number])

    def stop(self, number: int) -> None:
        self._stacks.pop(number).close()

    def poll(self) -> None:
        for number, consumer in self.members.items():
            for record in consumer.poll(20):
                self.read[record.partition].append((number, record.offset))

    def write(self) -> None:
        """One record for each partition."""
        for number in range(PARTITIONS):
            self._producer.send(self._topic, b"%d" % self.written, partition=number)
        self._producer.flush()
        self.written += 1

    def shares(self) -> dict[int, list[int]]:
        return {number: [tp.partition for tp in one.assignment()] for number, one in self.members.items()}

    def settle(self, *, writing: bool = False) -> None:
        """Poll, and write before each turn if asked to, until partitions are shared evenly and no rebalance runs."""

        def settled() -> bool:
            if writing:
                self.write()
            self.poll()
            sizes = [len(share) for share in self.shares().values()]
            even = sum(sizes) == PARTITIONS and max(sizes) - min(sizes) <= 1
            return even and admin.describe_group(self._topic).state == "Stable"

        with Admin(self._bootstrap) as admin:
            eventually(settled, timeout_s=PATIENCE_S)

    def read_all(self) -> None:
        def done() -> bool:
            self.poll()
            return all(self.read[number][-1:] and self.read[number][-1][1] + 1 == self.written for number in range(12))

        eventually(done, timeout_s=PATIENCE_S)


@pytest.fixture(params=PROTOCOLS)
def group(request: pytest.FixtureRequest, bootstrap: str, topic: str) -> Iterator[Group]:
    with Group(bootstrap, topic, PROTOCOLS[request.param]) as found:
        yield found


def test_nine_of_twelve_partitions_go_on_when_a_fifth_member_joins(group: Group) -> None:
    for number in range(MEMBERS):
        group.start(number)
    group.settle()
    group.write()
    group.read_all()
    before = {number: len(group.listeners[number].events) for number in range(MEMBERS)}
    owner = {partition: number for number, share in group.shares().items() for partition in share}
    begun = {partition: len(group.read[partition]) for partition in owner}
    group.start(MEMBERS)
    group.settle(writing=True)
    group.write()
    group.read_all()
    kept = owner.keys() - given_up([group.listeners[number].events[count:] for number, count in before.items()])
    assert len(kept) >= KEPT_MIN
    for partition in range(PARTITIONS):
        # Nothing is passed over or read again, and what is kept has one reader throughout.
        assert [offset for _, offset in group.read[partition]] == list(range(group.written))
        readers = {number for number, _ in group.read[partition][begun[partition] :]}
        assert readers == {owner[partition]} or partition not in kept


def given_up(events: Sequence[list[tuple[str, list[int]]]]) -> set[int]:
    """The partitions that members gave up."""
    return {number for some in events for what, numbers in some if what != "assigned" for number in numbers}


def test_a_rolling_restart_of_static_members_moves_nothing(group: Group) -> None:
    for number in range(MEMBERS):
        group.start(number, group_instance_id=f"member-{number}")
    group.settle()
    shares = group.shares()
    before = {number: len(group.listeners[number].events) for number in range(MEMBERS)}
    for number in range(MEMBERS):
        group.stop(number)
        group.start(number, group_instance_id=f"member-{number}")
        group.settle()
        assert group.shares() == shares
    for number, count in before.items():
        # Its own restart: all that it has is given up, and received again.
        own = [(what, len(numbers)) for what, numbers in group.listeners[number].events[count:] if numbers]
        assert own == [("revoked", 3), ("assigned", 3)]
