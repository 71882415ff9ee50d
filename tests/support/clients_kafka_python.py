"""kafka-python behind `support.clients.Client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import kafka
from kafka import codec as codecs
from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType

from support.clients import EARLIEST, WAIT_S, Client, Outgoing, Received, Refused, Start, Transactions

if TYPE_CHECKING:
    from collections.abc import Iterator


class KafkaPythonClient(Client):
    """The pure Python client."""

    name = "kafka-python"
    writes_null_headers = False

    def __init__(self, bootstrap: str, options: Mapping[str, Any]) -> None:
        super().__init__(bootstrap, {"bootstrap_servers": bootstrap, **options})
        self._admin = kafka.KafkaAdminClient(**self.options)

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
        new = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(settings or {})}
        with _refusals():
            self._admin.create_topics({topic: new})

    def delete_topic(self, topic: str) -> None:
        with _refusals():
            self._admin.delete_topics([topic])

    def add_partitions(self, topic: str, *, total: int) -> None:
        with _refusals():
            self._admin.create_partitions({topic: total})

    def topics(self) -> dict[str, int]:
        with _refusals():
            return {topic["name"]: len(topic["partitions"]) for topic in self._admin.describe_topics()}

    def describe_settings(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        with _refusals():
            found = self._admin.describe_configs([resource], config_filter="all")
        return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def alter_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(settings))
        with _refusals():
            result = self._admin.alter_configs([resource], raise_on_unknown=False)["topic"][topic]
        if result != "OK":
            raise Refused(int(result[1:].split("]")[0].split()[-1]) if result[:1] == "[" else -1, result)

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
        producer = kafka.KafkaProducer(
            **self.options,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks=acks,
            linger_ms=5,
            max_request_size=size_bytes_max,
        )
        try:
            with _refusals():
                futures = [producer.send(topic, **_arguments(record)) for record in records]
                producer.flush(WAIT_S)
                answers = [future.get(WAIT_S) for future in futures]
        finally:
            producer.close(WAIT_S)
        return [(answer.partition, answer.offset) for answer in answers]

    def transact(self, transactional_id: str, topic: str, transactions: Transactions) -> None:
        producer = kafka.KafkaProducer(**self.options, transactional_id=transactional_id)
        try:
            with _refusals():
                producer.init_transactions()
                for values, commits in transactions:
                    producer.begin_transaction()
                    for number, value in enumerate(values):
                        producer.send(topic, value, partition=number % 2)
                    producer.flush()
                    (producer.commit_transaction if commits else producer.abort_transaction)()
        finally:
            producer.close()

    def reader(self, topic: str, *, partition: int = 0, start: Start = EARLIEST) -> KafkaPythonReader:
        consumer, place = self._consumer(), kafka.TopicPartition(topic, partition)
        consumer.assign([place])
        if start.offset is not None:
            consumer.seek(place, start.offset)
        elif start.timestamp_ms is not None:
            found = consumer.offsets_for_times({place: start.timestamp_ms})[place]
            consumer.seek(place, found.offset) if found else consumer.seek_to_end(place)
        elif start.reset == "earliest":
            consumer.seek_to_beginning(place)
        else:
            consumer.seek_to_end(place)
        return KafkaPythonReader(consumer)

    def member(
        self, group: str, topics: Sequence[str], *, reset: str = "earliest", session_timeout_ms: int = 30_000
    ) -> KafkaPythonReader:
        consumer = self._consumer(
            group_id=group,
            auto_offset_reset=reset,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=300,
        )
        consumer.subscribe(list(topics))
        return KafkaPythonReader(consumer)

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        place = kafka.TopicPartition(topic, partition)
        with _refusals(), self._borrowed() as consumer:
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        place = kafka.TopicPartition(topic, partition)
        with _refusals(), self._borrowed() as consumer:
            found = consumer.offsets_for_times({place: timestamp_ms})[place]
        return found.offset if found else None

    def delete_records(self, topic: str, before_offset: int, partition: int = 0) -> int:
        place = kafka.TopicPartition(topic, partition)
        with _refusals():
            return self._admin.delete_records({place: before_offset})[place]["low_watermark"]

    def groups(self) -> set[str]:
        with _refusals():
            return {group["group_id"] for group in self._admin.list_groups()}

    def close(self) -> None:
        self._admin.close()

    def _consumer(self, **settings: Any) -> kafka.KafkaConsumer:
        return kafka.KafkaConsumer(
            **self.options, enable_auto_commit=False, fetch_max_wait_ms=100, **settings
        )

    @contextmanager
    def _borrowed(self) -> Iterator[kafka.KafkaConsumer]:
        consumer = self._consumer()
        try:
            yield consumer
        finally:
            consumer.close()


class KafkaPythonReader:
    """A kafka-python consumer, as a plain reader or as a member of a group."""

    def __init__(self, consumer: kafka.KafkaConsumer) -> None:
        self._consumer = consumer

    def poll(self, timeout_s: float) -> list[Received]:
        with _refusals():
            polled = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        return [Received.of(record) for records in polled.values() for record in records]

    def assignment(self) -> set[tuple[str, int]]:
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    def commit(self) -> None:
        with _refusals():
            self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except errors.KafkaError as refusal:
        raise Refused(getattr(refusal, "errno", -1), repr(refusal)) from refusal


def _arguments(record: Outgoing) -> dict[str, Any]:
    return {
        "value": record.value,
        "key": record.key,
        "headers": list(record.headers),
        "timestamp_ms": record.timestamp_ms,
        "partition": record.partition,
    }
