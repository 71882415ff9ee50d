"""The blocking clients: the same methods and results as the async ones, also from several threads."""

from __future__ import annotations

import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from minikafka import client
from minikafka.client import TopicPartition
from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.protocol.errors import InvalidTopicError, RequestTimedOutError, TopicAlreadyExistsError

SCRIPT = """
import asyncio
from minikafka.client import Consumer, Producer

async def main():
    async with Producer(bootstrap_servers="{bootstrap}") as producer:
        await producer.send("{topic}", b"hello", key=b"world")
    async with Consumer("{topic}", bootstrap_servers="{bootstrap}", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            print(record.offset, record.key, record.value)
            break

asyncio.run(main())
"""


def test_send_read_and_administer(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(topic, partitions=2)
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topic(topic)
        assert topic in admin.list_topics()
    with Producer(bootstrap_servers=bootstrap) as producer:
        deliveries = [producer.send(topic, b"%d" % n, partition=n % 2) for n in range(2000)]
        assert deliveries[-1].result().offset == 999
        producer.flush()
        assert all(delivery.done for delivery in deliveries)
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        records = [record for _, record in zip(range(2000), consumer, strict=False)]
    assert sorted(int(record.value) for record in records) == list(range(2000))


def test_positions_follow_the_iteration(bootstrap: str, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(100):
            producer.send(topic, b"%d" % n)
    with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        for record in consumer:
            if record.offset == 41:
                break
        assert consumer.position(tp) == 42
    with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic) as consumer:
        assert next(iter(consumer)).offset == 42
        assert next(consumer.batches()).values[0] == b"43"


def test_errors_are_raised_by_the_result(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
        with pytest.raises(InvalidTopicError):
            producer.send("no such name!", b"").result()
        with pytest.raises(TypeError, match="must be bytes"):
            producer.send(topic, "text")
        delivery = producer.send(topic, b"x")
        with pytest.raises(RequestTimedOutError, match="delivery continues"):
            delivery.result(timeout_ms=10)
        producer.flush()
        assert delivery.result().offset == 0


def test_many_threads_may_send(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer, ThreadPoolExecutor(8) as threads:
        results = threads.map(lambda _: producer.send(topic, b"x").result().offset, range(200))
        assert sorted(results) == list(range(200))


def test_closed_clients_raise_an_explanation() -> None:
    with pytest.raises(RuntimeError, match="use it inside `with Producer"):
        Producer().send("t", b"x")
    with pytest.raises(RuntimeError, match="use it inside `with Admin"):
        Admin().list_topics()


def signatures(kind: type[Any]) -> dict[str, str]:
    """The signatures of public methods, with the names that differ between blocking and async replaced."""
    found: dict[str, str] = {}
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") or name == "__init__":
            text = str(inspect.signature(method))
            found[name] = text.replace("BlockingDelivery", "Delivery").replace("Async", "")
    for name, value in inspect.getmembers(kind, lambda value: isinstance(value, property)):
        if not name.startswith("_"):
            found[name] = str(inspect.signature(value.fget))
    return found


@pytest.mark.parametrize("kind", [Admin, Consumer, Producer])
def test_methods_are_those_of_the_async_client(kind: Any) -> None:
    blocking, asynchronous = signatures(kind), signatures(getattr(client, kind.__name__))
    del asynchronous["cluster"]  # belongs to the event loop's thread
    assert blocking == asynchronous
    assert all(inspect.getdoc(getattr(kind, name)) for name in blocking)


def test_many_records_follow_those_sent_before(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        first = producer.send(topic, b"first")
        many = producer.send_many(topic, [b"second", b"third"])
        assert producer.partitions_for(topic) == [0]
        assert [delivery.result().offset for delivery in [first, *many]] == [0, 1, 2]


def test_asyncio_run_in_a_plain_script(bootstrap: str, topic: str) -> None:
    script = SCRIPT.format(bootstrap=bootstrap, topic=topic)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("0 b'world' b'hello'\n", "")


def test_a_record_that_failed_is_not_committed_with_those_before(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(5)])
    with pytest.raises(LookupError):
        process(bootstrap, topic, failing=2)
    with Admin(bootstrap) as admin:
        committed = admin.list_group_offsets(topic)
    assert [one.offset for one in committed.values()] == [2]


def process(bootstrap: str, topic: str, failing: int) -> None:
    """Process records one by one until one fails."""
    with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        for record in consumer:
            if record.offset == failing:
                raise LookupError


def test_the_error_of_an_impossible_topic_says_what_is_allowed(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer, pytest.raises(InvalidTopicError, match="ASCII letters"):
        producer.send("not a topic", b"x").result()
