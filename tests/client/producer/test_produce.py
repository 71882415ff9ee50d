"""A producer with a real broker: acknowledged records are stored in order, with every codec; errors are explained."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.clients import until_answered

from minikafka.client import (
    Admin,
    Consumer,
    ConsumerRecord,
    Delivery,
    InvalidOption,
    KafkaError,
    Producer,
    RecordMetadata,
    TopicPartition,
)
from minikafka.client.producer.partitioner import partition_for_key
from minikafka.protocol.errors import (
    InvalidTopicError,
    MessageTooLargeError,
    NetworkError,
    UnknownTopicOrPartitionError,
)

pytestmark = pytest.mark.anyio
NOW = 1_700_000_000_000


async def read_all(bootstrap: str, topic: str, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        with anyio.move_on_after(60):
            async for record in consumer:
                records.append(record)
                if len(records) == count:
                    return records
        raise AssertionError(f"read {len(records)} of {count} records; {waiting_for(consumer)}")


def waiting_for(consumer: Consumer) -> str:
    """The state of a consumer that gets no records, for the failure message."""
    positions = [
        f"{tp} at {one.fetch_offset}, in flight {one.in_flight}, buffered {one.buffered}, not before {one.not_before}"
        for tp, one in consumer._fetcher.states.items()
    ]
    connections = [f"{purpose or 'any'}: {one.in_flight} in flight" for purpose, one in consumer.cluster._open()]
    return f"now {anyio.current_time()}; {'; '.join(positions)}; connections: {', '.join(connections)}"


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_sent_records_are_read(bootstrap: str, topic: str, codec: str) -> None:
    sent = [(b"k%d" % (n % 7) if n % 3 else None, b"v%d" % n * (n % 50) if n % 11 else None) for n in range(1500)]
    headers = (("name", b"x"), ("empty", b""), ("null", None))
    async with Producer(bootstrap_servers=bootstrap, compression_type=codec, batch_size=20_000) as producer:
        for n, (key, value) in enumerate(sent):
            delivery = await producer.send(
                topic, value, key=key, timestamp_ms=NOW + n, headers=headers if n % 100 == 0 else ()
            )
        await producer.flush()
        assert delivery.done
        assert await delivery == RecordMetadata(topic, 0, 1499, NOW + 1499)
    records = await read_all(bootstrap, topic, len(sent))
    assert [(record.key, record.value) for record in records] == sent
    assert [record.offset for record in records] == list(range(1500))
    assert [record.timestamp for record in records] == [NOW + n for n in range(1500)]
    assert {tuple(record.headers) for record in records[::100]} == {headers}
    assert not any(record.headers for record in records[1:100])


async def test_keys_choose_partitions_as_in_java_and_keep_their_order(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, partitions=4)
    async with Producer(bootstrap_servers=bootstrap, batch_size=500) as producer:
        for n in range(400):
            await producer.send(topic, b"%d" % n, key=b"key-%d" % (n % 9))
        keys = [b"key-%d" % (n % 9) for n in range(90)]
        many = await producer.send_many(topic, [b"m%d" % n for n in range(90)], keys=keys)
        assert (await many[3]).partition == partition_for_key(b"key-3", 4)
    records = await read_all(bootstrap, topic, 490)
    assert all(record.partition == partition_for_key(record.key, 4) for record in records)
    for key in {record.key for record in records}:
        values = [record.value for record in records if record.key == key]
        assert values == sorted(values, key=lambda value: (value[:1] == b"m", int(value.strip(b"m"))))


async def test_a_custom_partitioner(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, partitions=3)

    def last(name: str, key: bytes | None, value: bytes | None, count: int) -> int:
        return count - 1

    async with Producer(bootstrap_servers=bootstrap, partitioner=last) as producer:
        assert (await producer.send_and_wait(topic, b"x")).partition == 2
        assert (await producer.send_and_wait(topic, b"x", partition=1)).partition == 1
        with pytest.raises(ValueError, match="has no partition 3: it has 0 to 2"):
            await producer.send(topic, b"x", partition=3)


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_acks(bootstrap: str, topic: str, acks: Any) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"zero")  # so that the topic has a leader
    async with Producer(bootstrap_servers=bootstrap, acks=acks) as producer:
        first = await producer.send_and_wait(topic, b"one")
        second = await producer.send_and_wait(topic, b"two")
    assert [first.offset, second.offset] == ([-1, -1] if acks == 0 else [1, 2])
    assert [record.value for record in await read_all(bootstrap, topic, 3)] == [b"zero", b"one", b"two"]


async def test_serializers_and_callbacks(bootstrap: str, topic: str) -> None:
    seen: list[Any] = []
    async with Producer(bootstrap_servers=bootstrap, value_serializer=str.encode) as producer:
        await producer.send(topic, "text", on_delivery=lambda *both: seen.append(both))
        await producer.flush()
    assert seen == [(RecordMetadata(topic, 0, 0, seen[0][0].timestamp), None)]


async def test_invalid_records_are_rejected_at_once(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(TypeError, match="value must be bytes or None, not str: encode it"):
            await producer.send(topic, "text")
        with pytest.raises(MessageTooLargeError, match="max_request_size is 1048576"):
            await producer.send(topic, bytes(2_000_000))
        with pytest.raises(InvalidTopicError, match="no such name!"):
            await producer.send("no such name!", b"")


async def test_a_rejected_batch_is_reported_and_others_are_delivered(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, configs={"max.message.bytes": "1000"})
    async with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        good = [await producer.send(topic, b"%d" % n * 100) for n in range(20)]
        bad = await producer.send(topic, bytes(5000))
        after = await producer.send(topic, b"after")
        with pytest.raises(MessageTooLargeError, match=topic):
            await bad
        assert [(await one).offset for one in good] == list(range(20))
        assert (await after).offset == 20


async def test_leaving_by_an_exception_drops_queued_records(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000, delivery_timeout_ms=200_000)
    deliveries: list[Delivery] = []

    async def fail() -> None:
        async with producer:
            deliveries.append(await producer.send(topic, b"never sent"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with pytest.raises(NetworkError, match="closed before"):
        await deliveries[0]
    with pytest.raises(RuntimeError, match="closed"):
        await producer.send(topic, b"x")


async def test_cancelling_a_wait_does_not_withdraw_the_record(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap_servers=bootstrap, linger_ms=60_000) as producer:
        delivery = await producer.send(topic, b"stays")
        with anyio.move_on_after(0.01) as scope:
            await delivery
        assert scope.cancelled_caught
        with pytest.raises(RuntimeError, match="not delivered yet"):
            delivery.result()
        await producer.flush()
        assert (await delivery).offset == 0


async def test_back_pressure_bounds_memory(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap_servers=bootstrap, buffer_memory=50_000, batch_size=5_000) as producer:
        for _ in range(3000):
            await producer.send(topic, bytes(100))
            assert producer._accumulator.used_bytes <= 60_000
    assert len(await read_all(bootstrap, topic, 3000)) == 3000


async def test_an_unreachable_cluster_is_reported_with_its_address() -> None:
    async def enter() -> None:
        async with Producer(bootstrap_servers="127.0.0.1:1", socket_connection_setup_timeout_ms=200):
            raise AssertionError("not reached")

    with pytest.raises(NetworkError, match=r"127.0.0.1:1.*check the address"):
        await until_answered(enter)


async def test_many_tasks_may_share_a_producer(bootstrap: str, topic: str) -> None:
    offsets: list[int] = []

    async def produce(producer: Producer) -> None:
        for _ in range(20):
            offsets.append((await producer.send_and_wait(topic, b"x")).offset)

    async with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer, anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(produce, producer)
    assert sorted(offsets) == list(range(200))


async def test_a_producer_is_entered_once(bootstrap: str) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(RuntimeError, match="already entered"):
            await producer.__aenter__()


async def test_waiting_for_a_topic_ends(bootstrap: str, topic: str) -> None:
    options: dict[str, Any] = {"max_block_ms": 300, "allow_auto_create_topics": False}
    async with Producer(bootstrap_servers=bootstrap, **options) as producer:
        with pytest.raises(UnknownTopicOrPartitionError, match=f"within 300 ms: topic '{topic}'"):
            await until_answered(lambda: producer.send(topic, b"x"))


def test_errors_are_kafkas() -> None:
    assert issubclass(NetworkError, KafkaError)
    assert not issubclass(InvalidOption, KafkaError)
    assert TopicPartition("t", 1) == ("t", 1)


async def test_invalid_timestamps_and_headers_are_rejected(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(ValueError, match="since 1970"):
            await producer.send(topic, b"x", timestamp_ms=-2)
        with pytest.raises(TypeError, match=r"headers\[0\]=5\): must be the value of a header"):
            await producer.send(topic, b"x", headers=[("name", 5)])  # type: ignore[list-item]


async def test_a_failing_callback_does_not_affect_other_records(bootstrap: str, topic: str) -> None:
    def fail(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        raise ZeroDivisionError

    async with Producer(bootstrap_servers=bootstrap) as producer:
        first = await producer.send(topic, b"x", on_delivery=fail)
        second = await producer.send(topic, b"y")
        assert [(await first).offset, (await second).offset] == [0, 1]
