"""The same three clients for code without async.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("flights", b"…", key=b"N14228")

    with Consumer("flights", group_id="delays") as consumer:
        for record in consumer:
            …

Each has an event loop (asyncio's) on a thread of its own for as long as its `with` block lasts; methods hand over to it
and wait. `Producer.send` does not wait: it leaves the record in an inbox that the loop empties. One object may be
used by many threads, but for iterating over a Consumer.

Inside async code use `minikafka.client` itself: these would block the event loop.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from minikafka.client.admin import admin as asynchronous_admin
from minikafka.client.connections.cluster_client import ClusterClient
from minikafka.client.consumer import consumer as asynchronous_consumer
from minikafka.client.consumer.consumer_record import ConsumerRecord
from minikafka.client.options import ConsumerOptions, make
from minikafka.client.producer import producer as asynchronous_producer
from minikafka.client.producer.producer_batch import Delivery, OnDelivery, RecordMetadata
from minikafka.protocol.errors import KafkaError, RequestTimedOutError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import Headers

if TYPE_CHECKING:
    import pyarrow as pa

_logger = logging.getLogger("minikafka.client.producer")
_INBOX_SIZE_MAX = 10_000
_FOREVER_MS = 1 << 40


class _Blocking:
    """An async client on a thread of its own. Attributes that are not found here are the client's, made blocking."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(self._portal.wrap_async_context_manager(self._client))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> bool | None:
        try:
            return self._stack.__exit__(*exception)
        finally:
            self._portal = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._client, name)

        @wraps(method)
        def blocking(*args: Any, **kwargs: Any) -> Any:
            return self._call(method, *args, **kwargs)

        return blocking

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._portal is None:
            name = type(self).__name__
            raise RuntimeError(f"this {name} is not open: use it inside `with {name}(…) as …:`")
        return self._portal.call(partial(function, *args, **kwargs))


class Admin(_Blocking):
    """`minikafka.client.Admin` with the same arguments and methods, each of which waits until it is done."""

    def __init__(self, bootstrap_servers: str | Sequence[str] | None = None, **options: Any) -> None:
        super().__init__(asynchronous_admin.Admin(bootstrap_servers, **options))


class BlockingDelivery:
    """What became of a record: `result()` waits for it."""

    __slots__ = ("_delivery", "_error", "_producer")

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._delivery: Delivery | None = None
        self._error: Exception | None = None

    @property
    def done(self) -> bool:
        """Whether the record's fate is known."""
        return self._error is not None or (self._delivery is not None and self._delivery.done)

    def result(self, timeout_ms: float | None = None) -> RecordMetadata:
        """Where the record lies. Raises the KafkaError that it met, RequestTimedOutError after `timeout_ms`."""
        if not self.done:
            self._producer._wait_for(self, timeout_ms)
        if self._error is not None:
            raise self._error
        assert self._delivery is not None
        return self._delivery.result()


