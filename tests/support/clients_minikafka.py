"""minikafka's blocking client behind `support.clients.Client`: it runs the same tests as third-party clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from minikafka.client import NewTopic
from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from support.clients import CODECS, EARLIEST, WAIT_S, Client, Outgoing, Received, Refused, Start, Transactions

if TYPE_CHECKING:
    from collections.abc import Iterator


class MinikafkaClient(Client):
    """`minikafka.client.blocking`."""

    name = "minikafka"

    def __init__(self, bootstrap: str, options: Mapping[str, Any]) -> None:
        super().__init__(bootstrap, {"bootstrap_servers": bootstrap, **options})
        self._admin = Admin(**self.options)
        self._admin.__enter__()

    @property
    def codecs(self) -> tuple[str, ...]:
        return CODECS

    def create_topic(
        self, topic: str, *, partitions: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        with _refusals():
            results = self._admin.create_topics([NewTopic(topic, partitions, 1, configs=settings)])
            if results[topic] is not None:
                raise results[topic]

    def delete_topic(self, topic: str) -> None:
        with _refusals():
            self._admin.delete_topic(topic)

    def add_partitions(self, topic: str, *, total: int) -> None:
        with _refusals():
            self._admin.create_partitions(topic, total)

    def topics(self) -> dict[str, int]:
        described = self._admin.describe_topics()
        return {name: len(topic.partitions) for name, topic in described.items()}

    def describe_settings(self, topic: str) -> dict[str, str]:
        with _refusals():
            return {name: entry.value for name, entry in self._admin.describe_configs("topic", topic).items()}

    def alter_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        with _refusals():
            self._admin.alter_configs("topic", topic, set=settings)

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
        producer = Producer(
            **self.options,
            compression_type=codec,
            enable_idempotence=idempotent,
            acks=acks,
            max_request_size=size_bytes_max,
        )
        with _refusals(), producer:
            deliveries = [producer.send(topic, record.value, **_arguments(record)) for record in records]
            answers = [delivery.result(WAIT_S * 1000) for delivery in deliveries]
        return [(answer.partition, answer.offset) for answer in answers]

    def transact(self, transactional_id: str, topic: str, transactions: Transactions) -> None:
        with _refusals(), Producer(**self.options, transactional_id=transactional_id) as producer:
            for values, commits in transactions:
                producer.begin()
                for number, value in enumerate(values):
                    producer.send(topic, value, partition=number % 2)
                (producer.commit if commits else producer.abort)()

    def reader(self, topic: str, *, partition: int = 0, start: Start = EARLIEST) -> MinikafkaReader:
        place = TopicPartition(topic, partition)
        consumer = self._opened(auto_offset_reset=start.reset or "latest")
        consumer.assign([place])
        if start.offset is not None:
            consumer.seek(place, start.offset)
        elif start.timestamp_ms is not None:
            consumer.seek_to_time(start.timestamp_ms, place)
        return MinikafkaReader(consumer)

    def member(
        self, group: str, topics: Sequence[str], *, reset: str = "earliest", session_timeout_ms: int = 30_000
    ) -> MinikafkaReader:
        consumer = self._opened(
            *topics,
            group_id=group,
            auto_offset_reset=reset,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=300,
        )
        return MinikafkaReader(consumer)

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        with _refusals(), Consumer(**self.options) as consumer:
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        place = TopicPartition(topic, partition)
        with _refusals(), Consumer(**self.options) as consumer:
            found = consumer.offsets_for_times({place: timestamp_ms})[place]
        return found.offset if found else None

    def delete_records(self, topic: str, before_offset: int, partition: int = 0) -> int:
        place = TopicPartition(topic, partition)
        with _refusals():
            low_watermark = self._admin.delete_records({place: before_offset})[place]
            if isinstance(low_watermark, KafkaError):
                raise low_watermark
        return low_watermark

    def groups(self) -> set[str]:
        with _refusals():
            return {group.group_id for group in self._admin.list_groups()}

    def close(self) -> None:
        self._admin.__exit__(None, None, None)

    def _opened(self, *topics: str, **options: Any) -> Consumer:
        consumer = Consumer(
            *topics, **self.options, enable_auto_commit=False, fetch_max_wait_ms=100, **options
        )
        consumer.__enter__()
        return consumer


class MinikafkaReader:
    """A minikafka consumer, as a plain reader or as a member of a group."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def poll(self, timeout_s: float) -> list[Received]:
        with _refusals():
            return [Received.of(record) for record in self._consumer.poll(int(timeout_s * 1000))]

    def assignment(self) -> set[tuple[str, int]]:
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    def commit(self) -> None:
        with _refusals():
            self._consumer.commit()

    def close(self) -> None:
        self._consumer.__exit__(None, None, None)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as refusal:
        raise Refused(int(refusal.code), str(refusal)) from refusal


def _arguments(record: Outgoing) -> dict[str, Any]:
    return {
        "key": record.key,
        "headers": record.headers,
        "timestamp_ms": record.timestamp_ms,
        "partition": record.partition,
    }
