"""`PendingBatch`: a producer's batch of records until its delivery or failure; `Delivery`: the result of one record."""

from __future__ import annotations

import inspect
import logging
from array import array
from collections.abc import Callable, Generator, MutableSequence
from typing import Any

import anyio

from minikafka.client.escaped_log import escaped
from minikafka.client.records import RecordMetadata
from minikafka.client.user_code import tolerated
from minikafka.protocol.counted import counted
from minikafka.protocol.errors import InvalidRecordError, KafkaError
from minikafka.protocol.records.batch import TRANSACTIONAL, BatchHeader
from minikafka.protocol.records.column_codec import encode_columns
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.record import Headers

_logger = escaped(logging.getLogger("minikafka.client.producer"))
BATCH_OVERHEAD_BYTES = 61
"""The size of a batch's header."""
SEQUENCE_COUNT = 1 << 31
"""Sequence numbers wrap from 2^31-1 to 0."""


OnDelivery = Callable[["RecordMetadata | None", "KafkaError | None"], None]
"""A callback for the result of a record: called with its metadata, or with the error; the other one is None."""


class PendingBatch:
    """A batch of records for one partition, in columns, from the first record until delivery or failure."""

    __slots__ = (
        "append_time", "attempts", "base_offset", "base_sequence", "callbacks", "check_home", "deadline", "done",
        "error", "halves", "headers", "keys", "last_error", "lost", "not_before", "number", "opened_at", "partition",
        "producer_epoch", "producer_id", "size_bytes", "timestamps", "topic", "transactional", "untold",
        "values", "waiters",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int, number: tuple[int, ...], opened_at: float) -> None:
        self.topic = topic
        self.partition = partition
        self.number = number
        self.opened_at = opened_at
        self.check_home: Callable[[], None] = lambda: None
        self.deadline = float("inf")
        self.not_before = 0.0
        self.attempts = 0
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: MutableSequence[int] = []
        self.headers: dict[int, Headers] = {}
        self.callbacks: list[tuple[int, OnDelivery]] = []
        self.waiters: list[Callable[[], Any]] = []
        self.halves: list[PendingBatch] = []
        self.producer_id = self.producer_epoch = self.base_sequence = -1
        self.transactional = False
        self.lost = False  # A request with the batch got no response, and may reach the broker late.
        self.done = False
        self.error: KafkaError | None = None
        self.last_error: KafkaError | None = None
        self.untold = False
        """Whether the batch has failed with an error that is logged unless the application asks for it."""
        self.base_offset = self.append_time = -1

    def __del__(self) -> None:
        if self.untold:
            records, partition = counted(self.count, "record"), f"{self.topic}-{self.partition}"
            _logger.warning("delivery failed: %s for %s: %s", records, partition, self.error)

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.timestamps)

    @property
    def place(self) -> tuple[str, int]:
        """The batch's topic and partition."""
        return self.topic, self.partition

    def encode(self, codec: Codec, level: int | None) -> bytes:
        """Encode the batch for a Produce request."""
        count = len(self.values)
        attributes = codec | TRANSACTIONAL * self.transactional
        return encode_columns(
            self.keys if self.keys.count(None) < count else None,
            self.values,
            self.timestamps,
            [self.headers.get(index, ()) for index in range(count)] if self.headers else None,
            header=BatchHeader(attributes, 0, -1, self.producer_id, self.producer_epoch, self.base_sequence),
            level=level,
        )

    def succeed(self, base_offset: int, append_time: int) -> None:
        """Complete the batch; `append_time` (ms) is -1 if records keep their own timestamps (CreateTime)."""
        self.base_offset = base_offset
        self.append_time = append_time
        self._finish()

    def fail(self, error: KafkaError) -> None:
        """Complete the batch with an error; the broker may have appended the batch nevertheless."""
        self.error = error.with_traceback(None)  # The traceback's frames would keep the batch in memory.
        self._finish()

    def _finish(self) -> None:
        self.done = True
        try:
            for index, callback in self.callbacks:
                with tolerated(_logger, "on_delivery callback failed: record for %s-%d", self.topic, self.partition):
                    returned = callback(None if self.error else self.metadata(index), self.error)
                    if inspect.iscoroutine(returned):
                        returned.close()
                        raise TypeError("on_delivery must not be a coroutine function, which nobody awaits")
        finally:
            for waiter in self.waiters:
                waiter()
            self.waiters.clear()
            self._forget_records()

    def _forget_records(self) -> None:
        """Keep of the records what `metadata` needs: a `Delivery` of one of them may be kept for long."""
        self.keys, self.values, self.headers, self.callbacks = [], [], {}, []
        self.timestamps = array("q", self.timestamps)

    def metadata(self, index: int) -> RecordMetadata:
        """The metadata of record number `index`. Raises the batch's KafkaError."""
        for half in self.halves:
            if index < half.count:
                return half.metadata(index)
            index -= half.count
        if self.error is not None:
            self.untold = False
            raise self.error.with_traceback(None)
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        timestamp = self.append_time if self.append_time >= 0 else self.timestamps[index]
        return RecordMetadata(self.topic, self.partition, offset, timestamp)

    def split(self) -> list[PendingBatch]:
        """Split the batch in two, with the same records and sequence numbers; this batch is done when both are."""
        middle = len(self.values) // 2
        body_bytes = self.size_bytes - BATCH_OVERHEAD_BYTES
        first_bytes = body_bytes * middle // len(self.values)
        self._add_half(0, middle, first_bytes)
        self._add_half(middle, len(self.values), body_bytes - first_bytes)
        self.callbacks = []
        return self.halves

    def _add_half(self, start: int, end: int, body_bytes: int) -> None:
        half = PendingBatch(self.topic, self.partition, (*self.number, len(self.halves)), self.opened_at)
        half.deadline = self.deadline
        half.keys, half.values = self.keys[start:end], self.values[start:end]
        half.timestamps = self.timestamps[start:end]
        half.headers = {n - start: one for n, one in self.headers.items() if start <= n < end}
        half.callbacks = [(n - start, one) for n, one in self.callbacks if start <= n < end]
        half.size_bytes += body_bytes
        if self.base_sequence >= 0:
            half.producer_id, half.producer_epoch = self.producer_id, self.producer_epoch
            half.transactional = self.transactional
            half.lost = self.lost
            half.base_sequence = (self.base_sequence + start) % SEQUENCE_COUNT
        half.waiters.append(self._half_done)
        self.halves.append(half)

    def _half_done(self) -> None:
        if all(half.done for half in self.halves):
            self.error = next((half.error for half in self.halves if half.error), None)
            self._finish()

    async def wait(self) -> None:
        """Wait until the batch is delivered or has failed. Cancellation does not withdraw the batch."""
        if not self.done:
            self.check_home()
            event = anyio.Event()
            self.waiters.append(event.set)
            await event.wait()


