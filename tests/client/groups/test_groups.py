"""Groups with a real broker: partitions are shared, reassigned and continued at committed offsets."""

from __future__ import annotations

import anyio
import pytest
from support.group_members import RecordingListener, fill, settled

from minikafka.client import Admin, Consumer, TopicPartition
from minikafka.protocol.errors import GroupIdNotFoundError, KafkaError, NonEmptyGroupError, UnknownMemberIdError

pytestmark = pytest.mark.anyio
QUICK = {"heartbeat_interval_ms": 100, "session_timeout_ms": 60_000, "metadata_max_age_ms": 500}


def member(bootstrap: str, topic: str, **options: object) -> Consumer:
    known = {"group_id": topic, "auto_offset_reset": "earliest", **QUICK, **options}
    return Consumer(topic, bootstrap_servers=bootstrap, **known)  # type: ignore[arg-type]


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


async def test_unprocessed_records_are_consumed_again_after_a_failure(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 10)

    async def fail_at(offset: int) -> None:
        async with member(bootstrap, topic) as consumer:
            async for record in consumer:
                if record.offset == offset:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_at(6)
    async with member(bootstrap, topic) as consumer:
        assert (await consumer.poll(60_000))[0].offset == 6


async def test_a_cancelled_member_commits_what_it_has_processed_and_leaves_at_once(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 10)
    with anyio.CancelScope() as scope:
        async with member(bootstrap, topic, auto_commit_interval_ms=1_000_000) as consumer:
            async for record in consumer:
                if record.offset == 6:
                    scope.cancel()
                    await anyio.sleep(0)
    async with Admin(bootstrap_servers=bootstrap) as admin:
        assert (await admin.list_group_offsets(topic))[TopicPartition(topic, 0)].offset == 6
        assert (await admin.describe_group(topic)).members == []


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
async def test_partitions_are_shared_and_reassigned(bootstrap: str, topic: str, strategy: str) -> None:
    await fill(bootstrap, topic, 4, 0)
    first_listener, second_listener = RecordingListener(), RecordingListener()
    options = {"partition_assignment_strategy": [strategy]}
    async with Consumer(group_id=topic, bootstrap_servers=bootstrap, **QUICK, **options) as first:  # type: ignore[arg-type]
        await first.subscribe([topic], listener=first_listener)
        assert await settled(first, total=4) == [4]
        async with Consumer(group_id=topic, bootstrap_servers=bootstrap, **QUICK, **options) as second:  # type: ignore[arg-type]
            await second.subscribe([topic], listener=second_listener)
            assert await settled(first, second, total=4) == [2, 2]
            assert not set(first.assignment()) & set(second.assignment())
        assert await settled(first, total=4) == [4]
    revoked = next(some for what, some in first_listener.events if what == "revoked")
    assert len(revoked) == (2 if strategy == "cooperative-sticky" else 4)
    assert first_listener.events[0] == ("assigned", [0, 1, 2, 3])
    assert sum(len(some) for what, some in second_listener.events if what == "assigned") >= 2


async def test_a_rebalance_loses_no_records_and_duplicates_few(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 4, 400)
    seen: list[bytes] = []

    async def read(consumer: Consumer, count: int) -> None:
        while len(set(seen)) < count:
            seen.extend([record.value for record in await consumer.poll(200, max_records=5)])
            await anyio.sleep(0.001)

    async with member(bootstrap, topic) as first:
        await read(first, 100)
        async with member(bootstrap, topic) as second, anyio.create_task_group() as tasks:
            tasks.start_soon(read, first, 400)
            tasks.start_soon(read, second, 400)
    assert set(seen) == {b"%d" % n for n in range(400)}
    assert len(seen) <= 400 + 4 * 5 * 2


async def test_static_members_keep_their_assignment(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 2, 0)
    async with member(bootstrap, topic, group_instance_id="b") as second:
        async with member(bootstrap, topic, group_instance_id="a") as first:
            await settled(first, second, total=2)
            mine = first.assignment()
        async with member(bootstrap, topic, group_instance_id="a") as again:
            await settled(again, second, total=2)
            assert again.assignment() == mine


async def test_groups_are_described_and_deleted(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 2, 10)
    tp = TopicPartition(topic, 0)
    async with Admin(bootstrap_servers=bootstrap) as admin:
        async with member(bootstrap, topic, client_id="someone") as consumer:
            while len(await consumer.poll(100)) == 0:
                pass
            group = await admin.describe_group(topic)
            assert (group.state, group.protocol_type, group.assignor) == ("Stable", "consumer", "range")
            assert [(one.client_id, one.assignment) for one in group.members] == [
                ("someone", [tp, TopicPartition(topic, 1)])
            ]
            with pytest.raises(NonEmptyGroupError, match=topic):
                await admin.delete_group(topic)
            with pytest.raises(UnknownMemberIdError):
                await admin.alter_group_offsets(topic, {tp: 1})
        with anyio.fail_after(90):  # at once, unless the LeaveGroup request was lost
            while (await admin.describe_group(topic)).state != "Empty":
                await anyio.sleep(0.02)
        assert topic in [group.group_id for group in await admin.list_groups(states=["Empty"])]
        await admin.alter_group_offsets(topic, {tp: 3})
        assert (await admin.list_group_offsets(topic))[tp].offset == 3
        await admin.delete_group(topic)
        with pytest.raises(GroupIdNotFoundError):
            await admin.describe_group(topic)


async def test_commits_of_a_former_member_are_rejected(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 10)
    tp = TopicPartition(topic, 0)
    async with member(bootstrap, topic, enable_auto_commit=False) as consumer:
        await consumer.poll(60_000)
        consumer._open_subscriptions()._owners._taken_by[tp] = (77, "former")
        with pytest.raises(KafkaError, match=f"commit failed: group '{topic}'"):
            await consumer.commit({tp: 5})


async def test_a_member_that_polls_too_rarely_leaves_and_rejoins(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 10)
    recorded = RecordingListener()
    options = {**QUICK, "max_poll_interval_ms": 300, "auto_offset_reset": "earliest"}
    async with Consumer(group_id=topic, bootstrap_servers=bootstrap, **options) as consumer:  # type: ignore[arg-type]
        await consumer.subscribe([topic], listener=recorded)
        assert len(await consumer.poll(60_000, max_records=3)) == 3
        async with Admin(bootstrap_servers=bootstrap) as admin:
            with anyio.fail_after(60):
                while (await admin.describe_group(topic)).members:
                    await anyio.sleep(0.02)
        assert recorded.events == [("assigned", [0])]
        assert (await consumer.poll(60_000))[0].offset == 0
        assert recorded.events == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]


async def test_a_topic_created_later_is_detected(bootstrap: str, topic: str) -> None:
    async with member(bootstrap, topic, allow_auto_create_topics=False) as consumer:
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
