"""Workers of the benchmark: one client and one task each, in a separate process.

    python -m bench.workers consume_confluent '{"bootstrap": "127.0.0.1:9092", "topic": "t", "count": 1000}'

prints the number of records and the time from the first to the last, without startup.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib import import_module
from statistics import quantiles
from typing import Any

LINGER_MS = 5
BATCH_BYTES = 256 << 10
FETCH_BYTES = 16 << 20
WAIT_S = 60
QUEUED_MAX = 2_000_000
Options = dict[str, str]
"""Of TLS and SASL, by librdkafka's names."""


@dataclass(frozen=True)
class Run:
    """The result of a worker; of transactions also the time from the begin to the end of the commit."""

    count: int
    seconds: float
    p50_ms: float = 0
    p99_ms: float = 0

    @property
    def rate(self) -> float:
        return self.count / self.seconds


def produce_confluent(
    bootstrap: str, topic: str, count: int, size: int, acks: str = "1", security: Options | None = None
) -> Run:
    """confluent-kafka at its highest rate: a large queue and large batches."""
    producer = confluent_producer(bootstrap, topic, acks=acks, security=security)
    value, chunk = bytes(size), 10_000
    chunks = [[{"value": value}] * min(chunk, count - start) for start in range(0, count, chunk)]
    began = time.perf_counter()
    for some in chunks:
        if producer.produce_batch(topic, some, 0) < len(some):
            raise SystemExit("the queue is too small for the benchmark")
        while len(producer) > QUEUED_MAX:
            producer.poll(0.01)
    assert producer.flush(WAIT_S) == 0
    return Run(count, time.perf_counter() - began)


def produce_timed(bootstrap: str, topic: str, count: int, size: int, first_time_ms: int) -> Run:
    """Records with timestamps one millisecond apart, in batches of the default size."""
    producer, value = confluent_producer(bootstrap, topic, batch_bytes=16 << 10), bytes(size)
    began = time.perf_counter()
    for number in range(count):
        producer.produce(topic, value, partition=0, timestamp=first_time_ms + number)
        if number % 10_000 == 0:
            while len(producer) > QUEUED_MAX:
                producer.poll(0.01)
    assert producer.flush(WAIT_S) == 0
    return Run(count, time.perf_counter() - began)


def produce_keyed(bootstrap: str, topic: str, count: int, size: int, keys: int) -> Run:
    """Each key in turn, in batches of the default size, with the time of the record as timestamp."""
    producer, value, chunk = confluent_producer(bootstrap, topic, batch_bytes=16 << 10), bytes(size), 10_000
    names = [b"key-%09d" % number for number in range(keys)]
    began = time.perf_counter()
    for start in range(0, count, chunk):
        some = [{"key": names[number % keys], "value": value} for number in range(start, start + chunk)]
        if producer.produce_batch(topic, some, 0) < len(some):
            raise SystemExit("the queue is too small for the benchmark")
        while len(producer) > QUEUED_MAX:
            producer.poll(0.01)
    assert producer.flush(WAIT_S) == 0
    return Run(count, time.perf_counter() - began)


def transact_confluent(bootstrap: str, topic: str, transactions: int, records: int, size: int, warm_up: int) -> Run:
    """Transactions of protocol version 1, one after the other, each committed before the next one begins."""
    producer = transactional_producer(bootstrap, topic)
    some = [{"value": bytes(size)}] * records

    def transact() -> None:
        producer.begin_transaction()
        assert producer.produce_batch(topic, some, 0) == records
        producer.commit_transaction(WAIT_S)

    return timed_transactions(transact, transactions, records, warm_up)


def produce_idempotent_confluent(
    bootstrap: str, topic: str, transactions: int, records: int, size: int, warm_up: int
) -> Run:
    """What `transact_confluent` does, without transactions: as many records, then a flush."""
    producer = transactional_producer(bootstrap, topic, transactional=False)
    some = [{"value": bytes(size)}] * records

    def produce() -> None:
        assert producer.produce_batch(topic, some, 0) == records
        assert producer.flush(WAIT_S) == 0

    return timed_transactions(produce, transactions, records, warm_up)


