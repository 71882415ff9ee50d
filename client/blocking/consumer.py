"""The blocking `Consumer`: iterates over records that it takes from the async consumer a poll at a time."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, Unpack

from minikafka.client.argument_checks import knows_arguments
from minikafka.client.argument_kinds import Natural, PartitionArgument, Positive, TimeoutMs, Timestamp, TopicName
from minikafka.client.arguments import ConsumerArguments
from minikafka.client.blocking.blocking_client import BlockingClient, documented_as
from minikafka.client.blocking.listener import EitherListener as Listener
from minikafka.client.blocking.listener import Listener as BlockingListener
from minikafka.client.blocking.listener import OnApplicationThread
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer import consumer as async_consumer
from minikafka.client.consumer.interception import on_consume
from minikafka.client.consumer.listener import check_listener
from minikafka.client.consumer.one_reader import READ_TWICE
from minikafka.client.going_on import Block, Iteration
from minikafka.client.groups.group_metadata import GroupMetadata
from minikafka.client.mixups import IteratedWithAsync
from minikafka.client.offsets import OffsetAndMetadata, OffsetAndTimestamp
from minikafka.client.option_checks import DEFAULT_BOOTSTRAP_SERVERS, BootstrapServers
from minikafka.client.records import ConsumerRecord, RecordBatch
from minikafka.protocol.names import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
T = TypeVar("T")
_FOREVER_MS = 1 << 40


class _Intercepted(NamedTuple):
    """What interceptors made of a record. Its place is that of the record, which they may change.

    Attributes:
        records: what the application gets in its place.
    """

    topic: str
    partition: int
    offset: int
    records: Sequence[ConsumerRecord]


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """The entry of a thread that currently iterates over the consumer or polls it."""

    thread: int


@knows_arguments()
@documented_as(async_consumer.Consumer)
class Consumer(IteratedWithAsync, BlockingClient):
    """`minikafka.client.Consumer` with the same arguments and methods; iterate over it with `for`.

    Only one thread may iterate over it or poll it at a time; a second one is refused with a RuntimeError.

    A `Listener` has plain methods, which are called on the thread that requests records, and may commit.

    The iterator takes up to `max_poll_records` records at a time. Before any other call but a commit of given offsets
    or of a record, records that it has not yielded yet are returned by a seek, so that positions and commits are exact.
    """

    def __init__(
        self,
        *topics: TopicName,
        bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
        seams: Seams | None = None,
        **options: Unpack[ConsumerArguments],
    ) -> None:
        self._consumer = async_consumer.Consumer(
            *topics, bootstrap_servers=bootstrap_servers, seams=seams, **options
        )
        super().__init__(self._consumer)
        self._consumer._fetcher.yielded = self._note_yielded
        self._interceptors = self._consumer._options.interceptors
        self._consumer._iterations.interceptors_of_polls = ()  # `_take` calls them.
        self._consumer._reader.by_task = False  # `_begin_reading` checks threads: each call is a task of its own.
        self._readers: dict[_Reading, None] = {}
        self._taken: deque[ConsumerRecord | _Intercepted] = deque()
        """Records that were taken and not yet yielded; with interceptors each is an `_Intercepted`."""
        self._yielded: ConsumerRecord | _Intercepted | None = None
        self._batch: Any = None
        """The batch that `batches` or `arrow_batches` has taken and not yet yielded."""
        self._has_listener = False

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return Iteration(self._iterate_intercepted if self._interceptors else self._iterate)

    def _iterate_intercepted(self, block: Block) -> Generator[ConsumerRecord, None, None]:
        with block:
            for one in self._iterate(nullcontext()):
                yield from one.records

    def _iterate(self, block: Block) -> Generator[Any, None, None]:
        with block:
            mine = _Reading(threading.get_ident())
            try:
                self._begin_reading(mine)
                if self._batch is not None:
                    super()._run(self._return_taken)
                while True:
                    while self._taken:
                        try:
                            record = self._yielded = self._taken[0]
                            del self._taken[0]  # From the line above to `yield` there is no call and no jump: no signal
                        except IndexError:  # is handled, and no other thread's call takes the records back.
                            break
                        yield record
                    self._yielded = None
                    super()._wait(self._take, _FOREVER_MS)
                    if not self._taken and super()._run(self._consumer.at_end):
                        return
            finally:
                self._readers.pop(mine, None)

    def batches(self) -> Iterator[RecordBatch]:
        return Iteration(partial(self._each, self._consumer.batches()))

    def arrow_batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        return Iteration(partial(self._each, self._consumer.arrow_batches(columns)))

    def _each(self, batches: AsyncIterator[T], block: Block) -> Generator[T, None, None]:
        with block:
            mine = _Reading(threading.get_ident())
            try:
                self._begin_reading(mine)
                while True:
                    if not self._wait(self._take_batch, batches):
                        return
                    batch, self._batch = self._batch, None
                    if batch is not None:  # A signal handler may have had it returned.
                        yield batch
            finally:
                self._readers.pop(mine, None)

    async def _take(self, timeout_ms: float, max_records: Positive | None = None, *, at_once: bool = False) -> None:
        """Poll, and store the records in `_taken` within the loop: an interrupted call could lose a returned result.

        Interceptors are called for each record or, `at_once`, for all: the first one then stands for all.
        """
        records = await self._consumer.poll(timeout_ms, max_records)
        taken: Iterable[ConsumerRecord | _Intercepted] = records
        if self._interceptors and records:
            groups = [records, *([] for _ in records[1:])] if at_once else [[one] for one in records]
            taken = [
                _Intercepted(one.topic, one.partition, one.offset, on_consume(self._interceptors, some) if some else [])
                for one, some in zip(records, groups, strict=True)
            ]
        self._taken.extend(taken)  # a callback of the poll may have replaced `_taken`

    async def _take_batch(self, batches: AsyncIterator[Any]) -> bool:
        """Store the next batch in `_batch`; return False if there is none. In the loop, for the reason of `_take`."""
        self._batch = await anext(batches, None)
        return self._batch is not None

    def _begin_reading(self, mine: _Reading) -> None:
        """Enter a reading thread. Raises RuntimeError if another thread reads: records would be returned twice.

        The caller removes the entry as the first statement of a `finally` block, before any signal is handled.
        """
        self._readers[mine] = None
        before = takewhile(lambda one: one is not mine, list(self._readers))
        if (others := {one.thread for one in before} - {mine.thread}) and others & sys._current_frames().keys():
            raise RuntimeError(f"another thread {READ_TWICE}")

    def assign(self, partitions: Iterable[PartitionArgument]) -> None:
        self._run(self._consumer.assign, partitions)

    def subscribe(
        self,
        topics: Iterable[TopicName] = (),
        *,
        pattern: str | None = None,
        listener: Listener | None = None,
    ) -> None:
        thread = self._open_thread()
        if isinstance(listener, BlockingListener):
            check_listener(listener, is_async=False)
        called = OnApplicationThread(listener, thread) if isinstance(listener, BlockingListener) else listener
        self._wait(self._consumer.subscribe, topics, pattern=pattern, listener=called)
        self._has_listener = isinstance(called, OnApplicationThread)

    def unsubscribe(self) -> None:
        self._wait(self._consumer.unsubscribe)

    def assignment(self) -> list[TopicPartition]:
        return self._run(self._consumer.assignment)

    def pause(self, *partitions: PartitionArgument) -> None:
        self._run(self._consumer.pause, *partitions)

    def resume(self, *partitions: PartitionArgument) -> None:
        self._run(self._consumer.resume, *partitions)

    def paused(self) -> list[TopicPartition]:
        return self._run(self._consumer.paused)

    def seek(self, partition: PartitionArgument, offset: Natural) -> None:
        self._run(self._consumer.seek, partition, offset)

    def seek_to_beginning(self, *partitions: PartitionArgument) -> None:
        self._run(self._consumer.seek_to_beginning, *partitions)

    def seek_to_end(self, *partitions: PartitionArgument) -> None:
        self._run(self._consumer.seek_to_end, *partitions)

    def seek_to_time(self, timestamp_ms: Timestamp, *partitions: PartitionArgument) -> None:
        self._wait(self._consumer.seek_to_time, timestamp_ms, *partitions)

    def position(self, partition: PartitionArgument) -> int:
        return self._wait(self._consumer.position, partition)

    def positions(self) -> dict[TopicPartition, int]:
        return self._run(self._consumer.positions)

    def group_metadata(self) -> GroupMetadata:
        return self._run(self._consumer.group_metadata)

    def committed(self, *partitions: PartitionArgument) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._wait(self._consumer.committed, *partitions)

    @property
    def settled(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._run(lambda: self._consumer.settled)

    def commit(
        self, offsets: ConsumerRecord | Mapping[TopicPartition, Natural | OffsetAndMetadata] | None = None
    ) -> None:
        if offsets is None:
            self._wait(self._consumer.commit)
        else:
            super()._wait(self._consumer.commit, offsets)  # needs no position: the iteration goes on undisturbed

    def beginning_offsets(self, partitions: Iterable[PartitionArgument]) -> dict[TopicPartition, int]:
        return self._wait(self._consumer.beginning_offsets, partitions)

    def end_offsets(self, partitions: Iterable[PartitionArgument]) -> dict[TopicPartition, int]:
        return self._wait(self._consumer.end_offsets, partitions)

    def offsets_for_times(
        self, times: Mapping[TopicPartition, Timestamp]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._wait(self._consumer.offsets_for_times, times)

    def lag(self, partition: PartitionArgument) -> int | None:
        return self._run(self._consumer.lag, partition)

    def at_end(self) -> bool:
        return self._run(self._consumer.at_end)

    def poll(self, timeout_ms: TimeoutMs = 0, max_records: Positive | None = None) -> list[ConsumerRecord]:
        mine = _Reading(threading.get_ident())
        try:
            self._begin_reading(mine)
            self._wait(self._take, timeout_ms, max_records, at_once=True)
        finally:
            self._readers.pop(mine, None)
        taken: deque[Any] = self._taken
        nothing = deque[ConsumerRecord | _Intercepted]()
        records = [one for each in taken for one in each.records] if self._interceptors else list(taken)
        if self._taken is not taken:  # A call of another thread has taken them back: they come again.
            return []
        self._taken = nothing
        return records

    def __exit__(self, *exception: Any) -> bool | None:
        if not self._is_open:
            return super().__exit__(*exception)
        try:
            super()._run(self._return_taken)
            if self._has_listener:  # the thread that waits for the end of the block makes no calls
                super()._wait(self._consumer._stop, exception[1])
        except BaseException as failure:
            if type(failure) is exception[0] and not isinstance(failure, Exception):  # the second Ctrl-C
                self._abandon()
            else:
                super().__exit__(type(failure), failure, failure.__traceback__)
            raise
        return super().__exit__(*exception)

    async def _finish(self, left_by: Exception) -> None:
        self._return_taken()
        if self._has_listener:
            await self._consumer._stop(left_by)

    def _wait(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        return super()._wait(self._after_returning, partial(function, *args, **kwargs))

    def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return super()._run(self._after_returning, partial(function, *args, **kwargs))

    def _after_returning(self, function: Callable[[], T]) -> T:
        """Call a function in the loop after returning taken records; interrupted calls, which take some, end before."""
        self._return_taken()
        return function()

    def _note_yielded(self) -> object:
        """Mark the records before the one that was yielded last as processed; return what names that one. In the loop.

        If the thread goes on meanwhile, this is left to the next call: the record may then be any of those taken.
        """
        last, ahead = self._yielded, list(self._taken)
        if last is None or last is not self._yielded:
            return None
        first = {(one.topic, one.partition): one.offset for one in (*reversed(ahead), last)}
        for tp, state in self._consumer._fetcher.states.items():
            if state.position is not None:
                state.processed = max(state.processed or 0, min(first.get(tp, state.position), state.position))
        return last.topic, last.partition, last.offset

    def _return_taken(self) -> None:
        """Seek back to the first record of each partition that was taken but not yielded, also in a batch; in the loop.

        The record that was yielded last may still be in process, and does not count as processed.
        """
        if not self._taken and self._yielded is None and self._batch is None:
            return
        taken, self._taken = self._taken, deque()
        last, self._yielded = self._yielded, None
        fetcher = self._consumer._fetcher
        if self._batch is not None:
            self._batch = None
            for tp, state in fetcher.states.items():
                if state.processed is not None and state.processed != state.position:
                    self._consumer.seek(tp, state.processed)
        first = {TopicPartition(one.topic, one.partition): one for one in reversed(taken)}
        fetcher.put_back()
        settled = fetcher.positions(processed_only=True)
        for tp, record in first.items():
            if tp in fetcher.left:
                fetcher.note_left(tp, fetcher.left[tp]._replace(position=record.offset))
            elif tp in fetcher.states:
                self._consumer.seek(tp, record.offset)
        if last is not None:
            for tp, state in fetcher.states.items():
                if (last.topic, last.partition) == tp:
                    state.processed = max(last.offset, min(settled.get(tp, 0), last.offset + 1))
                elif tp not in first:
                    state.processed = state.position
