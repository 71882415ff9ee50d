"""The blocking `Producer`: an inbox of records, which a task of the event loop empties into the async producer."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Never, Unpack

import anyio

from minikafka.client.argument_checks import knows_arguments, read_argument
from minikafka.client.argument_kinds import (
    INT32,
    INT64,
    TIMEOUT,
    HeadersArgument,
    Natural,
    PartitionIndex,
    TimeoutMs,
    Timestamp,
    TopicName,
)
from minikafka.client.arguments import ProducerArguments
from minikafka.client.blocking.blocking_client import BlockingClient
from minikafka.client.blocking.refusals import TOGETHER_S, Refusal, Refusals, dropped
from minikafka.client.connections.seams import Seams
from minikafka.client.groups.group_metadata import GroupMetadata
from minikafka.client.mixups import Awaited
from minikafka.client.offsets import OffsetAndMetadata
from minikafka.client.option_checks import DEFAULT_BOOTSTRAP_SERVERS, BootstrapServers
from minikafka.client.producer import producer as async_producer
from minikafka.client.producer.interception import Acknowledgement
from minikafka.client.producer.producer_batch import Delivery, OnDelivery
from minikafka.client.producer.refused_records import refusing
from minikafka.client.producer.serialization import NO_HEADERS, SENT, read_arguments
from minikafka.client.records import ProducerRecord, RecordMetadata
from minikafka.client.unknown_arguments import refuse
from minikafka.protocol.errors import KafkaError, RequestTimedOutError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import Headers

INBOX_SIZE_MAX = 10_000
"""When the inbox holds this many records, `send` waits until it is empty."""
INBOX_SIZE_BYTES_MAX = 16 << 20
"""After this many bytes, or `buffer_memory` if that is less, `send` waits until the inbox is empty."""


class BlockingDelivery(Awaited):
    """The delivery of one record; `result()` waits for it."""

    __slots__ = ("_delivery", "_producer", "_refusal")

    def __init__(self, producer: Producer, delivery: Delivery | None = None) -> None:
        self._producer = producer
        self._delivery = delivery
        self._refusal: Refusal | None = None

    @property
    def done(self) -> bool:
        """Whether the record was delivered or has failed."""
        return self._refusal is not None or (self._delivery is not None and self._delivery.done)

    def result(self, timeout_ms: TimeoutMs | None = None) -> RecordMetadata:
        """The record's metadata. Raises the KafkaError of the delivery, RequestTimedOutError after `timeout_ms`."""
        if timeout_ms is not None:
            timeout_ms = read_argument("result", "timeout_ms", TIMEOUT, timeout_ms)
        if not self.done:
            self._producer._wait_for(self, timeout_ms)
        if self._refusal is not None:
            raise self._refusal.error()
        assert self._delivery is not None
        return self._delivery.result()


