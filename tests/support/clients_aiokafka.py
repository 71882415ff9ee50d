"""aiokafka behind `support.clients.Client`; its event loop runs on a thread, for heartbeats between calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import aiokafka
from aiokafka import codec as codecs
from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from support.clients import EARLIEST, WAIT_S, Client, Outgoing, Received, Refused, Start, Transactions

if TYPE_CHECKING:
    from collections.abc import Iterator

Value = TypeVar("Value")


class LoopThread:
    """An asyncio event loop on a thread; `run` runs a coroutine in it and waits for the result."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Raises Refused for an error of the client, TimeoutError after the timeout."""
        with _refusals():
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * WAIT_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AiokafkaClient(Client):
    """The asyncio client."""

    name = "aiokafka"

    def __init__(self, bootstrap: str, options: Mapping[str, Any]) -> None:
        super().__init__(bootstrap, {"bootstrap_servers": bootstrap, **options})
        self._loop = LoopThread()

    @property
    def codecs(self) -> tuple[str, ...]:
        present = {
            "gzip": codecs.has_gzip(),
            "snappy": codecs.has_snappy(),
            "lz4": codecs.has_lz4(),
            "zstd": codecs.has_zstd(),
        }
        return ("none", *(name for name, there in present.items() if there))

    def create_topic(
        self, topic: str, *, partitions: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=dict(settings or {}))
        _check(self._ask("create_topics", [new]).topic_errors)

    def delete_topic(self, topic: str) -> None:
        _check(self._ask("delete_topics", [topic]).topic_error_codes)

    def add_partitions(self, topic: str, *, total: int) -> None:
        self._ask("create_partitions", {topic: NewPartitions(total)})

    def topics(self) -> dict[str, int]:
        return {topic["topic"]: len(topic["partitions"]) for topic in self._ask("describe_topics")}

    def describe_settings(self, topic: str) -> dict[str, str]:
        [answer] = self._ask("describe_configs", [ConfigResource(ConfigResourceType.TOPIC, topic)])
        [(code, text, _, _, entries)] = answer.resources
        _check([(topic, code, text)])
        return {entry[0]: entry[1] for entry in entries}

    def alter_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(settings))
        [answer] = self._ask("alter_configs", [resource])
        _check([(topic, code, text) for code, text, *_ in answer.resources])

    def produce(
        self,
        topic: str,
        records: Sequence[Outgoing],
        *,
        codec: str = "none",
        idempotent: bool = False,
        acks: int = -1,
        size_bytes_max: int = 1 << 20,
    ) -> list[tuple[int, int]]:
        settings = {
            "compression_type": None if codec == "none" else codec,
            "enable_idempotence": idempotent,
            "acks": acks,
            "linger_ms": 5,
            "max_request_size": size_bytes_max,
        }
        return self._loop.run(self._produce(topic, records, settings))

    def transact(self, transactional_id: str, topic: str, transactions: Transactions) -> None:
        self._loop.run(self._transact(transactional_id, topic, transactions))

    def reader(self, topic: str, *, partition: int = 0, start: Start = EARLIEST) -> AiokafkaReader:
        return AiokafkaReader(self._loop, self._loop.run(self._assigned(topic, partition, start)))

    def member(
        self, group: str, topics: Sequence[str], *, reset: str = "earliest", session_timeout_ms: int = 30_000
    ) -> AiokafkaReader:
        settings: dict[str, Any] = {
            "group_id": group,
            "auto_offset_reset": reset,
            "session_timeout_ms": session_timeout_ms,
            "heartbeat_interval_ms": 300,
        }
        return AiokafkaReader(self._loop, self._loop.run(self._started(*topics, **settings)))

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        place = aiokafka.TopicPartition(topic, partition)

        async def look(consumer: aiokafka.AIOKafkaConsumer) -> tuple[int, int]:
            earliest, latest = (
                await consumer.beginning_offsets([place]),
                await consumer.end_offsets([place]),
            )
            return earliest[place], latest[place]

        return self._loop.run(self._borrowed(look))

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        place = aiokafka.TopicPartition(topic, partition)

        async def look(consumer: aiokafka.AIOKafkaConsumer) -> int | None:
            found = (await consumer.offsets_for_times({place: timestamp_ms}))[place]
            return found.offset if found else None

        return self._loop.run(self._borrowed(look))

    def delete_records(self, topic: str, before_offset: int, partition: int = 0) -> int:
        place = aiokafka.TopicPartition(topic, partition)
        return self._ask("delete_records", {place: RecordsToDelete(before_offset)})[place]

    def groups(self) -> set[str]:
        return {group[0] for group in self._ask("list_consumer_groups")}

    def close(self) -> None:
        self._loop.close()

    def _ask(self, method: str, *arguments: Any) -> Any:
        async def ask() -> Any:
            admin = AIOKafkaAdminClient(**self.options)
            try:
                await admin.start()
                return await getattr(admin, method)(*arguments)
            finally:
                await admin.close()

        return self._loop.run(ask())

    async def _produce(
        self, topic: str, records: Sequence[Outgoing], settings: dict[str, Any]
    ) -> list[tuple[int, int]]:
        producer = aiokafka.AIOKafkaProducer(**self.options, **settings)
        await producer.start()
        try:
            futures = [await producer.send(topic, **_arguments(record)) for record in records]
            answers = await asyncio.gather(*futures)
        finally:
            await producer.stop()
        return [(answer.partition, answer.offset) if answer else (-1, -1) for answer in answers]

    async def _transact(self, transactional_id: str, topic: str, transactions: Transactions) -> None:
        producer = aiokafka.AIOKafkaProducer(**self.options, transactional_id=transactional_id)
        async with producer:
            for values, commits in transactions:
                await producer.begin_transaction()
                for number, value in enumerate(values):
                    await producer.send(topic, value, partition=number % 2)
                await producer.flush()
                await (producer.commit_transaction if commits else producer.abort_transaction)()

    async def _started(self, *topics: str, **settings: Any) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            *topics,
            **self.options,
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            **settings,
        )
        await consumer.start()
        return consumer

    async def _assigned(self, topic: str, partition: int, start: Start) -> aiokafka.AIOKafkaConsumer:
        place = aiokafka.TopicPartition(topic, partition)
        consumer = await self._started(auto_offset_reset=start.reset or "latest")
        consumer.assign([place])
        if start.offset is not None:
            consumer.seek(place, start.offset)
        elif start.timestamp_ms is not None:
            found = (await consumer.offsets_for_times({place: start.timestamp_ms}))[place]
            if found:
                consumer.seek(place, found.offset)
        return consumer

    async def _borrowed(self, look: Any) -> Any:
        consumer = await self._started()
        try:
            return await look(consumer)
        finally:
            await consumer.stop()


class AiokafkaReader:
    """An aiokafka consumer, as a plain reader or as a member of a group."""

    def __init__(self, loop: LoopThread, consumer: aiokafka.AIOKafkaConsumer) -> None:
        self._loop = loop
        self._consumer = consumer

    def poll(self, timeout_s: float) -> list[Received]:
        polled = self._loop.run(self._consumer.getmany(timeout_ms=int(timeout_s * 1000)))
        return [Received.of(record) for records in polled.values() for record in records]

    def assignment(self) -> set[tuple[str, int]]:
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    def commit(self) -> None:
        self._loop.run(self._consumer.commit())

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except errors.KafkaError as refusal:
        raise Refused(getattr(refusal, "errno", -1), repr(refusal)) from refusal


def _check(results: Sequence[Any]) -> None:
    """Raises the first error; each result is (name, error code) or (name, error code, text)."""
    for name, code, *text in results:
        if code:
            raise Refused(code, f"{name}: {errors.for_code(code).__name__} {text}")


def _arguments(record: Outgoing) -> dict[str, Any]:
    return {
        "value": record.value,
        "key": record.key,
        "headers": list(record.headers),
        "timestamp_ms": record.timestamp_ms,
        "partition": record.partition,
    }
