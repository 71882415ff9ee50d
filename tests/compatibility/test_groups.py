"""Consumer groups: assignment, leaving, committing, resuming."""

from __future__ import annotations

import time
from collections.abc import Callable

from support.clients import WAIT_S, Client, Member, Outgoing, closing, eventually, read

Partitions = set[tuple[str, int]]


def poll_until(members: list[Member], done: Callable[[], bool]) -> list[bytes | None]:
    """Polls all members in turn until `done`; returns the values received."""
    deadline, values = time.monotonic() + WAIT_S, list[bytes | None]()
    while not done():
        owned = [member.assignment() for member in members]
        assert time.monotonic() < deadline, f"after {WAIT_S} s the members own {owned} and got {len(values)}"
        for member in members:
            values += [record.value for record in member.poll(0.2)]
    return values


def shared(members: list[Member], partitions: Partitions) -> bool:
    """Whether each member owns some partitions, and each partition has exactly one owner."""
    owned = [member.assignment() for member in members]
    return all(owned) and set().union(*owned) == partitions and sum(map(len, owned)) == len(partitions)


def test_a_member_of_a_group_reads_every_partition(client: Client, name: str) -> None:
    client.create_topic(name, partitions=3)
    client.produce(name, [Outgoing(f"{n}".encode(), partition=n % 3) for n in range(30)])
    with closing(client.member(name, [name])) as member:
        assert {record.value for record in read(member, 30)} == {f"{n}".encode() for n in range(30)}
        assert member.assignment() == {(name, partition) for partition in range(3)}
    assert name in client.groups()


def test_two_members_share_the_partitions_and_the_remaining_one_gets_all(client: Client, name: str) -> None:
    client.create_topic(name, partitions=4)
    all_of_them = {(name, partition) for partition in range(4)}
    with closing(client.member(name, [name])) as stays:
        poll_until([stays], lambda: stays.assignment() == all_of_them)
        with closing(client.member(name, [name])) as leaves:
            poll_until([stays, leaves], lambda: shared([stays, leaves], all_of_them))
        poll_until([stays], lambda: stays.assignment() == all_of_them)
        client.produce(name, [Outgoing(f"{n}".encode(), partition=n) for n in range(4)])
        assert {record.value for record in read(stays, 4)} == {b"0", b"1", b"2", b"3"}


def test_a_group_resumes_at_its_committed_offset(client: Client, topic: str, name: str) -> None:
    client.produce(topic, [Outgoing(f"{n}".encode()) for n in range(10)])
    with closing(client.member(name, [topic])) as member:
        assert [record.offset for record in read(member, 10)] == list(range(10))
        member.commit()
    client.produce(topic, [Outgoing(f"{n}".encode()) for n in range(10, 20)])
    with closing(client.member(name, [topic])) as member:
        assert [record.offset for record in read(member, 10)] == list(range(10, 20))
    with closing(client.member(name, [topic])) as member:
        assert read(member, 1)[0].offset == 10, "the second member committed nothing"


def test_groups_are_independent(client: Client, topic: str, name: str) -> None:
    client.produce(topic, [Outgoing(f"{n}".encode()) for n in range(5)])
    for group in (f"{name}-a", f"{name}-b"):
        with closing(client.member(group, [topic])) as member:
            assert [record.offset for record in read(member, 5)] == list(range(5))
            member.commit()
    assert {f"{name}-a", f"{name}-b"} <= client.groups()


def test_a_group_without_commits_can_start_at_the_latest_offset(client: Client, topic: str, name: str) -> None:
    client.produce(topic, [Outgoing(b"old")] * 5)
    with closing(client.member(name, [topic], reset="latest")) as member:
        poll_until([member], lambda: bool(member.assignment()))

        def write_until_seen() -> list[bytes | None]:
            client.produce(topic, [Outgoing(b"new")])
            return [record.value for record in member.poll(0.5)]

        assert set(eventually(write_until_seen)) == {b"new"}


def test_a_group_reads_several_topics(client: Client, name: str) -> None:
    topics = [f"{name}-{n}" for n in range(3)]
    for topic in topics:
        client.create_topic(topic)
        client.produce(topic, [Outgoing(topic.encode())] * 5)
    with closing(client.member(name, topics)) as member:
        got = read(member, 15)
    assert sorted(record.topic for record in got) == sorted(topics * 5)
