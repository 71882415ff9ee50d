"""What the application has settled: `Consumer.settled`, `commit(record)` and `commit(offsets)`."""

from __future__ import annotations

from typing import Any

import anyio
import confluent_kafka
import pytest
from support.group_members import fill

from minikafka.client import Consumer, OffsetAndMetadata, TopicPartition, blocking
from minikafka.protocol.errors import UnknownMemberIdError

TIMEOUT_MS = 60_000


def options(bootstrap: str, topic: str, **more: Any) -> dict[str, Any]:
    known = {"bootstrap_servers": bootstrap, "group_id": topic, "auto_offset_reset": "earliest"}
    return {**known, "enable_auto_commit": False, **more}


def judged(bootstrap: str, topic: str, partitions: int = 1) -> list[tuple[int, int | None]]:
    """Offset and leader epoch of the group's commits, as librdkafka reads them; -1001 where there is none."""
    judge = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    wanted = [confluent_kafka.TopicPartition(topic, number) for number in range(partitions)]
    try:
        return [(one.offset, one.leader_epoch) for one in judge.committed(wanted, timeout=60)]
    finally:
        judge.close()


@pytest.mark.anyio
async def test_a_record_is_committed_with_its_leader_epoch_and_a_foreign_client_reads_it(
    bootstrap: str, topic: str
) -> None:
    await fill(bootstrap, topic, 2, 20)
    first = TopicPartition(topic, 0)
    async with Consumer(**options(bootstrap, topic)) as consumer:
        consumer.assign([first])
        records = await consumer.poll(TIMEOUT_MS)
        assert consumer.settled == {first: OffsetAndMetadata(0)}
        await consumer.commit(records[3])
        assert consumer.settled == {first: OffsetAndMetadata(4, "", 0)}
        assert await consumer.position(first) == len(records)
    one, other = await anyio.to_thread.run_sync(judged, bootstrap, topic, 2)
    assert one == (4, 0)
    assert other[0] < 0
    async with Consumer(**options(bootstrap, topic)) as consumer:
        consumer.assign([first])
        assert (await consumer.poll(TIMEOUT_MS))[0].offset == 4
        await consumer.commit({first: OffsetAndMetadata(6, "note", 0)})
        assert (await consumer.committed())[first] == OffsetAndMetadata(6, "note", 0)
    assert await anyio.to_thread.run_sync(judged, bootstrap, topic) == [(6, 0)]


@pytest.mark.anyio
async def test_settled_is_what_was_returned_before_the_last_step(minikafka_bootstrap: str, topic: str) -> None:
    await fill(minikafka_bootstrap, topic, 1, 100)
    tp = TopicPartition(topic, 0)
    async with Consumer(topic, **options(minikafka_bootstrap, topic)) as consumer:
        assert len(await consumer.poll(TIMEOUT_MS, max_records=10)) == 10
        assert consumer.settled == {tp: OffsetAndMetadata(0)}
        await consumer.poll(TIMEOUT_MS, max_records=5)
        assert consumer.settled == {tp: OffsetAndMetadata(10, "", 0)}
        async for record in consumer:
            assert consumer.settled[tp].offset == record.offset
            if record.offset == 30:
                break
        async for _ in consumer.batches():
            assert consumer.settled[tp].offset == 31
            break
        await consumer.commit(consumer.settled)
        assert (await consumer.committed())[tp] == OffsetAndMetadata(31, "", 0)
        consumer.seek(tp, 50)
        assert consumer.settled == {tp: OffsetAndMetadata(50)}


@pytest.mark.anyio
@pytest.mark.parametrize("by_list", [True, False])
async def test_automatic_commits_do_not_go_back_behind_a_settled_record(
    minikafka_bootstrap: str, topic: str, by_list: bool
) -> None:
    """Leaving the block by an exception commits what is settled, and no more."""
    await fill(minikafka_bootstrap, topic, 1, 100)
    tp = TopicPartition(topic, 0)

    async def fail() -> None:
        async with Consumer(topic, **options(minikafka_bootstrap, topic, enable_auto_commit=True)) as consumer:
            if by_list:
                record = (await consumer.poll(TIMEOUT_MS))[6]
            else:
                async for record in consumer:
                    if record.offset == 6:
                        break
            await consumer.commit(record)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    async with Consumer(**options(minikafka_bootstrap, topic)) as consumer:
        assert (await consumer.committed(tp))[tp].offset == 7


@pytest.mark.anyio
async def test_only_records_that_were_returned_can_be_settled(minikafka_bootstrap: str, topic: str) -> None:
    """The record of before a seek is committed, as asked for; what is settled stays with the position."""
    await fill(minikafka_bootstrap, topic, 1, 100)
    tp = TopicPartition(topic, 0)
    async with Consumer(topic, **options(minikafka_bootstrap, topic)) as consumer:
        last = (await consumer.poll(TIMEOUT_MS))[-1]
        consumer.seek(tp, 3)
        await consumer.commit(last)
        assert (await consumer.committed())[tp] == OffsetAndMetadata(last.offset + 1)
        assert consumer.settled[tp].offset == 3
        await consumer.unsubscribe()
        assert consumer.settled == {}
    async with Consumer(bootstrap_servers=minikafka_bootstrap) as consumer:
        with pytest.raises(ValueError, match="requires a group"):
            await consumer.commit(last)


@pytest.mark.anyio
async def test_a_record_of_a_partition_that_was_lost_is_not_committed(minikafka_bootstrap: str, topic: str) -> None:
    await fill(minikafka_bootstrap, topic, 1, 10)
    async with Consumer(topic, **options(minikafka_bootstrap, topic)) as consumer:
        record = (await consumer.poll(TIMEOUT_MS))[0]
        assert consumer._subscriptions is not None
        consumer._subscriptions._owners._taken_by[TopicPartition(topic, 0)] = (0, "somebody")
        with pytest.raises(UnknownMemberIdError):
            await consumer.commit(record)
        assert await consumer.committed() == {}


def test_a_blocking_iteration_goes_on_undisturbed_by_commits_of_its_records(
    minikafka_bootstrap: str, topic: str
) -> None:
    """Other calls return what is not yielded, by a seek; a commit for each record would fetch each list again."""
    anyio.run(fill, minikafka_bootstrap, topic, 1, 100)
    tp = TopicPartition(topic, 0)
    with blocking.Consumer(topic, **options(minikafka_bootstrap, topic)) as consumer:
        for record in consumer:
            consumer.commit(record)
            assert len(consumer._taken) == 99 - record.offset
            if record.offset == 20:
                break
        assert consumer.settled == {tp: OffsetAndMetadata(21)}
        assert consumer.committed()[tp] == OffsetAndMetadata(21, "", 0)
        consumer.commit({tp: 5})
        assert consumer.committed()[tp].offset == 5
        record = next(iter(consumer))
        assert record.offset == 21
        assert consumer.settled[tp].offset == 21
        consumer.commit()
        assert consumer.committed()[tp].offset == 22


def test_an_open_consumer_is_needed() -> None:
    with pytest.raises(RuntimeError, match="not open"):
        blocking.Consumer(group_id="g").settled  # noqa: B018
