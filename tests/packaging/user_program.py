"""A program of a user, with the async and the blocking clients; `test_types.py` checks and runs it."""

import asyncio
import sys

import trio

from minikafka import (
    Admin,
    Consumer,
    ConsumerRecord,
    Delivery,
    KafkaError,
    NewTopic,
    Producer,
    RecordMetadata,
    TopicPartition,
    __version__,
)
from minikafka.client import blocking


async def create(bootstrap: str) -> list[str]:
    """Create topics with the async Admin."""
    async with Admin(bootstrap_servers=bootstrap, request_timeout_ms=20_000) as admin:
        results = await admin.create_topics([NewTopic("flights", 2, configs={"retention.ms": "3600000"})])
        for topic, error in results.items():
            if error is not None:
                raise RuntimeError(f"{topic}: {error}")
        return await admin.list_topics()


async def produce(bootstrap: str) -> RecordMetadata:
    """Send records with the async Producer."""
    async with Producer(bootstrap_servers=bootstrap, acks="all", linger_ms=1, compression_type="gzip") as producer:
        delivery: Delivery = await producer.send("flights", b"EWR-IAH", key=b"N14228", headers=[("carrier", b"UA")])
        first = await delivery
        last = await producer.send_and_wait("flights", b"LGA-MIA", partition=first.partition, timestamp_ms=1)
        next_offset: int = last.offset + 1
        assert next_offset == first.offset + 2
        return last


async def consume(bootstrap: str, until: RecordMetadata) -> list[bytes | None]:
    """Read the records with the async Consumer."""
    partition = TopicPartition(until.topic, until.partition)
    values: list[bytes | None] = []
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=10) as consumer:
        consumer.assign([partition])
        async for record in consumer:
            values.append(record.value)
            if record.offset >= until.offset:
                break
        end: int = (await consumer.end_offsets([partition]))[partition]
        assert end == until.offset + 1
    return values


def without_async(bootstrap: str) -> list[ConsumerRecord]:
    """The same with the blocking clients."""
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic("weather", partitions=1)
        names: list[str] = admin.list_topics()
        assert len(names) == 2
    with blocking.Producer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        delivery = producer.send("weather", "10 °C".encode())
        metadata: RecordMetadata = delivery.result(timeout_ms=30_000)
        producer.send_and_wait("weather", b"11", key=None, partition=metadata.partition)
    with blocking.Consumer(
        "weather", bootstrap_servers=bootstrap, group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        records: list[ConsumerRecord] = []
        while len(records) < 2:
            records += consumer.poll(timeout_ms=1_000)
        consumer.commit()
    return records


def main(bootstrap: str) -> None:
    """Run everything against a cluster."""
    topics = asyncio.run(create(bootstrap))
    last = trio.run(produce, bootstrap)
    values = asyncio.run(consume(bootstrap, last))
    try:
        records = without_async(bootstrap)
    except KafkaError as error:
        raise SystemExit(f"minikafka {__version__}: {error}") from error
    print(topics, values, [record.value for record in records])


if __name__ == "__main__":
    main(sys.argv[1])
