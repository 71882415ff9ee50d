"""Transactions of our producer, against brokers."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest
from support.oracle import Oracle, tool, why_absent

from minikafka.client import Consumer, Producer, TopicPartition, blocking
from minikafka.client.producer.transaction_state import AbortableTransactionError, ProducerFenced, TransactionAborted

SETTINGS = {"num.partitions": 1, "group.initial.rebalance.delay.ms": 0, "offsets.topic.replication.factor": 1}


@pytest.fixture(scope="session")
def kafka_version1_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache Kafka with version 1 of transactions."""
    reason = why_absent()
    if reason:
        pytest.skip(reason)
    with Oracle(tmp_path_factory.mktemp("kafka") / "data", settings=SETTINGS) as node:
        tool("features", "--bootstrap-server", node.bootstrap, "downgrade", "--feature", "transaction.version=1")
        yield node.bootstrap


KAFKAS = [pytest.param(name, marks=pytest.mark.oracle) for name in ("kafka", "kafka_version1")]


@pytest.fixture(params=["minikafka", *KAFKAS])
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_bootstrap"))


def transactional(bootstrap: str, name: str, **options: object) -> Producer:
    return Producer(bootstrap, transactional_id=name, **options)  # type: ignore[arg-type]


async def values(bootstrap: str, topic: str, count: int, isolation: str = "read_committed") -> list[bytes]:
    """The first `count` values of a topic; the consumer must find no more."""
    found: list[bytes] = []
    async with Consumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=isolation  # type: ignore[arg-type]
    ) as consumer:
        with anyio.fail_after(30):
            while len(found) < count:
                found += [record.value or b"" for record in await consumer.poll(1000)]
        end = await consumer.end_offsets(consumer.assignment())
        with anyio.fail_after(30):
            while any(consumer.positions()[tp] < offset for tp, offset in end.items()):
                found += [record.value or b"" for record in await consumer.poll(100)]
    return found


async def abandoned(producer: Producer, topic: str) -> None:
    """A transaction that is left by an exception."""
    async with producer.transaction():
        await (await producer.send(topic, b"lost"))
        raise LookupError


def abandoned_at_once(producer: blocking.Producer, topic: str) -> None:
    """As `abandoned`, without async."""
    with producer.transaction():
        producer.send_and_wait(topic, b"lost")
        raise LookupError


@pytest.mark.slow
@pytest.mark.anyio
async def test_committed_records_are_read_and_aborted_ones_are_not(bootstrap: str, topic: str) -> None:
    async with transactional(bootstrap, topic) as producer:
        async with producer.transaction():
            await producer.send(topic, b"one")
            await producer.send(topic, b"two")
        with pytest.raises(LookupError):
            await abandoned(producer, topic)
        for number in range(5):
            async with producer.transaction():
                await producer.send(topic, b"%d" % number)
    assert await values(bootstrap, topic, 7) == [b"one", b"two", b"0", b"1", b"2", b"3", b"4"]
    assert b"lost" in await values(bootstrap, topic, 8, "read_uncommitted")


@pytest.mark.anyio
async def test_records_that_were_not_sent_are_dropped_by_an_abort(bootstrap: str, topic: str) -> None:
    async with transactional(bootstrap, topic, linger_ms=10_000) as producer:
        await producer.begin()
        dropped = await producer.send(topic, b"dropped")
        await producer.abort()
        with pytest.raises(TransactionAborted):
            await dropped
        async with producer.transaction():
            await producer.send(topic, b"sent")
    assert await values(bootstrap, topic, 1) == [b"sent"]


@pytest.mark.anyio
async def test_a_second_producer_fences_the_first(bootstrap: str, topic: str) -> None:
    async with transactional(bootstrap, topic) as first:
        await first.begin()
        await (await first.send(topic, b"zombie"))
        async with transactional(bootstrap, topic) as second:
            async with second.transaction():
                await second.send(topic, b"second")
            await first.send(topic, b"late")
            with pytest.raises((ProducerFenced, AbortableTransactionError)):
                await first.commit()
            with pytest.raises(ProducerFenced):
                await first.abort()
    assert await values(bootstrap, topic, 1) == [b"second"]


@pytest.mark.anyio
async def test_offsets_are_committed_with_the_transaction(bootstrap: str, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    async with Producer(bootstrap) as plain:
        for number in range(10):
            await plain.send_and_wait(topic, b"%d" % number)
    async with (
        transactional(bootstrap, topic) as producer,
        Consumer(
            topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer,
    ):
        records = await consumer.poll(20_000, 4)
        await producer.begin()
        for record in records:
            await producer.send(topic + "-out", record.value)
        await producer.send_offsets_to_transaction(consumer.positions(), consumer.group_metadata())
        await producer.abort()
        assert await consumer.committed(tp) == {}
        async with producer.transaction():
            for record in records:
                await producer.send(topic + "-out", record.value)
            await producer.send_offsets_to_transaction(consumer.positions(), consumer.group_metadata())
        assert (await consumer.committed(tp))[tp].offset == len(records)
    assert await values(bootstrap, topic + "-out", len(records)) == [record.value for record in records]


@pytest.mark.anyio
async def test_offsets_of_a_consumer_that_has_left_are_refused(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap) as plain:
        await plain.send_and_wait(topic, b"")
    async with Consumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        await consumer.poll(20_000)
        stale, positions = consumer.group_metadata(), consumer.positions()
    async with transactional(bootstrap, topic) as producer:
        await producer.begin()
        with pytest.raises(AbortableTransactionError):
            await producer.send_offsets_to_transaction(positions, stale)
        with pytest.raises(AbortableTransactionError):
            await producer.commit()
        await producer.abort()
        async with producer.transaction():
            await producer.send(topic, b"next")
    assert await values(bootstrap, topic, 2) == [b"", b"next"]


def test_blocking_code_has_transactions_too(bootstrap: str, topic: str) -> None:
    with blocking.Producer(bootstrap, transactional_id=topic) as producer:
        with pytest.raises(RuntimeError, match="begin"):
            producer.send(topic, b"outside")
        with producer.transaction():
            producer.send(topic, b"one")
        with pytest.raises(LookupError):
            abandoned_at_once(producer, topic)
        with blocking.Consumer(
            topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:
            while not consumer.poll(1000, 1):
                pass
            producer.begin()
            producer.send_offsets_to_transaction(consumer.positions(), consumer.group_metadata())
            producer.send(topic, b"two")
            producer.commit()
            assert [one.offset for one in consumer.committed().values()] == [1]
    assert anyio.run(values, bootstrap, topic, 2) == [b"one", b"two"]
