"""The consumer: records of assigned partitions, fetched ahead in the background, read at the user's pace.

    async with Consumer("flights", group_id="delays", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            print(record.offset, record.key, record.value)

A record counts as processed when the next one is asked for; automatic commits take in processed records only.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, Unpack

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from minikafka.client.arguments import ConsumerArguments
from minikafka.client.connections.cluster_client import ClusterClient
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.background_fetch import FetchLoop
from minikafka.client.consumer.consumer_record import ConsumerRecord, RecordBatch
from minikafka.client.consumer.fetch_state import READ_COMMITTED, Chunk, Fetcher, Reading
from minikafka.client.consumer.subscription import Listener, Subscriptions
from minikafka.client.offset_queries import (
    EARLIEST,
    LATEST,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    committed_offsets,
    list_offsets,
)
from minikafka.client.options import BootstrapServers, ConsumerOptions, make
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_CLOSE_TIMEOUT_S = 5


class Consumer(ClusterClient):
    """Reads records.

    Args:
        topics: topics to subscribe to: shared among the group with `group_id`, all their partitions without.
        options: Kafka's consumer settings with underscores, see `ConsumerOptions`: bootstrap_servers, group_id,
            auto_offset_reset ("latest"; "earliest", "none"), enable_auto_commit, isolation_level, fetch_min_bytes,
            fetch_max_wait_ms, max_poll_records, session_timeout_ms, partition_assignment_strategy,
            key_deserializer, value_deserializer …
        seams: clock, randomness and network, for tests.

    Raises InvalidOption, and on entering NetworkError where no broker can be reached.

    Cancellation. Every wait can be cancelled; no record that was not handed over counts as read. Leaving the block
    normally commits (with enable_auto_commit) everything handed over, leaving it by an exception or cancelled
    only what was processed; either way the group is left at once.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: BootstrapServers | None = None,
        seams: Seams | None = None,
        **options: Unpack[ConsumerArguments],
    ) -> None:
        self._options = make(ConsumerOptions, options, "Consumer", bootstrap_servers)
        super().__init__(self._options, seams)
        self._fetcher = Fetcher(self._options)
        self._topics = topics
        self._failure: KafkaError | None = None
        self._busy_since = float("inf")
        self._loop: FetchLoop | None = None
        self._subscriptions: Subscriptions | None = None

    # What to read.

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read exactly these partitions, without a group's help; replaces what was read before.

        Reading starts at the group's committed offsets, if there are any, else where `auto_offset_reset` says.
        """
        self._open_subscriptions().assign([TopicPartition(*one) for one in partitions])

    async def subscribe(
        self, topics: Iterable[str] = (), *, pattern: str | None = None, listener: Listener | None = None
    ) -> None:
        """Read topics by name, or all whose whole name matches `pattern`, as the group shares them out.

        Without group_id this consumer reads all their partitions. `listener` hears what is assigned and revoked.

        Raises ValueError for an impossible pattern and TypeError for topics that are a single string.
        """
        if isinstance(topics, str):
            raise TypeError(f"subscribe({topics!r}): give a list of topics, [{topics!r}]")
        await self._open_subscriptions().subscribe(
            list(topics), re.compile(pattern) if pattern else None, listener
        )

    async def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        await self._open_subscriptions().unsubscribe()

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now."""
        return list(self._fetcher.readings)

    def pause(self, *partitions: TopicPartition) -> None:
        """Give out nothing of these (none named: of all) until `resume`; places and buffers are kept."""
        for tp in partitions or self.assignment():
            self._reading(tp)
            self._fetcher.pause(TopicPartition(*tp))

    def resume(self, *partitions: TopicPartition) -> None:
        """The opposite of `pause`."""
        for tp in partitions or self.assignment():
            self._reading(tp).paused = False
        self._open_loop().wake()

    def paused(self) -> list[TopicPartition]:
        """What is paused."""
        return [tp for tp, reading in self._fetcher.readings.items() if reading.paused]

    # Where to read.

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset. Raises ValueError where the partition is not assigned or the offset negative."""
        if offset < 0:
            raise ValueError(f"seek({partition}, {offset}): an offset is 0 or more")
        self._reading(partition)
        self._fetcher.seek(TopicPartition(*partition), offset)
        self._open_loop().wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the first offset of these (none named: of all)."""
        self._seek_to("earliest", partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on with what is written from now on."""
        self._seek_to("latest", partitions)

    async def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Go on from the first record at or after a time; from the end where there is none."""
        found = await self.offsets_for_times(dict.fromkeys(partitions or self.assignment(), timestamp_ms))
        for tp, place in found.items():
            if place is None:
                self._seek_to("latest", [tp])
            else:
                self.seek(tp, place.offset)

    async def position(self, partition: TopicPartition) -> int:
        """The offset behind the last record handed over; waits until it is known. Raises KafkaError."""
        reading = self._reading(partition)
        while reading.position is None:
            self._raise_failure()
            await self._open_loop().arrival()
        return self._fetcher.positions()[TopicPartition(*partition)]

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed for these (none named: the assigned ones). Raises KafkaError."""
        group_id = self._group_id("committed()")
        return await self.cluster.retry(
            lambda: committed_offsets(
                self.cluster, group_id, partitions or self.assignment(), require_stable=self._stable
            ),
            f"fetching the committed offsets of group {group_id!r}",
        )

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        """Commit for the group: `offsets`, the next ones to read; by default the positions of all partitions.

        Raises the KafkaError that says why not: RebalanceInProgressError, IllegalGenerationError and
        UnknownMemberIdError mean that others have the partitions now.
        """
        self._group_id("commit()")
        places = self._fetcher.positions() if offsets is None else offsets
        await self._open_subscriptions().commit(places)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record of each that this isolation_level lets through."""
        return await self._ends(partitions, LATEST)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (ms since 1970); None where there is none."""
        found = await self._list_offsets(times)
        return {tp: place if place.offset >= 0 else None for tp, place in found.items()}

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets the broker was ahead of the position at the last fetch; None before the first."""
        reading = self._reading(partition)
        end = reading.last_stable_offset if self._stable else reading.high_watermark
        if end < 0 or reading.position is None:
            return None
        return max(end - self._fetcher.positions()[TopicPartition(*partition)], 0)

    # The records.

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[ConsumerRecord]:
        fetcher = self._fetcher
        while True:
            chunk = await self._next_chunk()
            for taken, record in enumerate(islice(chunk.records, chunk.taken, None), chunk.taken + 1):
                chunk.taken = taken
                yield record
                if fetcher.current is not chunk:
                    break

    async def batches(self) -> AsyncIterator[RecordBatch]:
        """Records as they arrive, many of a partition at a time, processed when the next are asked for."""
        while True:
            chunk = await self._next_chunk()
            topic, partition = chunk.reading.tp
            records = self._fetcher.take(len(chunk.records))
            self._open_loop().wake()
            yield RecordBatch(topic, partition, records)
            self._settle()

    async def arrow_batches(self, columns: Sequence[str] | None = None) -> AsyncIterator[pa.RecordBatch]:
        """As `batches`, as columns of Arrow, for pandas, polars and the like: no object is made for any record.

        Args:
            columns: what to cut out, of key, value, topic, partition, offset, timestamp, timestampType and headers
                (see `minikafka.client.consumer.arrow_batches`); by default all. Deserializers are not applied.

        Raises ModuleNotFoundError without pyarrow and numpy, ValueError for other columns, KafkaError, and
        TimestampOverflow for a time that Arrow's microseconds have no room for.
        """
        from minikafka.client.consumer.arrow_batches import checked_columns

        wanted = checked_columns(columns)
        while True:
            batch = await self._next(lambda: self._fetcher.take_arrow(wanted))
            self._open_loop().wake()
            yield batch
            self._settle()

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """What is there, at most `max_records` (default: max_poll_records); waits up to `timeout_ms` for the first.

        The records of the last poll count as processed. Raises KafkaError.
        """
        limit = self._options.max_poll_records if max_records is None else max_records
        self._settle()
        records: list[ConsumerRecord] = []
        with anyio.move_on_after(timeout_ms / 1000):
            await self._next_chunk()
        self._busy_since = anyio.current_time()
        while len(records) < limit and (some := self._take(limit - len(records))):
            records += some
        if not records:
            self._raise_failure()
        self._open_loop().wake()
        return records

    def _take(self, limit: int) -> list[ConsumerRecord]:
        return self._fetcher.take(limit) if self._now(self._fetcher.at_hand) else []

    def _settle(self) -> None:
        """All that was handed over is processed."""
        self._fetcher.settle()

    async def _next_chunk(self) -> Chunk:
        """The chunk to read from, which has records left. Raises the KafkaError that came in place of it."""
        return await self._next(self._fetcher.at_hand)

    async def _next(self, look: Callable[[], T | None]) -> T:
        """What `look` finds, as soon as there is something. Raises the KafkaError that came in place of it."""
        self._busy_since = float("inf")
        self._open_loop().wake()
        await checkpoint()
        while (found := self._now(look)) is None:
            self._raise_failure()
            await self._open_loop().arrival()
        self._busy_since = anyio.current_time()
        return found

    def _now(self, look: Callable[[], T | None]) -> T | None:
        if self._failure is not None:
            return None
        try:
            return look()
        except KafkaError as error:
            self._fetcher.skip()
            self._failure = error
            return None

    # The inside.

    def _reading(self, tp: TopicPartition) -> Reading:
        reading = self._fetcher.readings.get(TopicPartition(*tp))
        if reading is None:
            assigned = ", ".join(map(str, self._fetcher.readings)) or "nothing"
            raise ValueError(f"partition {TopicPartition(*tp)} is not assigned to this consumer; {assigned} is")
        return reading

    def _seek_to(self, reset: str, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions or self.assignment():
            self._reading(tp)
            self._fetcher.seek(TopicPartition(*tp), None, reset)
        self._open_loop().wake()

    async def _ends(self, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        found = await self._list_offsets(dict.fromkeys((TopicPartition(*one) for one in partitions), which))
        return {tp: place.offset for tp, place in found.items()}

    async def _list_offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await self.cluster.retry(
            lambda: list_offsets(
                self.cluster,
                times,
                isolation_level=int(self._stable),
                timeout_ms=self._options.request_timeout_ms,
            ),
            "looking up offsets",
        )

    @property
    def _stable(self) -> bool:
        return self._options.isolation_level == READ_COMMITTED

    def _group_id(self, what: str) -> str:
        if self._options.group_id is None:
            raise ValueError(f"{what} needs a group: Consumer(group_id=…)")
        return self._options.group_id

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _fail(self, error: KafkaError) -> None:
        """Let the user's next call raise this."""
        self._failure = self._failure or error
        self._open_loop().arrived()

    def _is_slow(self) -> bool:
        """Whether nothing was asked for in max_poll_interval_ms."""
        return anyio.current_time() - self._busy_since > self._options.max_poll_interval_ms / 1000

    def _open_loop(self) -> FetchLoop:
        self.cluster  # noqa: B018 (raises the error that says what to do)
        assert self._loop is not None
        return self._loop

    def _open_subscriptions(self) -> Subscriptions:
        self.cluster  # noqa: B018 (raises the error that says what to do)
        assert self._subscriptions is not None
        return self._subscriptions

    async def _start(self, tasks: TaskGroup) -> None:
        self._loop = FetchLoop(self.cluster, self._fetcher, self._options, tasks, self._fail, self._seams)
        self._subscriptions = Subscriptions(
            self.cluster, self._fetcher, self._options, tasks, self._loop.wake, self._fail, self._is_slow, self._seams
        )
        self.cluster.on_update = self._subscriptions.updated
        tasks.start_soon(self._loop.run)
        if self._options.group_id is not None and self._options.enable_auto_commit:
            tasks.start_soon(self._subscriptions.commit_now_and_then)
        if self._topics:
            await self.subscribe(self._topics)

    async def _stop(self, *, clean: bool) -> None:
        if self._subscriptions is not None:
            with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True):
                await self._subscriptions.close(everything=clean)
