"""Records as applications see them: `ProducerRecord`, `RecordMetadata`, `ConsumerRecord`, and `RecordBatch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from minikafka.protocol.records.record import Headers


class ConsumerRecord(NamedTuple):
    """A consumed record. `timestamp` is in ms since 1970; `timestamp_type` is 0 (CreateTime) or 1 (LogAppendTime)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()
    timestamp_type: int = 0


class RecordBatch(Sequence[ConsumerRecord]):
    """Consecutive records of one partition, as `Consumer.batches` returns them."""

    __slots__ = ("partition", "records", "topic")

    def __init__(self, topic: str, partition: int, records: list[ConsumerRecord]) -> None:
        self.topic = topic
        self.partition = partition
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...

    @overload
    def __getitem__(self, index: slice) -> list[ConsumerRecord]: ...

    def __getitem__(self, index: int | slice) -> ConsumerRecord | list[ConsumerRecord]:
        return self.records[index]

    @property
    def values(self) -> list[Any]:
        return [record.value for record in self.records]

    @property
    def keys(self) -> list[Any]:
        return [record.key for record in self.records]


class ProducerRecord(NamedTuple):
    """A record to send: the arguments of `Producer.send`, with key and value before serialization.

    `partition` or `timestamp_ms` None means that the producer chooses it.
    """

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Headers = ()


class RecordMetadata(NamedTuple):
    """The position of a delivered record; `offset` is -1 if it is unknown (acks=0, or a duplicate delivery)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
