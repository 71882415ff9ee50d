"""Transactions of clients of other projects: commit, abort, offsets, fencing; read back by each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka as ck
import kafka
import pytest
from aiokafka.errors import ProducerFenced
from support.clients import WAIT_S, Transactions, connect, eventually
from support.node import ServerProcess

PRODUCERS = ["confluent-kafka", "kafka-python", "aiokafka", "minikafka"]


def transact(client: str, bootstrap: str, topic: str, transactions: Transactions) -> None:
    """Transactions of a new producer; the topic's name is the transactional id."""
    with connect(client, bootstrap) as connected:
        connected.transact(topic, topic, transactions)


def read_with_confluent(bootstrap: str, topic: str) -> list[bytes]:
    consumer = ck.Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    })
    consumer.assign([ck.TopicPartition(topic, index, 0) for index in (0, 1)])
    found, ends = list[bytes](), set[int]()
    while len(ends) < 2:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"nothing in {WAIT_S} s; found {len(found)}"
        if message.error() is None:
            found.append(message.value())
        else:
            assert message.error().code() == ck.KafkaError._PARTITION_EOF
            ends.add(message.partition())
    consumer.close()
    return found


def read_with_kafka_python(bootstrap: str, topic: str) -> list[bytes]:
    """Up to where the position of each partition is its end, behind the last marker."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    try:
        partitions = [kafka.TopicPartition(topic, index) for index in (0, 1)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends, found = consumer.end_offsets(partitions), list[bytes]()

        def done() -> bool:
            found.extend(one.value for some in consumer.poll(timeout_ms=100).values() for one in some)
            return all(consumer.position(one) >= ends[one] for one in partitions)

        eventually(done, timeout_s=WAIT_S)
        return found
    finally:
        consumer.close()


def read_with_aiokafka(bootstrap: str, topic: str) -> list[bytes]:
    """Up to where the position of each partition is its end, behind the last marker."""

    async def read() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        async with consumer:
            partitions = [aiokafka.TopicPartition(topic, index) for index in (0, 1)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning()
            ends, found = await consumer.end_offsets(partitions), list[bytes]()
            while any([await consumer.position(one) < ends[one] for one in partitions]):
                got = await consumer.getmany(timeout_ms=100)
                found.extend(one.value for some in got.values() for one in some)
            return found

    return asyncio.run(asyncio.wait_for(read(), WAIT_S))


READ: dict[str, Callable[[str, str], list[bytes]]] = {
    "confluent-kafka": read_with_confluent,
    "kafka-python": read_with_kafka_python,
    "aiokafka": read_with_aiokafka,
}
"""All values that a read_committed consumer of each client returns up to the end of each partition."""


@pytest.fixture
def pair(node: ServerProcess, name: str) -> str:
    """A topic with two partitions."""
    with connect("confluent-kafka", node.bootstrap) as client:
        client.create_topic(name, partitions=2)
    return name


@pytest.mark.parametrize("producer", PRODUCERS)
def test_committed_records_are_read_and_aborted_ones_are_not(node: ServerProcess, pair: str, producer: str) -> None:
    transactions = [([b"%d %d" % (number, one) for one in range(4)], number % 3 != 1) for number in range(7)]
    transact(producer, node.bootstrap, pair, transactions)
    expected = sorted(value for values, commits in transactions if commits for value in values)
    for name, read in READ.items():
        assert sorted(read(node.bootstrap, pair)) == expected, name


def test_offsets_of_a_transaction_count_once_it_is_committed(node: ServerProcess, pair: str) -> None:
    producer = ck.Producer({"bootstrap.servers": node.bootstrap, "transactional.id": pair, "log_level": 0})
    consumer = ck.Consumer({"bootstrap.servers": node.bootstrap, "group.id": pair, "log_level": 0})
    producer.init_transactions(WAIT_S)
    for offset, commits, expected in ((3, True, 3), (7, False, 3), (9, True, 9)):
        producer.begin_transaction()
        producer.produce(pair, b"value", partition=0)
        positions = [ck.TopicPartition(pair, 0, offset)]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_S)
        (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)
        (found,) = consumer.committed([ck.TopicPartition(pair, 0)], WAIT_S)
        assert found.offset == expected
    consumer.close()


def fence_confluent(bootstrap: str, topic: str) -> None:
    old = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    old.init_transactions(WAIT_S)
    old.begin_transaction()
    old.produce(topic, b"never", partition=0)
    old.flush(WAIT_S)
    transact("confluent-kafka", bootstrap, topic, [([b"new"], True)])
    with pytest.raises(ck.KafkaException) as caught:
        old.commit_transaction(WAIT_S)
    error = caught.value.args[0]
    assert (error.code(), error.fatal()) == (ck.KafkaError._FENCED, True)


def fence_kafka_python(bootstrap: str, topic: str) -> None:
    old = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    try:
        old.init_transactions()
        old.begin_transaction()
        old.send(topic, b"never", partition=0).get(WAIT_S)
        transact("kafka-python", bootstrap, topic, [([b"new"], True)])
        with pytest.raises(kafka.errors.ProducerFencedError):
            old.commit_transaction()
    finally:
        old.close(timeout=0)


def fence_aiokafka(bootstrap: str, topic: str) -> None:
    async def fence() -> None:
        old = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        await old.start()
        await old.begin_transaction()
        await old.send_and_wait(topic, b"never", partition=0)
        await asyncio.to_thread(transact, "aiokafka", bootstrap, topic, [([b"new"], True)])
        with pytest.raises(ProducerFenced):
            await old.commit_transaction()
        await old.stop()

    asyncio.run(fence())


FENCE: dict[str, Callable[[str, str], None]] = {
    "confluent-kafka": fence_confluent,
    "kafka-python": fence_kafka_python,
    "aiokafka": fence_aiokafka,
}


@pytest.mark.parametrize("producer", FENCE)
def test_a_new_producer_fences_the_old_one_of_each_client(node: ServerProcess, pair: str, producer: str) -> None:
    """The old one is told so in its client's own words, and what it has written is aborted."""
    FENCE[producer](node.bootstrap, pair)
    for name, read in READ.items():
        assert read(node.bootstrap, pair) == [b"new"], name