def transactional_producer(bootstrap: str, topic: str, *, transactional: bool = True) -> Any:
    producer = import_module("confluent_kafka").Producer({
        "bootstrap.servers": bootstrap,
        "linger.ms": 0,
        "enable.idempotence": True,
        **({"transactional.id": f"bench-{topic}"} if transactional else {}),
    })
    producer.list_topics(topic, WAIT_S)
    if transactional:
        producer.init_transactions(WAIT_S)
    return producer


def transact_minikafka(bootstrap: str, topic: str, transactions: int, records: int, size: int, warm_up: int) -> Run:
    """Transactions of protocol version 2 by minikafka's client, one after the other."""
    return produce_in_steps(bootstrap, topic, transactions, records, size, warm_up, transactional=True)


def produce_idempotent_minikafka(
    bootstrap: str, topic: str, transactions: int, records: int, size: int, warm_up: int
) -> Run:
    """What `transact_minikafka` does, without transactions: as many records, then a flush."""
    return produce_in_steps(bootstrap, topic, transactions, records, size, warm_up, transactional=False)


def produce_in_steps(
    bootstrap: str, topic: str, steps: int, records: int, size: int, warm_up: int, *, transactional: bool
) -> Run:
    client = import_module("minikafka.client")
    value = bytes(size)

    async def produce(producer: Any) -> Any:
        for _ in range(records):
            delivery = await producer.send(topic, value, partition=0)
        return delivery

    async def step(producer: Any) -> float:
        began = time.perf_counter()
        if transactional:
            async with producer.transaction():
                await produce(producer)
        else:
            delivery = await produce(producer)
            await producer.flush()
            delivery.result()  # `flush` does not raise: without this, every step would wait for a broker that failed
        return time.perf_counter() - began

    async def run() -> list[float]:
        options = {"transactional_id": f"bench-{topic}"} if transactional else {}
        async with client.Producer(bootstrap, linger_ms=0, **options) as producer:
            times = [await step(producer) for _ in range(warm_up + steps)]
        return times[warm_up:]

    return of_steps(asyncio.run(run()), records)


def timed_transactions(transact: Callable[[], None], transactions: int, records: int, warm_up: int) -> Run:
    for _ in range(warm_up):
        transact()
    times: list[float] = []
    for _ in range(transactions):
        began = time.perf_counter()
        transact()
        times.append(time.perf_counter() - began)
    return of_steps(times, records)


def of_steps(times: list[float], records: int) -> Run:
    """The result of steps of so many records, from the time in seconds of each."""
    cuts = quantiles(times, n=100)
    return Run(len(times) * records, sum(times), cuts[49] * 1000, cuts[98] * 1000)


def confluent_producer(
    bootstrap: str, topic: str, batch_bytes: int = 1_000_000, acks: str = "1", security: Options | None = None
) -> Any:
    producer = import_module("confluent_kafka").Producer({
        "bootstrap.servers": bootstrap,
        "acks": acks,
        "linger.ms": LINGER_MS,
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": 2_000_000,
        "batch.num.messages": 100_000,
        "batch.size": batch_bytes,
        **(security or {}),
    })
    producer.list_topics(topic, WAIT_S)
    return producer


def consume_confluent(bootstrap: str, topic: str, count: int, security: Options | None = None) -> Run:
    confluent_kafka = import_module("confluent_kafka")
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "fetch.message.max.bytes": FETCH_BYTES,
        "fetch.max.bytes": 64 << 20,
        "receive.message.max.bytes": 100 << 20,
        "queued.min.messages": 5_000_000,
        "queued.max.messages.kbytes": 512 << 10,
        **(security or {}),
    })
    consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), WAIT_S)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    done, began = 0, time.perf_counter()
    while done < count:
        done += len(consumer.consume(100_000, 0.05))
    run = Run(done, time.perf_counter() - began)
    consumer.close()
    return run


