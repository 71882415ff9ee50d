"""The producer's public class: appends records to batches, which a background task sends to leaders.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("flights", b"…", key=b"N14228")
        where = await delivery              # RecordMetadata(topic, partition, offset, timestamp)

`send` only waits for a topic's metadata and while `buffer_memory` is full. It returns a `Delivery`: await it for the
result. Leaving the block normally waits until all records are delivered. Batches are kept in
`record_accumulator.py` and sent by `sender.py`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Never, Unpack, cast

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from minikafka.client.argument_checks import checks_arguments
from minikafka.client.argument_kinds import HeadersArgument, Natural, PartitionIndex, Timestamp, TopicName
from minikafka.client.arguments import ProducerArguments
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.cluster_metadata import Topic
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.connections.seams import Seams
from minikafka.client.escaped_log import escaped
from minikafka.client.groups.group_metadata import GroupMetadata
from minikafka.client.metrics import Readings
from minikafka.client.mixups import AsyncTransaction
from minikafka.client.offsets import OffsetAndMetadata
from minikafka.client.option_checks import DEFAULT_BOOTSTRAP_SERVERS, BootstrapServers
from minikafka.client.options import ProducerOptions, make
from minikafka.client.producer.closing import abort_after, abort_open, drop_undelivered
from minikafka.client.producer.interception import Interception
from minikafka.client.producer.partitioner import StickyChoice, partition_for_key, partitions_for_keys
from minikafka.client.producer.producer_batch import Delivery, OnDelivery
from minikafka.client.producer.record_accumulator import Accumulator, Lane
from minikafka.client.producer.refused_records import no_memory, no_partition, refused, refusing, too_large
from minikafka.client.producer.sender import Sender, measure_producer
from minikafka.client.producer.serialization import (
    NO_HEADERS,
    SENT,
    FieldSerializer,
    read_arguments,
    read_headers,
    read_partition,
    read_timestamp,
)
from minikafka.client.producer.transactions import Transactions
from minikafka.client.records import ProducerRecord, RecordMetadata
from minikafka.client.unknown_arguments import refuse
from minikafka.client.user_code import called
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import RECORD_OVERHEAD_BYTES, Headers

_logger = escaped(logging.getLogger("minikafka.client.producer"))
_SENDS_PER_CHECKPOINT = 256
_TIMESTAMP_MAX = (1 << 63) - 1


class _Target:
    """A topic's lanes and sticky partition, for `send`."""

    __slots__ = ("available", "lanes", "partition_count", "sticky", "topic")

    def __init__(self, topic: Topic, lanes: list[Lane], sticky: StickyChoice) -> None:
        self.topic = topic
        self.lanes = lanes
        self.sticky = sticky
        self.partition_count = len(lanes)
        self.available = topic.available or list(range(len(lanes)))


