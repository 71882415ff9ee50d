"""A consumer with a real broker: positions, seeks, pauses, batches, timestamps, isolation, commits."""

from __future__ import annotations

import anyio
import confluent_kafka
import pytest

from minikafka.client import (
    Admin,
    Consumer,
    OffsetAndMetadata,
    Producer,
    RecordDeserializationError,
    TopicPartition,
)
from minikafka.protocol.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError

pytestmark = pytest.mark.anyio
NOW = 1_700_000_000_000


async def fill(bootstrap: str, topic: str, count: int = 100, partitions: int = 1, **options: object) -> None:
    """Produce values "0", "1", …, with timestamps one second apart from NOW on, to each partition in turn."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, partitions=partitions, configs={"retention.ms": "-1"})
    async with Producer(bootstrap_servers=bootstrap, **options) as producer:
        for n in range(count):
            await producer.send(topic, b"%d" % n, partition=n % partitions, timestamp_ms=NOW + n * 1000)


def reader(bootstrap: str, *topics: str, **options: object) -> Consumer:
    return Consumer(*topics, bootstrap_servers=bootstrap, **{"auto_offset_reset": "earliest", **options})  # type: ignore[arg-type]


async def test_positions_follow_the_records(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic)
    tp = TopicPartition(topic, 0)
    async with reader(bootstrap, topic) as consumer:
        assert await consumer.position(tp) == 0
        async for record in consumer:
            if record.offset == 41:
                break
        assert await consumer.position(tp) == 42
        async for record in consumer:
            assert record.offset == 42
            break
        assert consumer.lag(tp) == 57
        assert [record.offset for record in await consumer.poll(60_000, max_records=10)] == list(range(43, 53))
        assert await consumer.position(tp) == 53
        async for batch in consumer.batches():
            assert (batch.topic, batch.partition, batch.values[0], len(batch)) == (topic, 0, b"53", 47)
            break
        assert await consumer.position(tp) == 100
        assert await consumer.poll(50) == []


@pytest.mark.slow
async def test_seeking(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic)
    tp = TopicPartition(topic, 0)
    async with reader(bootstrap, topic) as consumer:
        for offset in (50, 3, 99):
            consumer.seek(tp, offset)
            assert (await consumer.poll(60_000))[0].offset == offset
        consumer.seek_to_beginning()
        assert (await consumer.poll(60_000))[0].offset == 0
        await consumer.seek_to_time(NOW + 70_500)
        assert (await consumer.poll(60_000))[0].offset == 71
        await consumer.seek_to_time(NOW + 700_000)
        assert await consumer.position(tp) == 100
        consumer.seek(tp, 10)
        async for record in consumer:
            if record.offset == 20:
                consumer.seek(tp, 5)
            if record.offset == 5:
                break
        with pytest.raises(ValueError, match="not assigned to this consumer"):
            consumer.seek(TopicPartition("other", 0), 1)
        with pytest.raises(ValueError, match=r"seek\(offset=-1\): must be a whole number from 0"):
            consumer.seek(tp, -1)


async def test_offset_lookups(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with reader(bootstrap, topic) as consumer:
        assert await consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
        assert await consumer.end_offsets([first, second]) == {first: 50, second: 50}
        found = await consumer.offsets_for_times({first: NOW + 10_500, second: NOW + 10_000_000})
        assert (found[first].offset, found[first].timestamp) == (6, NOW + 12_000)  # type: ignore[union-attr]
        assert found[second] is None


async def test_pausing(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, partitions=2)
    first = TopicPartition(topic, 0)
    async with reader(bootstrap, topic) as consumer:
        async for record in consumer:
            if (record.partition, record.offset) == (0, 9):
                consumer.pause(first)
                break
        assert consumer.paused() == [first]
        assert await consumer.position(first) == 10
        rest = await consumer.poll(200, max_records=1000)
        assert {record.partition for record in rest} <= {1}
        assert await consumer.position(first) == 10
        consumer.resume(first)
        left: list[int] = []
        while len(left) < 40:
            left += [record.offset for record in await consumer.poll(60_000) if record.partition == 0]
        assert left == list(range(10, 50))


async def test_a_new_consumer_starts_at_the_end(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic)
    async with reader(bootstrap, topic, auto_offset_reset="latest") as consumer:
        assert await consumer.position(TopicPartition(topic, 0)) == 100
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(topic, b"new")
        assert [record.value for record in await consumer.poll(60_000)] == [b"new"]


async def test_without_committed_offset_and_reset_an_error_is_raised(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic)
    tp = TopicPartition(topic, 0)
    async with reader(bootstrap, topic, auto_offset_reset="none") as consumer:
        with pytest.raises(OffsetOutOfRangeError, match="seek to an offset, or set auto_offset_reset"):
            await consumer.poll(60_000)
        consumer.seek(tp, 98)
        assert len(await consumer.poll(60_000)) == 2
        consumer.seek(tp, 1000)
        with pytest.raises(OffsetOutOfRangeError, match=r"offset 1000 of .* is out of range"):
            await consumer.poll(60_000)
        consumer.seek(tp, 0)
        assert (await consumer.poll(60_000))[0].offset == 0


@pytest.mark.parametrize(
    ("reset", "offset", "warning"),
    [
        ("earliest", 5, "offset 30: the records before 30 were deleted"),
        ("latest", 5, "offset 100: records were deleted, and those before 100 are skipped"),
        ("earliest", 500, "offset 30: the log ends before it"),
        ("latest", 500, "offset 100: the log ends before it"),
    ],
)
async def test_an_offset_out_of_range_is_reset_with_a_warning(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture, reset: str, offset: int, warning: str
) -> None:
    """Records are missed, or come again."""
    await fill(bootstrap, topic)
    tp = TopicPartition(topic, 0)
    async with Admin(bootstrap_servers=bootstrap) as admin:
        assert await admin.delete_records({tp: 30}) == {tp: 30}
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset=reset) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, offset)
        while consumer.positions().get(tp, offset) == offset:
            await consumer.poll(100)
    wanted = f"offset out of range: {tp}, offset {offset}, reset to the {reset}, {warning}"
    assert [one for one in caplog.messages if "out of range" in one] == [wanted]


async def test_manual_assignment_and_commits(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with reader(bootstrap, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.assign([first, second])
        assert await consumer.committed() == {}
        await consumer.commit({first: 7, second: OffsetAndMetadata(9, "note")})
        found = await consumer.committed(first, second)
        assert (found[first].offset, found[second].offset, found[second].metadata) == (7, 9, "note")
    async with reader(bootstrap, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.assign([first])
        assert (await consumer.poll(60_000, max_records=3))[0].offset == 7
        await consumer.commit()
        assert (await consumer.committed(first))[first].offset == 10


async def test_deserializers(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 3)
    async with reader(bootstrap, topic, value_deserializer=int) as consumer:
        assert [record.value for record in await consumer.poll(60_000)] == [0, 1, 2]


async def test_a_record_that_cannot_be_deserialized_is_named_and_can_be_skipped(bootstrap: str, topic: str) -> None:
    """As RecordDeserializationException: after the records before it, again at each request, until a seek."""
    await fill(bootstrap, topic, 3)
    tp = TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send(topic, b"x", key=b"k", headers=[("h", b"1")], timestamp_ms=NOW)
        await producer.send(topic, b"4", key=b"not a number")
        await producer.send(topic, b"5")
    async with reader(bootstrap, topic, value_deserializer=int, group_id=topic) as consumer:
        seen: list[int] = []
        while len(seen) < 3:
            seen += [record.value for record in await consumer.poll(60_000)]
        assert seen == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(RecordDeserializationError, match=r"value of the record at offset 3 .*seek to 4") as one:
                await consumer.poll(60_000)
            assert (one.value.topic_partition, one.value.offset, one.value.origin) == (tp, 3, "value")
            assert (one.value.key, one.value.value, list(one.value.headers)) == (b"k", b"x", [("h", b"1")])
            assert (one.value.timestamp, type(one.value.__cause__)) == (NOW, ValueError)
            assert await consumer.position(tp) == 3
        await consumer.commit()
        assert (await consumer.committed())[tp].offset == 3
        consumer.seek(tp, 4)
        assert [record.value for record in await consumer.poll(60_000)] == [4, 5]
    async with reader(bootstrap, topic, key_deserializer=int) as consumer:
        seen += [record.offset for record in await consumer.poll(60_000)]
        with pytest.raises(RecordDeserializationError, match="key of the record at offset 3"):
            await anext(aiter(consumer))
        assert seen == [0, 1, 2, 0, 1, 2]
        consumer.seek(tp, 5)
        async for batch in consumer.batches():
            assert batch.values == [b"5"]
            break


async def test_new_partitions_are_detected(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 3)
    async with reader(bootstrap, topic, metadata_max_age_ms=200) as consumer:
        assert len(await consumer.poll(60_000)) == 3
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_partitions(topic, 2)
        async with Producer(bootstrap_servers=bootstrap, metadata_max_age_ms=200) as producer:
            while 1 not in await producer.partitions_for(topic):
                await anyio.sleep(0.05)
            await producer.send_and_wait(topic, b"in the new one", partition=1)
        assert [record.value for record in await consumer.poll(60_000)] == [b"in the new one"]


async def test_patterns(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic + "-a", 3)
    async with reader(bootstrap, metadata_max_age_ms=200) as consumer:
        await consumer.subscribe(pattern=topic + "-.")
        assert len(await consumer.poll(60_000)) == 3
        await fill(bootstrap, topic + "-b", 2)
        assert {record.topic for record in await consumer.poll(60_000)} == {topic + "-b"}
        await consumer.unsubscribe()
        assert consumer.assignment() == []


async def test_a_topic_that_does_not_exist_is_named_within_seconds(bootstrap: str, topic: str) -> None:
    soon_ms = 1000

    async def enter() -> None:
        async with reader(bootstrap, topic, default_api_timeout_ms=soon_ms):
            raise AssertionError("not reached")

    with anyio.fail_after(30), pytest.raises(UnknownTopicOrPartitionError, match=rf"'{topic}' does not exist"):
        await enter()
    async with Admin(bootstrap_servers=bootstrap) as admin:
        assert topic not in await admin.list_topics(), "the consumer created it"
    async with reader(bootstrap, default_api_timeout_ms=soon_ms) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with anyio.fail_after(30), pytest.raises(UnknownTopicOrPartitionError, match=rf"'{topic}' does not exist"):
            await consumer.poll(60_000)


async def test_a_member_of_a_group_waits_for_a_topic_that_does_not_exist(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with reader(bootstrap, topic, group_id=topic, metadata_max_age_ms=200) as consumer:
        while not caplog.records:
            assert await consumer.poll(100) == []
        assert caplog.records[0].getMessage() == f"subscribed topic does not exist: {topic}"
        await fill(bootstrap, topic, 1)
        assert len(await consumer.poll(60_000)) == 1


async def test_a_consumer_may_have_topics_created(bootstrap: str, topic: str) -> None:
    async with reader(bootstrap, topic, allow_auto_create_topics=True) as consumer:
        assert consumer.assignment() == [TopicPartition(topic, 0)]


async def test_invalid_subscriptions_are_explained(bootstrap: str, topic: str) -> None:
    async with reader(bootstrap) as consumer:
        with pytest.raises(TypeError, match=r"subscribe\(topics='name'\): must be a list"):
            await consumer.subscribe("name")
        with pytest.raises(ValueError, match="requires topics or a pattern"):
            await consumer.subscribe([])
        with pytest.raises(ValueError, match="requires a group"):
            await consumer.commit()
        await fill(bootstrap, topic, 1)
        await consumer.subscribe([topic])
        with pytest.raises(RuntimeError, match="unsubscribe"):
            consumer.assign([TopicPartition(topic, 0)])


async def test_cancelled_waits_lose_nothing(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 0)
    async with reader(bootstrap, topic) as consumer, Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        got: list[bytes] = []
        for n in range(20):
            await producer.send(topic, b"%d" % n)
            with anyio.move_on_after(0.002 * (n % 5)):
                async for record in consumer:
                    got.append(record.value)
        while len(got) < 20:
            got += [record.value for record in await consumer.poll(60_000)]
        assert got == [b"%d" % n for n in range(20)]


async def test_one_partition_does_not_starve_another(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, partitions=2)
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(6000):
            await producer.send(topic, bytes(1000), partition=int(n >= 5900))
    async with reader(bootstrap, topic, max_partition_fetch_bytes=100_000) as consumer:
        seen = {0: 0, 1: 0}
        async for record in consumer:
            seen[record.partition] += 1
            if seen[1] == 100:
                break
        assert seen[0] < 5900


@pytest.mark.slow
async def test_highly_compressed_records_are_read(bootstrap: str, topic: str) -> None:
    """300 MB of zeros in a response of a few kilobytes are read, and never decompressed all at once."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic)
    count, value = 3000, bytes(100_000)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd", "linger.ms": 100})
    for _ in range(count):
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    expected = 0
    async with reader(bootstrap, topic) as consumer:
        with anyio.fail_after(100):
            while expected < count:
                for record in await consumer.poll(1000):
                    assert (record.offset, record.value) == (expected, value)
                    expected += 1
