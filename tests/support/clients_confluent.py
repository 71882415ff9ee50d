"""confluent-kafka (librdkafka) behind `support.clients.Client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import confluent_kafka as ck
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from support.clients import CODECS, EARLIEST, WAIT_S, Client, Outgoing, Received, Refused, Start, Transactions

if TYPE_CHECKING:
    from collections.abc import Iterator

QUIET = {"log_level": 0}


class ConfluentClient(Client):
    """librdkafka as Python programs use it."""

    name = "confluent-kafka"

    def __init__(self, bootstrap: str, options: Mapping[str, Any]) -> None:
        super().__init__(bootstrap, {"bootstrap.servers": bootstrap, **QUIET, **options})
        self._admin = AdminClient(self.options)

    @property
    def codecs(self) -> tuple[str, ...]:
        return CODECS

    def create_topic(
        self, topic: str, *, partitions: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(settings or {}))
        _result(self._admin.create_topics([new])[topic])

    def delete_topic(self, topic: str) -> None:
        _result(self._admin.delete_topics([topic])[topic])

    def add_partitions(self, topic: str, *, total: int) -> None:
        _result(self._admin.create_partitions([NewPartitions(topic, total)])[topic])

    def topics(self) -> dict[str, int]:
        with _refusals():
            listed = self._admin.list_topics(timeout=WAIT_S).topics
        return {name: len(topic.partitions) for name, topic in listed.items()}

    def describe_settings(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = _result(self._admin.describe_configs([resource])[resource])
        return {name: entry.value for name, entry in entries.items()}

    def alter_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        _result(self._admin.incremental_alter_configs([resource])[resource])

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
        producer = ck.Producer({
            **self.options,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "acks": acks,
            "linger.ms": 5,
            "message.max.bytes": size_bytes_max,
        })
        answers: list[tuple[Any, Any]] = [(None, None)] * len(records)
        for index, record in enumerate(records):
            with _refusals():
                producer.produce(topic, **_arguments(record), on_delivery=_keeper(answers, index))
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0, "not every record was answered"
        for error, _ in answers:
            if error is not None:
                raise Refused(error.code(), error.str())
        return [(message.partition(), message.offset()) for _, message in answers]

    def transact(self, transactional_id: str, topic: str, transactions: Transactions) -> None:
        producer = ck.Producer({**self.options, "transactional.id": transactional_id})
        with _refusals():
            producer.init_transactions(WAIT_S)
            for values, commits in transactions:
                producer.begin_transaction()
                for number, value in enumerate(values):
                    producer.produce(topic, value, partition=number % 2)
                producer.flush(WAIT_S)
                (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)

    def reader(self, topic: str, *, partition: int = 0, start: Start = EARLIEST) -> ConfluentReader:
        consumer = self._consumer()
        consumer.assign([ck.TopicPartition(topic, partition, self._position(topic, partition, start))])
        return ConfluentReader(consumer)

    def member(
        self, group: str, topics: Sequence[str], *, reset: str = "earliest", session_timeout_ms: int = 30_000
    ) -> ConfluentReader:
        consumer = self._consumer(
            **{
                "group.id": group,
                "auto.offset.reset": reset,
                "session.timeout.ms": session_timeout_ms,
                "heartbeat.interval.ms": 300,
            },
        )
        consumer.subscribe(list(topics))
        return ConfluentReader(consumer)

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        consumer = self._consumer()
        with _refusals():
            earliest, latest = consumer.get_watermark_offsets(
                ck.TopicPartition(topic, partition), timeout=WAIT_S
            )
        consumer.close()
        return earliest, latest

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        consumer = self._consumer()
        with _refusals():
            [found] = consumer.offsets_for_times(
                [ck.TopicPartition(topic, partition, timestamp_ms)], timeout=WAIT_S
            )
        consumer.close()
        return None if found.offset == ck.OFFSET_END else found.offset

    def delete_records(self, topic: str, before_offset: int, partition: int = 0) -> int:
        place = ck.TopicPartition(topic, partition, before_offset)
        return _result(self._admin.delete_records([place])[place]).low_watermark

    def groups(self) -> set[str]:
        return {group.group_id for group in _result(self._admin.list_consumer_groups()).valid}

    def close(self) -> None:
        pass

    def _consumer(self, **settings: object) -> ck.Consumer:
        return ck.Consumer({
            "group.id": "unused",
            **self.options,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            **settings,
        })

    def _position(self, topic: str, partition: int, start: Start) -> int:
        if start.offset is not None:
            return start.offset
        if start.timestamp_ms is None:
            return ck.OFFSET_BEGINNING if start.reset == "earliest" else ck.OFFSET_END
        found = self.offset_for_time(topic, start.timestamp_ms, partition)
        return ck.OFFSET_END if found is None else found


class ConfluentReader:
    """A librdkafka consumer, as a plain reader or as a member of a group."""

    def __init__(self, consumer: ck.Consumer) -> None:
        self._consumer = consumer

    def poll(self, timeout_s: float) -> list[Received]:
        first = self._consumer.consume(1, timeout_s)
        messages = first + self._consumer.consume(500, 0) if first else first
        for message in messages:
            if message.error() is not None:
                raise Refused(message.error().code(), message.error().str())
        return [_received(message) for message in messages]

    def assignment(self) -> set[tuple[str, int]]:
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    def commit(self) -> None:
        with _refusals():
            self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except ck.KafkaException as refusal:
        raise Refused(refusal.args[0].code(), refusal.args[0].str()) from refusal


def _result(future: Future[Any]) -> Any:
    with _refusals():
        return future.result(WAIT_S)


def _keeper(answers: list[tuple[Any, Any]], index: int) -> Any:
    def keep(error: Any, message: Any) -> None:
        answers[index] = (error, message)

    return keep


def _arguments(record: Outgoing) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "value": record.value,
        "key": record.key,
        "headers": list(record.headers),
        "timestamp": record.timestamp_ms,
        "partition": record.partition,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def _received(message: Any) -> Received:
    return Received(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