@checks_arguments(but=("send", "send_and_wait"))
class Producer(ClusterClient):
    """Produces records to Kafka.

    Args:
        bootstrap_servers: "host1:9092,host2:9092", or a list of such addresses.
        options: Kafka's producer settings with underscores, each described in `ProducerArguments`: acks, linger_ms,
            compression_type, transactional_id, key_serializer, value_serializer, delivery_timeout_ms …
        seams: clock, randomness and network, for tests.

    Raises InvalidOption, and on entering NetworkError if no broker can be reached, unless `start` is "lazy".

    Cancellation. A cancelled `send` has either queued the record or not; queued records stay queued. If the block
    is left by an exception or by cancellation, undelivered records are dropped: their deliveries raise
    NetworkError, although the broker may have appended some of them.
    """

    _metrics_kind = "producer"

    def __init__(
        self,
        bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
        *,
        seams: Seams | None = None,
        **options: Unpack[ProducerArguments],
    ) -> None:
        self._options = make(ProducerOptions, {**options, "bootstrap_servers": bootstrap_servers}, "Producer")
        super().__init__(self._options, seams, lazily=self._options.start == "lazy")
        self._backoff = Backoff(self._options.retry_backoff_ms, self._options.retry_backoff_max_ms, self._seams.random)
        self._accumulator = Accumulator(self._options, self._backoff)
        self._record_size_max = min(self._options.max_request_size, self._options.buffer_memory)
        self._targets: dict[str, _Target] = {}
        self._sends = 0
        self._closed = False
        self.drop_ahead: Callable[[KafkaError], int] = lambda error: 0
        """Drops records that have not reached the accumulator when the producer is closed; returns their number."""
        self._sender: Sender | None = None
        self._serialize_key = FieldSerializer("key", self._options.key_serializer)
        self._serialize_value = FieldSerializer("value", self._options.value_serializer)
        self._interception = Interception(self._options.interceptors) if self._options.interceptors else None

    async def send(
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
    ) -> Delivery:
        """Queue a record.

        Args:
            value, key: bytes or None, or objects that the serializers accept.
            partition: by default chosen by the partitioner: by the key's murmur2 hash as in the JVM client, or
                sticky without a key.
            timestamp_ms: the record's timestamp, by default the current time.
            headers: a mapping, or an iterable of pairs, of names to bytes, strings (sent as UTF-8) or None.
            on_delivery: called with (RecordMetadata, None) or (None, KafkaError).

        Raises:
            RuntimeError: the producer is transactional, and no transaction is open.
            AbortableTransactionError, FatalTransactionError: the transaction or the producer has failed before.
            RequestTimedOutError: `buffer_memory` stayed full for `max_block_ms`.
            UnknownTopicOrPartitionError, …: the topic could not be found within `max_block_ms`.
            MessageTooLargeError: the record is larger than `max_request_size` or `buffer_memory`.
            TypeError, ValueError: an argument has a wrong type or value. Errors of serializers and partitioner, too.
        """
        if unknown:
            refuse("send", unknown, SENT)
        if self._interception is not None and not getattr(on_delivery, "is_sending", False):
            name, index, time, pairs = read_arguments(topic, partition, timestamp_ms, headers, on_delivery)
            record = ProducerRecord(name, value, key, index, time, pairs)
            return await self._interception.send(self.send, record, on_delivery)
        self._sends += 1
        if not self._sends % _SENDS_PER_CHECKPOINT:
            await checkpoint()
        try:
            target = self._targets.get(topic)
        except TypeError:  # An object that cannot be hashed is no string.
            target = None
        is_broken = on_delivery is not None and not callable(on_delivery)
        if target is None or is_broken or self._closed or self._accumulator.used_bytes >= self._options.buffer_memory:
            with refusing(self._accumulator.transaction):
                read = read_arguments(topic, partition, timestamp_ms, headers, on_delivery)
                topic, partition, timestamp_ms, headers = read
                target = await self._prepare(topic)
        return self._append(target, value, key, partition, timestamp_ms, headers, on_delivery)

    async def send_and_wait(
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
    ) -> RecordMetadata:
        """Call `send`, and wait until the record is delivered. Raises as `send`, and the delivery's KafkaError."""
        if unknown:
            refuse("send_and_wait", unknown, SENT)
        delivery = await self.send(
            topic,
            value,
            key=key,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=headers,
            on_delivery=on_delivery,
        )
        return await delivery

    async def send_many(
        self,
        topic: TopicName,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        partition: PartitionIndex | None = None,
        timestamp_ms: Timestamp | None = None,
    ) -> list[Delivery]:
        """Queue many records of one topic, in order; like `send` for each, but faster.

        Raises the errors of `send`; the records before the one that is refused stay queued. Raises ValueError unless
        `keys` has a key, or None, for each value.
        """
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"send_many(): must have as many keys as values, not {len(keys)} for {len(values)}")
        if self._interception is not None:
            rows = zip(values, keys or [None] * len(values), strict=True)
            send = partial(self.send, topic, partition=partition, timestamp_ms=timestamp_ms)
            return [await send(value, key=key) for value, key in rows]
        deliveries: list[Delivery] = []
        hashed = keys and partition is None and self._options.partitioner is None and None not in keys
        for start in range(0, len(values), _SENDS_PER_CHECKPOINT):
            target = self._targets.get(topic)
            if target is None or self._closed or self._accumulator.used_bytes >= self._options.buffer_memory:
                with refusing(self._accumulator.transaction):
                    target = await self._prepare(topic)
            end = start + _SENDS_PER_CHECKPOINT
            some = keys[start:end] if keys else [None] * len(values[start:end])
            if hashed and self._options.key_serializer is None:
                some = [key if type(key) is bytes else self._key_bytes(key, topic, ()) for key in some]
                chosen: Sequence[int | None] = partitions_for_keys(cast("Any", some), target.partition_count)
            else:
                chosen = [partition] * len(some)
            for value, key, number in zip(values[start:end], some, chosen, strict=True):
                deliveries.append(self._append(target, value, key, number, timestamp_ms, (), None))
            await checkpoint()
        return deliveries

    def _check_transaction(self) -> None:
        """If transactional, raise RuntimeError without an open transaction, or the KafkaError of a failed one."""
        if self._accumulator.transaction is not None:
            self._accumulator.transaction.check_open()

    def _value_bytes(self, value: Any, topic: str, headers: Headers) -> bytes | None:
        """Serialize a value. Raises TypeError."""
        return value if type(value) is bytes else self._serialize_value(value, topic, headers)

    def _key_bytes(self, key: Any, topic: str, headers: Headers) -> bytes | None:
        """Serialize a key. Raises TypeError."""
        return key if type(key) is bytes or key is None else self._serialize_key(key, topic, headers)

    async def flush(self) -> None:
        """Send all queued records without lingering, and wait until each is delivered or has failed.

        The wait ends after `delivery_timeout_ms` at the latest. Failures are raised by the records' deliveries, not by
        `flush`: a program that flushes in a loop should check a delivery. Cancellation only ends the wait.
        """
        sender = self._running()
        with sender.flushing():
            for batch in list(self._accumulator.unfinished()):
                await batch.wait()
        await sender.confirm_unanswered()

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """A block that is a transaction: `async with producer.transaction():` commits at the end of the block.

        An exception or a cancellation, even of the commit, aborts the transaction and is raised again. A commit of
        which the coordinator may know is finished instead. If neither is possible within a few seconds, the coordinator
        aborts the transaction after `transaction_timeout_ms`. Raises the errors of `begin` and `commit`.
        """
        return AsyncTransaction(self._transaction())

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        await self.begin()
        try:
            yield
            await self._transactions().commit()
        except BaseException as error:
            await self._abort_after(error)
            raise

    async def begin(self) -> None:
        """Begin a transaction, to which all records belong until `commit` or `abort`.

        Raises RuntimeError if one is open, FatalTransactionError; with `start="lazy"` RequestTimedOutError if no broker
        was reached within `max_block_ms`.
        """
        await self._transactions().begin()

    async def commit(self) -> None:
        """Deliver all queued records, and commit the transaction.

        Raises:
            AbortableTransactionError: a record or the transaction has failed: call `abort`.
            FatalTransactionError, ProducerFenced: the producer cannot be used any longer: close it.
            RequestTimedOutError: the outcome is not known after `max_block_ms`: call `commit` again.
            RuntimeError: no transaction is open, or another task is in `commit` or `abort`.

        Cancellation: the outcome is not known; `commit` may be called again.
        """
        await self._transactions().commit()

    async def abort(self) -> None:
        """Drop the queued records, and abort the transaction; read_committed consumers see none of its records.

        Raises FatalTransactionError, RequestTimedOutError (call `abort` again), RuntimeError as `commit`.
        Cancellation: `abort` may be called again.
        """
        await self._transactions().abort()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, Natural | OffsetAndMetadata], group: GroupMetadata | str
    ) -> None:
        """Commit a group's offsets as a part of the open transaction.

        Args:
            offsets: the next offset to read, by partition.
            group: `consumer.group_metadata()` of the consumer that has read the records. With a plain group id, a
                consumer that has lost its partitions meanwhile is not fenced.

        Raises the errors of `commit`; after RequestTimedOutError, the method may be called again.
        """
        named = {
            tp: one if isinstance(one, OffsetAndMetadata) else OffsetAndMetadata(one) for tp, one in offsets.items()
        }
        await self._transactions().send_offsets(named, GroupMetadata(group) if isinstance(group, str) else group)

    def _transactions(self) -> Transactions:
        """The producer's `Transactions`. Raises RuntimeError if it is closed, not open or not transactional."""
        transactions = self._running().transactions
        if transactions is None:
            raise RuntimeError("this Producer has no transactions: give it a transactional_id")
        if self._closed:
            raise RuntimeError("this Producer is closed")
        return transactions

    async def _abort_after(
        self, error: BaseException, ahead: Callable[[], Awaitable[None]] | None = None, advice: str = ""
    ) -> None:
        """Abort the open transaction after an exception; see `closing.abort_after`."""
        transactions = self._running().transactions
        assert transactions is not None
        await abort_after(transactions, error, ahead=ahead, advice=advice)

    async def partitions_for(self, topic: TopicName) -> list[int]:
        """The partitions of a topic. Raises as `send`."""
        return list(range((await self._prepare(topic)).partition_count))

    def _append(
        self,
        target: _Target,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Any,
        on_delivery: OnDelivery | None,
    ) -> Delivery:
        options = self._options
        transaction = self._accumulator.transaction
        if transaction is not None and not transaction.is_open:
            transaction.check_open()
        if headers:
            headers = read_headers(headers)
        if type(value) is not bytes:
            value = self._value_bytes(value, target.topic.name, headers)
        if key is not None and type(key) is not bytes:
            key = self._key_bytes(key, target.topic.name, headers)
        size = RECORD_OVERHEAD_BYTES + (len(value) if value else 0) + (len(key) if key else 0)
        size += sum(10 + 4 * len(name) + len(one or b"") for name, one in headers) if headers else 0
        if timestamp_ms is not None and not (type(timestamp_ms) is int and 0 <= timestamp_ms <= _TIMESTAMP_MAX):
            timestamp_ms = read_timestamp(timestamp_ms)
        if size > self._record_size_max:
            raise refused(too_large(target.topic.name, size, options), transaction)
        if partition is None and key is None and options.partitioner is None:
            sticky = target.sticky
            if sticky.left <= 0:
                sticky.renew(target.available)
            sticky.left -= size
            partition = sticky.partition
        else:
            partition = self._choose(target, key, value, partition)
        lane = target.lanes[partition]
        batch = lane.open
        if batch is None or batch.size_bytes + size > options.batch_size:
            batch = self._sender.open_batch(lane, size)  # type: ignore[union-attr]
        else:
            batch.size_bytes += size
            self._accumulator.used_bytes += size
        index = len(batch.values)
        batch.keys.append(key)
        batch.values.append(value)
        batch.timestamps.append(self._seams.now_ms() if timestamp_ms is None else timestamp_ms)
        if headers:
            batch.headers[index] = headers
        if on_delivery is not None:
            batch.callbacks.append((index, on_delivery))
        return Delivery(batch, index)

    def _choose(self, target: _Target, key: bytes | None, value: bytes | None, partition: int | None) -> int:
        """The partition: as requested, or of the partitioner, or by the key. Raises TypeError, ValueError."""
        if partition is None:
            if self._options.partitioner is None:
                return partition_for_key(key or b"", target.partition_count)
            partition = called(self._options.partitioner, target.topic.name, key, value, target.partition_count)
            if type(partition) is not int:
                partition = read_partition(partition, "partitioner(…)")
        elif type(partition) is not int:
            partition = read_partition(partition)
        if not 0 <= partition < target.partition_count:
            raise refused(
                no_partition(target.topic.name, partition, target.partition_count), self._accumulator.transaction
            )
        return partition

    async def _prepare(self, topic: str) -> _Target:
        """The topic's target, once memory is available for a record. Raises RequestTimedOutError."""
        sender = self._running()
        self._check_not_closed()
        deadline = anyio.current_time() + self._options.max_block_ms / 1000
        target = self._targets.get(topic)
        if target is None:
            try:
                known = await self.cluster.topic(topic, self._options.max_block_ms)
            finally:
                self._check_not_closed()
            target = self._targets[topic] = self._target(known, None)
        with anyio.move_on_at(deadline), sender.flushing(), self.cluster.waiting("memory for a record"):
            while self._accumulator.used_bytes >= self._options.buffer_memory:
                await sender.memory_freed()
            self._check_not_closed()
            return target
        raise no_memory(self._options, self.cluster.why(None))

    def _check_not_closed(self) -> None:
        if self._closed:
            raise RuntimeError("this Producer is closed")

    def _target(self, topic: Topic, before: _Target | None) -> _Target:
        lanes = [self._accumulator.lane(topic.name, partition.index) for partition in topic.partitions]
        sticky = before.sticky if before else StickyChoice(self._options.batch_size, self._seams.random)
        target = _Target(topic, lanes, sticky)
        sticky.leaders_changed(target.available)
        return target

    def _update_targets(self) -> None:
        """Handle changed metadata."""
        assert self._cluster is not None
        assert self._sender is not None
        for name in self._sender.forget_idle({name: one.lanes for name, one in self._targets.items()}):
            del self._targets[name]
        for name, before in list(self._targets.items()):
            topic = self._cluster.metadata.topics.get(name)
            if topic is None or topic is before.topic:
                continue
            if topic.topic_id != before.topic.topic_id or len(topic.partitions) >= len(before.lanes):
                self._targets[name] = self._target(topic, before)

    def _running(self) -> Sender:
        self.cluster  # noqa: B018 (raises the error that says what to do)
        if self._sender is None:
            raise RuntimeError("this Producer is not open")
        return self._sender

    def _measure(self, readings: Readings) -> None:
        measure_producer(readings, self._running(), self._options.buffer_memory, self._accumulator.used_bytes)

    async def _start(self, tasks: TaskGroup) -> None:
        self._sender = Sender(self.cluster, self._accumulator, self._options, tasks, self._backoff)
        self._sender.on_update = self._update_targets
        # Without a target, `send` calls `_prepare`, which checks whether the producer can still be used.
        self._sender.on_end = self.cluster.home.on_fork = self._targets.clear
        await self._sender.start()

    async def _stop(self, left_by: BaseException | None) -> None:
        self._closed = True
        transactions = self._sender.transactions if self._sender is not None else None
        try:
            if transactions is not None:
                await abort_open(transactions, left_by)
            elif left_by is None:
                await self.flush()
        except BaseException as error:
            left_by = left_by or error
            raise
        finally:
            drop_undelivered(self._accumulator, self.drop_ahead, left_by)
            if self._sender is not None:
                self._sender.memory_was_freed()
