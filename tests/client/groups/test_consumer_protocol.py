"""Groups of the consumer protocol (KIP-848) with a real broker, which assigns the partitions."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.group_members import RecordingListener, fill, settled

from minikafka.client import Admin, Consumer, InvalidOption, Producer, TopicPartition
from minikafka.protocol.errors import GroupIdNotFoundError, KafkaError, NonEmptyGroupError, StaleMemberEpochError

pytestmark = pytest.mark.anyio
OPTIONS: dict[str, Any] = {
    "group_protocol": "consumer",
    "auto_offset_reset": "earliest",
    "metadata_max_age_ms": 500,
}


def member(bootstrap: str, topic: str, **options: Any) -> Consumer:
    return Consumer(topic, bootstrap_servers=bootstrap, **{"group_id": topic, **OPTIONS, **options})


async def test_a_group_continues_at_its_committed_offsets(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 2, 100)
    seen: list[bytes] = []
    for _ in range(4):
        async with member(bootstrap, topic) as consumer:
            async for record in consumer:
                seen.append(record.value)
                if len(seen) % 25 == 0:
                    break
    assert sorted(seen, key=int) == [b"%d" % n for n in range(100)]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
async def test_only_what_moves_is_revoked(bootstrap: str, topic: str, assignor: str) -> None:
    await fill(bootstrap, topic, 4, 0)
    first_listener, second_listener = RecordingListener(), RecordingListener()
    options = {**OPTIONS, "group_remote_assignor": assignor}
    async with Consumer(group_id=topic, bootstrap_servers=bootstrap, **options) as first:
        await first.subscribe([topic], listener=first_listener)
        assert await settled(first, total=4) == [4]
        async with Consumer(group_id=topic, bootstrap_servers=bootstrap, **options) as second:
            await second.subscribe([topic], listener=second_listener)
            assert await settled(first, second, total=4) == [2, 2]
            assert not set(first.assignment()) & set(second.assignment())
        assert await settled(first, total=4) == [4]
    assert first_listener.events[0] == ("assigned", [0, 1, 2, 3])
    assert [len(some) for what, some in first_listener.events if what == "revoked"] == [2, 4]
    assert [len(some) for what, some in second_listener.events if what == "revoked"] == [2]
    assert not [some for what, some in first_listener.events + second_listener.events if what == "lost"]


async def test_a_rebalance_loses_no_records_and_doubles_none(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 4, 400)
    seen: list[bytes] = []

    async def read(consumer: Consumer, count: int) -> None:
        while len(seen) < count:
            seen.extend([record.value for record in await consumer.poll(200, max_records=5)])
            await anyio.sleep(0.001)

    async with Consumer(group_id=topic, bootstrap_servers=bootstrap, **OPTIONS) as first:
        await first.subscribe([topic], listener=RecordingListener())
        await read(first, 100)
        async with Consumer(group_id=topic, bootstrap_servers=bootstrap, **OPTIONS) as second:
            await second.subscribe([topic], listener=RecordingListener())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, first, 400)
                tasks.start_soon(read, second, 400)
    assert sorted(seen, key=int) == [b"%d" % n for n in range(400)]


async def test_a_static_member_that_returns_keeps_its_partitions(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 2, 0)
    async with member(bootstrap, topic, group_instance_id="b") as second:
        async with member(bootstrap, topic, group_instance_id="a") as first:
            await settled(first, second, total=2)
            mine = first.assignment()
        assert len(second.assignment()) == 1
        async with member(bootstrap, topic, group_instance_id="a") as again:
            await settled(again, second, total=2)
            assert again.assignment() == mine


async def test_topics_that_appear_and_grow_are_assigned(bootstrap: str, topic: str) -> None:
    async with member(bootstrap, topic) as consumer:
        assert await consumer.poll(300) == []
        await fill(bootstrap, topic, 2, 10)
        with anyio.fail_after(60):
            while len(consumer.assignment()) < 2:
                await consumer.poll(50)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_partitions(topic, 3)
        with anyio.fail_after(60):
            while len(consumer.assignment()) < 3:
                await consumer.poll(50)


async def test_the_coordinator_matches_patterns(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic + "-a", 2, 10)
    async with Consumer(group_id=topic, bootstrap_servers=bootstrap, **OPTIONS) as consumer:
        await consumer.subscribe(pattern=topic + "-[ab]")
        assert await settled_on(consumer, 2) == {topic + "-a"}
        await fill(bootstrap, topic + "-b", 1, 10)
        await fill(bootstrap, topic + "-c", 2, 10)
        await consumer.subscribe(pattern=topic + "-[bc]")
        assert await settled_on(consumer, 3) == {topic + "-b", topic + "-c"}
        await consumer.subscribe([topic + "-a"])
        assert await settled_on(consumer, 2) == {topic + "-a"}


async def settled_on(consumer: Consumer, total: int) -> set[str]:
    """Wait until the topics stay the same, with this number of partitions."""
    with anyio.fail_after(60):
        names: set[str] = set()
        while len(consumer.assignment()) != total or {tp.topic for tp in consumer.assignment()} != names:
            names = {tp.topic for tp in consumer.assignment()}
            await consumer.poll(300)
    return names


async def test_a_pattern_that_is_none_is_an_error(bootstrap: str, topic: str) -> None:
    async with Consumer(group_id=topic, bootstrap_servers=bootstrap, **OPTIONS) as consumer:
        await consumer.subscribe(pattern="(")
        with pytest.raises(KafkaError, match="regular expression"):
            await consumer.poll(60_000)


async def test_a_member_that_polls_too_rarely_leaves_and_rejoins(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 10)
    recorded = RecordingListener()
    async with Consumer(
        group_id=topic, bootstrap_servers=bootstrap, max_poll_interval_ms=300, enable_auto_commit=False, **OPTIONS
    ) as consumer:
        await consumer.subscribe([topic], listener=recorded)
        assert len(await consumer.poll(60_000, max_records=3)) == 3
        with anyio.fail_after(60):
            while consumer.group_metadata().member_id and consumer._open_subscriptions()._group.member[0] >= 0:  # type: ignore[union-attr]
                await anyio.sleep(0.02)
        assert recorded.events == [("assigned", [0])]
        assert (await consumer.poll(60_000))[0].offset == 0
        assert recorded.events == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]


async def test_commits_follow_the_epoch_of_kept_partitions_only(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 2, 10)
    async with member(bootstrap, topic, enable_auto_commit=False) as first:
        with anyio.fail_after(60):
            seen: list[TopicPartition] = []
            while len(set(seen)) < 2:
                seen += [TopicPartition(one.topic, one.partition) for one in await first.poll(1000)]
        async with member(bootstrap, topic, enable_auto_commit=False) as second:
            with anyio.fail_after(60):
                while len(first.assignment()) != 1 or len(second.assignment()) != 1:
                    await second.poll(20)
            (kept,), (moved,) = first.assignment(), second.assignment()
            await first.commit({kept: 3})
            with pytest.raises(StaleMemberEpochError):
                await first.commit({moved: 4})
            assert {tp: one.offset for tp, one in (await first.committed(kept, moved)).items()} == {kept: 3}


async def test_offsets_are_sent_to_transactions(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 3)
    async with (
        member(bootstrap, topic, enable_auto_commit=False) as consumer,
        Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer,
    ):
        records = await consumer.poll(60_000)
        async with producer.transaction():
            last = records[-1].offset + 1
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): last}, consumer.group_metadata())
        assert (await consumer.committed())[TopicPartition(topic, 0)].offset == last


async def test_groups_are_listed_described_and_deleted(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 2, 0)
    async with Admin(bootstrap_servers=bootstrap) as admin:
        async with member(bootstrap, topic, client_id="someone", group_remote_assignor="range") as consumer:
            await settled(consumer, total=2)
            with anyio.fail_after(60):
                while (group := await admin.describe_group(topic)).state != "Stable":
                    await anyio.sleep(0.02)
            assert (group.group_type, group.protocol_type, group.assignor) == ("consumer", "consumer", "range")
            assert [(one.client_id, sorted(one.assignment)) for one in group.members] == [
                ("someone", [TopicPartition(topic, 0), TopicPartition(topic, 1)])
            ]
            listed = {one.group_id: one.group_type for one in await admin.list_groups()}
            assert listed[topic].lower() == "consumer"
            with pytest.raises(NonEmptyGroupError, match=topic):
                await admin.delete_group(topic)
        assert (await admin.describe_group(topic)).members == []
        await admin.delete_group(topic)
        with pytest.raises(GroupIdNotFoundError, match=topic):
            await admin.describe_group(topic)


def test_options_of_the_classic_protocol_are_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"session_timeout_ms=10000\): not allowed with group_protocol='consumer'"):
        Consumer("t", group_id="g", group_protocol="consumer", session_timeout_ms=10_000)
    with pytest.raises(InvalidOption, match="needs group_protocol='consumer'"):
        Consumer("t", group_id="g", group_remote_assignor="range")