@knows_arguments(but=("send",))
class Producer(BlockingClient):
    """`minikafka.client.Producer` with the same arguments.

    `send` returns at once unless the inbox is full: it holds at most `INBOX_SIZE_MAX` records, and 16 MiB or
    `buffer_memory`, whichever is less. If the inbox is full, `send` waits for the thread that calls `on_delivery`: do
    not call `send` while holding a lock that a callback takes as well. Errors, such as an unknown topic, are raised by
    the delivery's `result()`, or logged. Leaving the block waits for all deliveries, also of what callbacks send
    meanwhile; an exception drops the records.
    """

    def __init__(
        self,
        bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
        *,
        seams: Seams | None = None,
        **options: Unpack[ProducerArguments],
    ) -> None:
        self._producer = async_producer.Producer(bootstrap_servers, seams=seams, **options)
        super().__init__(self._producer)
        self._inbox: deque[
            tuple[BlockingDelivery, str, Any, Any, int | None, int | None, Headers, OnDelivery | None]
        ] = deque()
        self._inbox_size_bytes_max = min(INBOX_SIZE_BYTES_MAX, self._producer._options.buffer_memory)
        self._left_bytes = self._inbox_size_bytes_max
        """The bytes that `send` may queue before it checks whether to wait; approximate if several threads send."""
        self._emptying = False
        """Whether a task that empties the inbox was requested. If this is wrong, a task starts and does nothing."""
        self._has_task = False
        """Whether a task that empties the inbox runs in the loop."""
        self._sending: BlockingDelivery | None = None
        """The delivery of the record that has left the inbox last."""
        self._refusals = Refusals()
        self._producer.drop_ahead = self._drop
        self._on_empty: anyio.Event | None = None

    def send(
        self,
        topic: TopicName,
        value: Any = None,
        *,
        key: Any = None,
        partition: PartitionIndex | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersArgument = NO_HEADERS,
        on_delivery: OnDelivery | None = None,
        **unknown: Never,
    ) -> BlockingDelivery:
        """Queue a record. Arguments, and errors of arguments, serializers and transactions: as for the async `send`.

        `result()` raises a partitioner's error. `on_delivery` runs on the loop's thread, where only `send` may be."""
        if unknown:
            refuse("send", unknown, SENT)
        delivery, producer = BlockingDelivery(self), self._producer
        if producer._accumulator.transaction is not None:
            producer._check_transaction()
        if (
            (headers is not NO_HEADERS or on_delivery is not None)
            or type(topic) is not str
            or topic not in producer._targets
            or (partition is not None and not (type(partition) is int and 0 <= partition < INT32))
            or (timestamp_ms is not None and not (type(timestamp_ms) is int and 0 <= timestamp_ms < INT64))
        ):
            with refusing(producer._accumulator.transaction):
                read = read_arguments(topic, partition, timestamp_ms, headers, on_delivery)
            topic, partition, timestamp_ms, headers = read
        if (interception := producer._interception) is not None:
            given = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
            (topic, value, key, partition, timestamp_ms, headers), on_delivery = interception.begin(given, on_delivery)
        try:
            if interception is not None:
                topic, partition, timestamp_ms, headers = read_arguments(topic, partition, timestamp_ms, headers, None)
            if type(value) is not bytes:
                value = producer._value_bytes(value, topic, headers)
            if key is not None and type(key) is not bytes:
                key = producer._key_bytes(key, topic, headers)
        except Exception as error:
            _refuse_interceptors(on_delivery, error)
            raise
        self._inbox.append((delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery))
        self._left_bytes -= _size_bytes(value, key, headers)
        if not self._emptying:
            self._start_emptying()
        if self._left_bytes < 0 or len(self._inbox) >= INBOX_SIZE_MAX:
            self._wait_for_room()
        return delivery

    def _wait_for_room(self) -> None:
        self._left_bytes = self._inbox_size_bytes_max
        if self._inbox and not self._open_thread().is_current():
            self._wait(self._emptied)

    def send_and_wait(
        self,
        topic: TopicName,
        value: Any = None,
        *,
        key: Any = None,
        partition: PartitionIndex | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersArgument = NO_HEADERS,
        on_delivery: OnDelivery | None = None,
    ) -> RecordMetadata:
        """Call `send`, and wait until the record is delivered. Raises the KafkaError of the delivery."""
        delivery = self.send(
            topic,
            value,
            key=key,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=headers,
            on_delivery=on_delivery,
        )
        return delivery.result()

    def send_many(
        self,
        topic: TopicName,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        partition: PartitionIndex | None = None,
        timestamp_ms: Timestamp | None = None,
    ) -> list[BlockingDelivery]:
        """Queue many records of one topic in order, after those in the inbox. Raises as the async `send_many`."""
        self._wait(self._emptied)
        deliveries = self._wait(
            self._producer.send_many, topic, values, keys=keys, partition=partition, timestamp_ms=timestamp_ms
        )
        return [BlockingDelivery(self, delivery) for delivery in deliveries]

    def flush(self) -> None:
        """Send all queued records without lingering, and wait until each is delivered or has failed."""
        self._wait(self._flush)

    def transaction(self) -> AbstractContextManager[None]:
        """Like the async `transaction`: a block whose records are committed together, or aborted if it raises."""
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        begun = False

        async def begin() -> None:
            nonlocal begun
            await self._after_emptying(self._producer.begin)
            begun = True

        try:
            self._wait(begin)
            yield
            self.commit()
        except BaseException as error:
            if not begun:
                raise
            try:
                self._open_thread().call(partial(self._abort_after, error), cancel_timeout_s=0)
            except BaseException as again:
                if type(again) is type(error) and not isinstance(again, Exception):  # the second Ctrl-C
                    self._abandon()
                raise
            raise

    def begin(self) -> None:
        """Begin a transaction. Behaves and raises like the async `begin`."""
        self._wait(self._after_emptying, self._producer.begin)

    def commit(self) -> None:
        """Deliver all queued records, and commit the transaction. Behaves and raises like the async `commit`.

        A record that was refused after `send` had returned has failed the transaction: AbortableTransactionError.
        """
        self._wait(self._after_emptying, self._producer.commit)

    def abort(self) -> None:
        """Drop the queued records, and abort the transaction. Behaves and raises like the async `abort`."""
        self._wait(self._after_emptying, self._producer.abort)

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, Natural | OffsetAndMetadata], group: GroupMetadata | str
    ) -> None:
        """Commit a group's offsets as a part of the open transaction, like the async `send_offsets_to_transaction`."""
        self._wait(self._producer.send_offsets_to_transaction, offsets, group)

    def partitions_for(self, topic: TopicName) -> list[int]:
        """The partitions of a topic. Raises as the async `partitions_for`."""
        return self._wait(self._producer.partitions_for, topic)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        if kind is None and self._is_open:
            try:
                self._wait(self._deliver_all)
            except BaseException as failure:
                super().__exit__(type(failure), failure, failure.__traceback__)
                raise
        return super().__exit__(kind, error, trace)

    def _end(self, unusable: str = "") -> None:
        super()._end(unusable)
        self._refusals.clear()
        self._emptying = False  # The next `send` finds out.

    async def _finish(self, left_by: Exception) -> None:
        await self._deliver_all()

    def _start_emptying(self) -> None:
        if not self._is_open:
            self._inbox.clear()
        try:
            self._emptying = True
            self._open_thread().start(self._empty)
        except BaseException:
            self._emptying = False
            raise

    async def _empty(self) -> None:
        """On the event loop's thread: move the records from the inbox to the async producer, in order.

        `_emptying` is reset before the last check of the inbox, so that a record added later starts a new task.
        """
        if self._has_task:
            return
        self._has_task = True
        try:
            await self._send_all()
        finally:
            self._has_task = False

    async def _send_all(self) -> None:
        send = self._producer.send
        while True:
            while self._inbox:
                delivery, topic, value, key, partition, timestamp_ms, headers, callback = self._inbox.popleft()
                self._sending = delivery
                try:
                    delivery._delivery = await send(
                        topic,
                        value,
                        key=key,
                        partition=partition,
                        timestamp_ms=timestamp_ms,
                        headers=headers,
                        on_delivery=callback,
                    )
                except Exception as error:  # noqa: BLE001 (a partitioner may raise anything; it is this record's error)
                    refused = [delivery] if delivery._refusal is None else []
                    if isinstance(error, KafkaError) and error.retriable:  # after `max_block_ms`
                        refused += self._take_behind(topic, error)
                    self._refuse(topic, error, refused)
            self._sending = None
            if self._on_empty is not None:
                self._on_empty.set()
                self._on_empty = None
            self._emptying = False
            if not self._inbox:
                return

    def _take_behind(self, topic: str, error: KafkaError) -> list[BlockingDelivery]:
        """Remove a topic's records from the inbox: they have waited as long as the record that failed with `error`."""
        count = len(self._inbox)
        waiting = [self._inbox.popleft() for _ in range(count)]
        self._inbox.extendleft(reversed([one for one in waiting if one[1] != topic]))
        taken = [one for one in waiting if one[1] == topic]
        for one in taken:
            _refuse_interceptors(one[-1], error)
        return [one[0] for one in taken]

    def _refuse(self, topic: str, error: Exception, deliveries: list[BlockingDelivery]) -> None:
        if not deliveries:
            return
        if not self._refusals and not self._producer._closed:
            assert self._producer._tasks is not None
            self._producer._tasks.start_soon(self._end_refusals)
        refusal = self._refusals.add(topic, error, len(deliveries))
        for delivery in deliveries:
            delivery._refusal = refusal
        if (transaction := self._producer._accumulator.transaction) is not None:
            transaction.refused(error)

    async def _end_refusals(self) -> None:
        await anyio.sleep(TOGETHER_S)
        self._refusals.clear()

    def _drop(self, error: KafkaError) -> int:
        """Drop the records that the async producer has not received yet, as it is being closed; return their number."""
        count = 0
        if self._sending is not None and self._sending._delivery is None:
            self._sending._refusal = dropped("", error)
            count += 1
        for _ in range(len(self._inbox)):  # Interceptors and other threads may go on sending.
            delivery, *_, on_delivery = self._inbox.popleft()
            delivery._refusal = dropped("", error)
            _refuse_interceptors(on_delivery, error)
            count += 1
        return count

    async def _emptied(self) -> None:
        while self._has_task or self._inbox:
            if not self._has_task:  # An interruption may have kept `send` from starting the task.
                self._open_thread().start(self._empty)
            self._on_empty = self._on_empty or anyio.Event()
            with anyio.move_on_after(0.1):
                await self._on_empty.wait()

    async def _after_emptying(self, step: Callable[[], Awaitable[None]]) -> None:
        await self._emptied()
        await step()

    async def _abort_after(self, error: BaseException) -> None:
        advice = "; another Ctrl-C ends this at once" if isinstance(error, KeyboardInterrupt) else ""
        await self._producer._abort_after(error, self._emptied, advice)

    async def _flush(self) -> None:
        await self._emptied()
        await self._producer.flush()

    async def _deliver_all(self) -> None:
        """Deliver all records, also those that callbacks send meanwhile; an open transaction is left to be aborted."""
        await self._emptied()
        accumulator = self._producer._accumulator
        while accumulator.transaction is None and (self._inbox or self._has_task or any(accumulator.unfinished())):
            await self._flush()

    def _wait_for(self, delivery: BlockingDelivery, timeout_ms: float | None) -> None:
        self._wait(self._settled, delivery, timeout_ms)

    async def _settled(self, delivery: BlockingDelivery, timeout_ms: float | None) -> None:
        with anyio.move_on_after(None if timeout_ms is None else timeout_ms / 1000):
            if delivery._delivery is None and delivery._refusal is None:
                await self._emptied()
            if delivery._delivery is not None:
                await delivery._delivery.wait()
            return
        raise RequestTimedOutError(f"the record was not delivered within {timeout_ms} ms; delivery continues")


def _refuse_interceptors(on_delivery: OnDelivery | None, error: Exception) -> None:
    """Tell the interceptors, if there are any, that the record is not sent."""
    if isinstance(on_delivery, Acknowledgement):
        on_delivery.acknowledge(None, error)


def _size_bytes(value: bytes | None, key: bytes | None, headers: Headers) -> int:
    size_bytes = 0 if value is None else len(value)
    if key is not None:
        size_bytes += len(key)
    if headers:
        size_bytes += sum(len(name) + len(content or b"") for name, content in headers)
    return size_bytes