class NotEncoded(InvalidRecordError):
    """Some records of a batch cannot be encoded. The batch is split, so that the others are sent."""


def not_encoded(batch: PendingBatch, cause: Exception) -> NotEncoded:
    """The error of a batch whose encoding raised an exception."""
    error = NotEncoded(
        f"{counted(len(batch.values), 'record')} for {batch.topic}-{batch.partition} cannot be encoded: {cause!r}"
    )
    error.__cause__ = cause
    return error


class Delivery:
    """The result of `Producer.send`: `await` it for the record's `RecordMetadata`, or ignore it.

    Awaiting raises the delivery's KafkaError. Cancelling the wait does not withdraw the record.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: PendingBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def partition(self) -> int:
        """The partition of the record."""
        return self._batch.partition

    @property
    def done(self) -> bool:
        """Whether the record was delivered or has failed."""
        return self._batch.done

    def result(self) -> RecordMetadata:
        """The same result as awaiting, without waiting. Raises RuntimeError if not `done`."""
        if not self._batch.done:
            raise RuntimeError("the record is not delivered yet: await the delivery, or flush the producer")
        return self._batch.metadata(self._index)

    async def wait(self) -> None:
        """Wait until the record is delivered or has failed; does not raise its error."""
        await self._batch.wait()

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        if not self._batch.done:
            yield from self._batch.wait().__await__()
        return self._batch.metadata(self._index)