class Producer(_Blocking):
    """`minikafka.client.Producer` with the same arguments.

    `send` returns at once, unless 10,000 records wait to be taken over; what goes wrong, a topic that does not exist
    for example, is raised by the delivery's `result()` and logged. Leaving the block waits for all deliveries.
    """

    def __init__(self, bootstrap_servers: str | Sequence[str] | None = None, **options: Any) -> None:
        self._producer = asynchronous_producer.Producer(bootstrap_servers, **options)
        super().__init__(self._producer)
        self._inbox: deque[tuple[BlockingDelivery, str, Any, Any, Any, Any, Any, Any]] = deque()
        self._emptying = False
        self._lock = threading.Lock()
        self._news: anyio.Event | None = None

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        on_delivery: OnDelivery | None = None,
    ) -> BlockingDelivery:
        """Queue a record; arguments as for the async `send`. `on_delivery` is called on the loop's thread.

        Raises TypeError where value or key are not bytes.
        """
        delivery = BlockingDelivery(self)
        if type(value) is not bytes:
            value = self._producer.value_bytes(value)
        if type(key) is not bytes:
            key = self._producer.key_bytes(key)
        self._inbox.append((delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery))
        if not self._emptying:
            self._start_emptying()
        if len(self._inbox) >= _INBOX_SIZE_MAX:
            self._call(self._emptied)
        return delivery

    def send_and_wait(self, topic: str, value: Any = None, **rest: Any) -> RecordMetadata:
        """`send`, and wait until the record is delivered."""
        return self.send(topic, value, **rest).result()

    def flush(self) -> None:
        """Wait until the fate of everything sent is known."""
        self._call(self._flush)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        if kind is None and self._portal is not None:
            self._call(self._emptied)
        return super().__exit__(kind, error, trace)

    def _start_emptying(self) -> None:
        if self._portal is None:
            self._inbox.clear()
            self._call(self._emptied)  # Raises the error that says what to do.
        assert self._portal is not None
        with self._lock:
            begin, self._emptying = not self._emptying, True
        if begin:
            self._portal.start_task_soon(self._empty)

    async def _empty(self) -> None:
        """On the loop's thread: take the records over, in order.

        `_emptying` is given up before the last look at the inbox: whoever puts a record in later begins anew.
        """
        send = self._producer.send
        while True:
            while self._inbox:
                delivery, topic, value, key, partition, timestamp_ms, headers, callback = self._inbox.popleft()
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
                except (KafkaError, ValueError, RuntimeError) as error:
                    delivery._error = error
                    _logger.warning("a record for topic %r was not sent: %s", topic, error)
            if self._news is not None:
                self._news.set()
                self._news = None
            self._emptying = False
            if not self._inbox:
                return
            with self._lock:
                if self._emptying:
                    return
                self._emptying = True

    async def _emptied(self) -> None:
        while self._emptying or self._inbox:
            self._news = self._news or anyio.Event()
            with anyio.move_on_after(0.1):
                await self._news.wait()

    async def _flush(self) -> None:
        await self._emptied()
        await self._producer.flush()

    def _wait_for(self, delivery: BlockingDelivery, timeout_ms: float | None) -> None:
        self._call(self._settled, delivery, timeout_ms)

    async def _settled(self, delivery: BlockingDelivery, timeout_ms: float | None) -> None:
        with anyio.move_on_after(None if timeout_ms is None else timeout_ms / 1000):
            if delivery._delivery is None and delivery._error is None:
                await self._emptied()
            if delivery._delivery is not None:
                await delivery._delivery.wait()
            return
        raise RequestTimedOutError(f"the record was not delivered within {timeout_ms} ms; it is still on its way")


class Consumer(_Blocking):
    """`minikafka.client.Consumer` with the same arguments and methods; iterate over it with `for`.

    Records taken over but not yet given out by the iterator go back when anything else is asked of the consumer,
    so that positions and commits are right at any time.
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        self._consumer = asynchronous_consumer.Consumer(*topics, **options)
        super().__init__(self._consumer)
        known = {name: value for name, value in options.items() if name != "seams"}
        self._limit = make(ConsumerOptions, known, "Consumer").max_poll_records
        self._taken: deque[ConsumerRecord] = deque()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            while self._taken:
                yield self._taken.popleft()
            self._taken.extend(super()._call(self._consumer.poll, _FOREVER_MS, self._limit))

    def batches(self) -> Iterator[asynchronous_consumer.RecordBatch]:
        """Records as they arrive, many of one partition at a time."""
        batches = self._consumer.batches()
        while True:
            yield self._call(anext, batches)

    def arrow_batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The same as columns of Arrow."""
        batches = self._consumer.arrow_batches(columns)
        while True:
            yield self._call(anext, batches)

    def __exit__(self, *exception: Any) -> bool | None:
        if self._portal is not None:
            self._give_back()
        return super().__exit__(*exception)

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._give_back()
        return super()._call(function, *args, **kwargs)

    def _give_back(self) -> None:
        taken, self._taken = self._taken, deque()
        if taken:
            super()._call(self._seek_back, {TopicPartition(one.topic, one.partition): one for one in reversed(taken)})

    def _seek_back(self, first: Mapping[TopicPartition, ConsumerRecord]) -> None:
        for tp, record in first.items():
            if tp in self._consumer.assignment():
                self._consumer.seek(tp, record.offset)
