"""`Iterations`: the generators behind loops over a consumer: records, batches of records, Arrow record batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from minikafka.client.connections.seams import event_loop_clock
from minikafka.client.consumer.chunk import Chunk
from minikafka.client.consumer.fetch_state import Fetcher
from minikafka.client.consumer.interception import on_consume
from minikafka.client.extras import missing_extra
from minikafka.client.going_on import AsyncIteration, Block
from minikafka.client.interceptors import ConsumerInterceptor
from minikafka.client.records import ConsumerRecord, RecordBatch

if TYPE_CHECKING:
    import pyarrow as pa

_PORTION_S, _PORTION_MAX = 20e-6, 32
"""The longest portion of buffered records: in seconds, if records take as long as those before, and in records. The
clock is read after each portion, which costs as much as one or two records; so slowness is noticed only then."""


class Iterations:
    """The generators of one consumer.

    Args:
        mark_processed: marks the records that were returned before as processed.
        wait_for: waits until a function returns a value other than None; returns None at the end. It is a request for
            records, during which other tasks run.
        due_at: when buffered records must not delay the next request any longer, on the event loop's clock.
        wake: makes the background task fetch more records in place of those that were taken.

    Attributes:
        interceptors_of_polls: those that `poll` calls, unless the caller of `poll` does so itself.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        interceptors: Sequence[ConsumerInterceptor],
        mark_processed: Callable[[], None],
        wait_for: Callable[[Callable[[], Any]], Awaitable[Any]],
        due_at: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._fetcher = fetcher
        self._interceptors = self.interceptors_of_polls = interceptors
        self._mark_processed = mark_processed
        self._wait_for = wait_for
        self._due_at = due_at
        self._wake = wake

    def end(self) -> None:
        """Drop buffered records, and responses that still arrive: reference cycles would keep them. Positions stay."""
        self._fetcher.put_back()
        for state in self._fetcher.states.values():
            state.era += 1
        self._fetcher.assign(list(self._fetcher.states))

    async def records(self, block: Block) -> AsyncGenerator[ConsumerRecord, None]:
        fetcher, clock = self._fetcher, event_loop_clock()
        with block:
            self._mark_processed()
            while (chunk := await self._wait_for(fetcher.readable_chunk)) is not None:
                chunk.by_list = False
                for portion in self._portions(chunk, clock):
                    for taken, record in portion:
                        chunk.taken = taken
                        yield record
                        if chunk.taken != taken or fetcher.current is not chunk:  # as after a `poll` or `seek`
                            break

    def _portions(
        self, chunk: Chunk, clock: Callable[[], float]
    ) -> Iterator[Iterable[tuple[int, ConsumerRecord]]]:
        """The rest of the chunk's records with their numbers, until a request is due or something else was read.

        A portion has at most twice as many records as the one before it, and fewer if those took long.
        """
        start, count, now, due_at = chunk.taken, 1, clock(), self._due_at()
        while some := chunk.records[start : start + count]:
            yield enumerate(some, start + 1)
            start += len(some)
            before, now = now, clock()
            if now > due_at:
                due_at = self._due_at()  # A request by other means may have changed it.
            if now > due_at or chunk.taken != start or self._fetcher.current is not chunk:
                self._mark_processed()
                return
            if now - before > _PORTION_S:
                count = count // 2 or 1
            elif count < _PORTION_MAX:
                count *= 2

    async def intercepted(self, block: Block) -> AsyncGenerator[ConsumerRecord, None]:
        with block:
            records: AsyncIterator[ConsumerRecord] = AsyncIteration(self.records)
            async for record in records:
                for one in on_consume(self._interceptors, [record]):
                    yield one

    async def batches(self, block: Block) -> AsyncGenerator[RecordBatch, None]:
        with block:
            self._mark_processed()
            while (chunk := await self._wait_for(self._fetcher.readable_chunk)) is not None:
                topic, partition = chunk.state.tp
                records = on_consume(self._interceptors, self._fetcher.take(len(chunk.records)))
                self._wake()
                if records:
                    yield RecordBatch(topic, partition, records)
                    self._mark_processed()

    async def arrow_batches(self, columns: Sequence[str] | None, block: Block) -> AsyncGenerator[pa.RecordBatch, None]:
        with block:
            try:
                from minikafka.client.consumer.arrow_batches import checked_columns
            except ModuleNotFoundError as error:
                raise missing_extra(error, "arrow", "arrow_batches()") from error
            wanted = checked_columns(columns)
            self._mark_processed()
            while (batch := await self._wait_for(lambda: self._fetcher.take_arrow(wanted))) is not None:
                self._wake()
                yield batch
                self._mark_processed()
