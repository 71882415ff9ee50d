"""Reading up to now: `stop_at="end"`, with a real broker."""

from __future__ import annotations

import anyio
import confluent_kafka
import pytest
from support.group_members import fill
from support.open_transaction import open_transaction

from minikafka.client import Admin, Consumer, Producer, TopicPartition, blocking
from minikafka.protocol.errors import OffsetOutOfRangeError

pytestmark = pytest.mark.anyio


def reader(bootstrap: str, *topics: str, **options: object) -> Consumer:
    arguments = {"auto_offset_reset": "earliest", "stop_at": "end", **options}
    return Consumer(*topics, bootstrap_servers=bootstrap, **arguments)  # type: ignore[arg-type]


async def values_of(consumer: Consumer) -> list[bytes]:
    with anyio.fail_after(60):
        return [record.value async for record in consumer]


async def test_an_iteration_ends_at_the_end(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 3, 100)
    async with reader(bootstrap, topic) as consumer:
        assert sorted(map(int, await values_of(consumer))) == list(range(100))
        assert consumer.at_end()
        assert await consumer.poll(60_000) == []
        consumer.seek(TopicPartition(topic, 0), 30)
        assert not consumer.at_end()
        assert len(await values_of(consumer)) == 4
    async with reader(bootstrap, topic) as consumer:
        assert sum([len(batch) async for batch in consumer.batches()]) == 100
    async with reader(bootstrap, topic) as consumer:
        assert sum([batch.num_rows async for batch in consumer.arrow_batches(["offset"])]) == 100


async def test_what_is_written_meanwhile_is_left_to_the_next_one(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 100)
    group = {"group_id": topic, "fetch_max_bytes": 1}
    async with reader(bootstrap, topic, **group) as consumer, Producer(bootstrap_servers=bootstrap) as producer:
        found: list[bytes] = []
        async for record in consumer:
            if not found:
                await producer.send_many(topic, [b"late"] * 10)
                await producer.flush()
            found.append(record.value)
        assert found == [b"%d" % n for n in range(100)]
        assert consumer.positions() == {TopicPartition(topic, 0): 100}
    async with reader(bootstrap, topic, **group) as consumer:
        assert await values_of(consumer) == [b"late"] * 10
        await consumer.commit()
        judge = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
        committed = judge.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=60)
        judge.close()
        assert committed[0].offset == 110


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_ends_when_its_partitions_are_assigned_and_read(
    bootstrap: str, topic: str, protocol: str
) -> None:
    await fill(bootstrap, topic, 2, 20)
    async with reader(bootstrap, topic, group_id=topic, group_protocol=protocol) as consumer:
        assert len(await values_of(consumer)) == 20
    async with reader(bootstrap, topic, group_id=topic, group_protocol=protocol) as consumer:
        assert await values_of(consumer) == []


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_without_partitions_ends(bootstrap: str, topic: str, protocol: str) -> None:
    await fill(bootstrap, topic, 1, 5)
    options = {"group_id": topic, "group_protocol": protocol}
    async with reader(bootstrap, topic, stop_at=None, **options) as first, anyio.create_task_group() as tasks:

        async def keep_polling() -> None:
            while True:
                await first.poll(100)

        while not first.assignment():
            await first.poll(100)
        tasks.start_soon(keep_polling)
        async with reader(bootstrap, topic, **options) as second:
            assert len(await values_of(second)) in (0, 5)
        tasks.cancel_scope.cancel()


async def test_an_empty_partition_and_a_start_at_the_end(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 4, 1)
    async with reader(bootstrap, topic, auto_offset_reset="latest") as consumer:
        assert await values_of(consumer) == []
    async with reader(bootstrap) as consumer:
        assert await values_of(consumer) == []
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        assert await values_of(consumer) == [b"0"]


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
async def test_a_committed_offset_beyond_the_end_is_out_of_range(
    bootstrap: str, topic: str, reset: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a topic was made anew: not silently nothing to read, at each run."""
    await fill(bootstrap, topic, 1, 10)
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 1_000})
    async with reader(bootstrap, topic, group_id=topic, auto_offset_reset=reset) as consumer:
        if reset == "none":
            with pytest.raises(OffsetOutOfRangeError):
                await values_of(consumer)
            return
        assert len(await values_of(consumer)) == (10 if reset == "earliest" else 0)
        assert consumer.positions() == {TopicPartition(topic, 0): 10}
    assert "offset out of range" in caplog.text


async def test_an_offset_that_exists_by_now_is_beyond_the_end(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 10)
    async with reader(bootstrap, topic) as consumer, Producer(bootstrap_servers=bootstrap) as producer:
        assert len(await values_of(consumer)) == 10
        await producer.send_many(topic, [b"late"] * 10)
        await producer.flush()
        for offset in (15, 20):
            consumer.seek(TopicPartition(topic, 0), offset)
            assert await values_of(consumer) == []
            assert consumer.positions() == {TopicPartition(topic, 0): offset}


async def test_records_that_are_hidden_or_deleted_do_not_keep_it(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 10)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send(topic, b"committed")
        await producer.begin()
        await producer.send(topic, b"aborted")
        await producer.abort()
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.delete_records({TopicPartition(topic, 0): 9})
    await anyio.to_thread.run_sync(open_transaction, bootstrap, topic)
    async with reader(bootstrap, topic, isolation_level="read_committed") as consumer:
        assert await values_of(consumer) == [b"9", b"committed"]


def test_the_blocking_consumer_ends_too(minikafka_bootstrap: str, topic: str) -> None:
    anyio.run(fill, minikafka_bootstrap, topic, 2, 10)
    options = {"bootstrap_servers": minikafka_bootstrap, "auto_offset_reset": "earliest", "stop_at": "end"}
    with blocking.Consumer(topic, **options) as consumer:  # type: ignore[arg-type]
        assert sorted(int(record.value) for record in consumer) == list(range(10))
        assert consumer.at_end()
    with blocking.Consumer(topic, **options) as consumer:  # type: ignore[arg-type]
        assert sum(len(batch) for batch in consumer.batches()) == 10