def produce_kafka_python(bootstrap: str, topic: str, count: int, size: int) -> Run:
    kafka = import_module("kafka")
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, acks=1, linger_ms=LINGER_MS, batch_size=BATCH_BYTES, enable_idempotence=False
    )
    producer.partitions_for(topic)
    value, began = bytes(size), time.perf_counter()
    for _ in range(count):
        producer.send(topic, value)
    producer.flush(WAIT_S)
    return Run(count, time.perf_counter() - began)


def consume_kafka_python(bootstrap: str, topic: str, count: int) -> Run:
    kafka = import_module("kafka")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, max_poll_records=50_000, max_partition_fetch_bytes=FETCH_BYTES
    )
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, consumer.beginning_offsets([partition])[partition])
    done, began = 0, time.perf_counter()
    while done < count:
        for records in consumer.poll(1000).values():
            done += touched(records)
    run = Run(done, time.perf_counter() - began)
    consumer.close()
    return run


def produce_aiokafka(bootstrap: str, topic: str, count: int, size: int) -> Run:
    aiokafka = import_module("aiokafka")

    async def produce() -> Run:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks=1, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES
        )
        async with producer:
            await producer.partitions_for(topic)
            value, began = bytes(size), time.perf_counter()
            for _ in range(count):
                await producer.send(topic, value)
            await producer.flush()
            return Run(count, time.perf_counter() - began)

    return asyncio.run(produce())


def consume_aiokafka(bootstrap: str, topic: str, count: int) -> Run:
    aiokafka = import_module("aiokafka")

    async def consume() -> Run:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=FETCH_BYTES
        )
        async with consumer:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, (await consumer.beginning_offsets([partition]))[partition])
            done, began = 0, time.perf_counter()
            while done < count:
                for records in (await consumer.getmany(timeout_ms=1000, max_records=50_000)).values():
                    done += touched(records)
            return Run(done, time.perf_counter() - began)

    return asyncio.run(consume())


def produce_minikafka(bootstrap: str, topic: str, count: int, size: int, many: bool = False) -> Run:
    """minikafka's client, record by record as the others, or with `send_many`."""
    client = import_module("minikafka.client")

    async def produce() -> Run:
        async with client.Producer(bootstrap, acks=1, enable_idempotence=False, linger_ms=LINGER_MS) as producer:
            await producer.partitions_for(topic)
            value, began = bytes(size), time.perf_counter()
            if many:
                for start in range(0, count, 10_000):
                    delivery = (await producer.send_many(topic, [value] * min(10_000, count - start)))[-1]
            else:
                for _ in range(count):
                    delivery = await producer.send(topic, value)
            await producer.flush()
            delivery.result()
            return Run(count, time.perf_counter() - began)

    return asyncio.run(produce())


def consume_minikafka(bootstrap: str, topic: str, count: int) -> Run:
    client = import_module("minikafka.client")

    async def consume() -> Run:
        consumer = client.Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=FETCH_BYTES
        )
        async with consumer:
            await consumer.beginning_offsets([(topic, 0)])
            consumer.assign([(topic, 0)])
            done, began = 0, time.perf_counter()
            async for batch in consumer.batches():
                done += touched(batch)
                if done >= count:
                    break
            return Run(done, time.perf_counter() - began)

    return asyncio.run(consume())


def touched(records: Iterable[Any]) -> int:
    """The number of records; each value is accessed, as a consuming application would."""
    return sum(1 for record in records if record.value is not None)


WORKERS: dict[str, Callable[..., Run]] = {
    worker.__name__: worker
    for worker in (
        produce_confluent,
        produce_timed,
        produce_keyed,
        produce_idempotent_confluent,
        produce_idempotent_minikafka,
        transact_confluent,
        transact_minikafka,
        consume_confluent,
        produce_kafka_python,
        consume_kafka_python,
        produce_aiokafka,
        consume_aiokafka,
        produce_minikafka,
        consume_minikafka,
    )
}

if __name__ == "__main__":
    print(json.dumps(asdict(WORKERS[sys.argv[1]](**json.loads(sys.argv[2])))))
