"""What a consumer has, wants and gets, partition by partition. Pure: fetch answers go in, chunks of records come out.

Each assigned partition is a `Reading`: where the user is (`position`), where the next fetch begins (`fetch_offset`,
ahead of it by what is buffered), and what the broker last said. Answers become `Chunk`s in order of arrival.
A seek or a new assignment raises the reading's `era`: chunks and answers of an older era are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from minikafka.client.consumer.consumer_record import ConsumerRecord
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import CorruptMessageError, KafkaError, error_for
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.column_codec import decode_columns
from minikafka.protocol.records.compression import MAX_SIZE_BYTES, TOGETHER_SIZE_BYTES, TooMuchContent
from minikafka.protocol.records.control import ControlType, control_type
from minikafka.protocol.records.record import CorruptRecords

if TYPE_CHECKING:
    from pyarrow import RecordBatch

T = TypeVar("T")
ANSWERS_AHEAD = 2
"""Answers for one partition that may be buffered: the one being read, and one ahead."""
CHUNK_SIZE_BYTES = 512 << 10
"""About what is decoded at once: as much as stays in a processor's cache meanwhile."""
_BUSY_WAIT_MS = 20
"""How long a fetch may wait at the broker while other partitions could not be asked for."""
READ_COMMITTED = "read_committed"


class Reading:
    """One assigned partition."""

    __slots__ = (
        "buffered", "era", "fetch_offset", "high_watermark", "in_flight", "last_stable_offset",
        "log_start_offset", "not_before", "paused", "position", "processed", "reset", "tp",
    )  # fmt: skip

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.position: int | None = None
        self.processed: int | None = None
        self.fetch_offset: int | None = None
        self.reset: str | None = None
        self.era = 0
        self.buffered = 0
        self.in_flight = False
        self.paused = False
        self.not_before = 0.0
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1

    def move(self, offset: int | None) -> None:
        """Read on from here; None: the place is still to be found."""
        self.era += 1
        self.position = self.processed = self.fetch_offset = offset
        self.buffered = 0
        self.reset = None


class Chunk:
    """Consecutive records of one partition, decoded when first looked at.

    Attributes:
        next_offset: where reading goes on behind the chunk, also over records that nobody gets to see.
        ends_answer: whether it is the last one of a fetch answer.
        taken: how many records were handed to the user.
    """

    __slots__ = ("_batches", "_options", "_records", "ends_answer", "era", "next_offset", "reading", "taken")

    def __init__(
        self,
        reading: Reading,
        some: list[Batch],
        next_offset: int,
        options: ConsumerOptions,
        *,
        ends_answer: bool = True,
    ) -> None:
        self.reading = reading
        self.ends_answer = ends_answer
        self.era = reading.era
        self.next_offset = next_offset
        self.taken = 0
        self._options = options
        self._batches = some
        self._records: list[ConsumerRecord] | None = None

    def halves(self) -> tuple[Chunk, Chunk]:
        """What is too much to be decoded at once; what was taken of it is before the reading's position."""
        middle = len(self._batches) // 2
        first, second = self._batches[:middle], self._batches[middle:]
        return (
            Chunk(self.reading, first, first[-1].next_offset, self._options, ends_answer=False),
            Chunk(self.reading, second, self.next_offset, self._options, ends_answer=self.ends_answer),
        )

    @property
    def is_stale(self) -> bool:
        return self.era != self.reading.era

    @property
    def records(self) -> list[ConsumerRecord]:
        """All of them, those before the position that was asked for left out.

        Raises CorruptMessageError, and TooMuchContent where `halves` can be decoded one after the other.
        """
        if self._records is None:
            self._records = self._materialize()
        return self._records

    def _materialize(self) -> list[ConsumerRecord]:
        tp, options = self.reading.tp, self._options
        columns = self._checked(lambda size: decode_columns(self._batches, max_size_bytes=size))
        keys, values = columns.keys(), columns.values()
        if options.key_deserializer is not None:
            keys = [None if one is None else options.key_deserializer(one) for one in keys]
        if options.value_deserializer is not None:
            values = [None if one is None else options.value_deserializer(one) for one in values]
        headers = repeat(()) if columns.headers is None else columns.headers
        types = repeat(0) if columns.timestamp_types is None else columns.timestamp_types
        rows = zip(
            repeat(tp.topic), repeat(tp.partition), columns.offsets, columns.timestamps, keys, values, headers,
            types, strict=False,
        )  # fmt: skip
        records = list(map(tuple.__new__, repeat(ConsumerRecord), rows))
        start = self.reading.position
        if start is not None and records and records[0].offset < start:
            return [record for record in records if record.offset >= start]
        return records

    def arrow(self, columns: Sequence[str]) -> RecordBatch:
        """What was not handed over of it, as columns of Arrow.

        Raises CorruptMessageError, TimestampOverflow, and TooMuchContent as `records`."""
        from minikafka.client.consumer.arrow_batches import records_from

        start = self._records[self.taken - 1].offset + 1 if self._records and self.taken else self.reading.position
        return self._checked(
            lambda size: records_from(self._batches, start or 0, *self.reading.tp, columns, max_size_bytes=size)
        )

    def _checked(self, decode: Callable[[int], T]) -> T:
        """Decode into so many bytes at most."""
        together = len(self._batches) > 1
        try:
            if self._options.check_crcs:
                for batch in self._batches:
                    batch.check_crc()
            return decode(TOGETHER_SIZE_BYTES if together else MAX_SIZE_BYTES)
        except CorruptRecords as error:
            if together and isinstance(error, TooMuchContent):
                raise
            raise CorruptMessageError(
                f"{self.reading.tp}: the records from offset {self.reading.position} on are damaged: {error};"
                f" seek to {self.next_offset} to go on behind them"
            ) from error

    @property
    def position(self) -> int:
        """Where the user is, having got `taken` records."""
        if self.taken >= len(self.records):
            return self.next_offset
        return self.records[self.taken - 1].offset + 1 if self.taken else self.records[0].offset

    @property
    def processed(self) -> int:
        """The same without the record that the user got last and may still be busy with."""
        return self.records[self.taken - 1].offset if self.taken else self.position


class Plan(NamedTuple):
    """A fetch on its way: the request and what was asked for, with the eras of that moment."""

    request: FetchRequest
    asked: dict[TopicPartition, tuple[Reading, int]]


class Problem(NamedTuple):
    """What an answer said about a partition instead of giving records."""

    reading: Reading
    error: KafkaError


class Fetcher:
    """The readings of a consumer and the chunks that have come for them.

    Attributes:
        current: the chunk that is being handed over, if it still may.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        self.readings: dict[TopicPartition, Reading] = {}
        self.chunks: deque[Chunk] = deque()
        self.current: Chunk | None = None
        self._options = options
        self._turn = 0

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these from now on; those that were read before go on where they are."""
        before, self.readings = self.readings, {}
        for tp in partitions:
            self.readings[tp] = before.pop(tp) if tp in before else Reading(tp)
        for gone in before.values():
            gone.move(None)
        self._drop_stale()

    def seek(self, tp: TopicPartition, offset: int | None, reset: str | None = None) -> None:
        """Go on from `offset`, or None: from where `reset` or the usual rules say. Raises KeyError."""
        reading = self.readings[tp]
        reading.move(offset)
        reading.reset = reset
        self._drop_stale()

    def _drop_stale(self) -> None:
        self.chunks = deque(chunk for chunk in self.chunks if not chunk.is_stale)
        if self.current is not None and self.current.is_stale:
            self.current = None

    def lost(self) -> list[Reading]:
        """Those whose place is still to be found."""
        return [one for one in self.readings.values() if one.fetch_offset is None]

    def pause(self, tp: TopicPartition) -> None:
        """Hand over nothing of this partition. Raises KeyError."""
        self.readings[tp].paused = True
        if self.current is not None and self.current.reading.tp == tp:
            self.readings[tp].position = self.current.position
            self.readings[tp].processed = self.current.processed
            self.chunks.appendleft(self.current)
            self.current = None

    def at_hand(self) -> Chunk | None:
        """The chunk to hand over from: it has records left. Raises CorruptMessageError."""
        while True:
            chunk = self.current = self.current or self._oldest()
            if chunk is None:
                return None
            try:
                records = chunk.records
            except TooMuchContent:
                self._halve(chunk)
                continue
            if chunk.taken < len(records):
                return chunk
            self.finish(chunk)
            chunk.reading.processed = chunk.reading.position

    def _halve(self, chunk: Chunk) -> None:
        """Go on with half of the current chunk."""
        if chunk.taken:
            chunk.reading.position = chunk.position
        first, second = chunk.halves()
        self.current = first
        self.chunks.appendleft(second)

    def _oldest(self) -> Chunk | None:
        """The oldest chunk of a partition that is not paused."""
        for index, chunk in enumerate(self.chunks):
            if not chunk.reading.paused:
                del self.chunks[index]
                return chunk
        return None

    def finish(self, chunk: Chunk) -> None:
        """All of a chunk was handed over."""
        self.current = None
        if not chunk.is_stale:
            chunk.reading.buffered -= chunk.ends_answer
            # What was taken before the chunk was halved may reach beyond this half.
            chunk.reading.position = max(chunk.reading.position or 0, chunk.next_offset)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Hand over up to so many records of one partition; none where none are at hand."""
        chunk = self.at_hand()
        if chunk is None:
            return []
        records = chunk.records[chunk.taken : chunk.taken + limit]
        chunk.taken += len(records)
        if chunk.taken >= len(chunk.records):
            self.finish(chunk)
        else:
            chunk.reading.position = chunk.position
        return records

    def take_arrow(self, columns: Sequence[str]) -> RecordBatch | None:
        """Hand over what is left of a chunk, as columns of Arrow. Raises CorruptMessageError, TimestampOverflow."""
        while (chunk := self.current or self._oldest()) is not None:
            self.current = chunk
            try:
                batch = chunk.arrow(columns)
            except TooMuchContent:
                self._halve(chunk)
                continue
            self.finish(chunk)
            if batch.num_rows:
                return batch
            chunk.reading.processed = chunk.reading.position
        return None

    def skip(self) -> None:
        """Give up the current chunk: its records cannot be read."""
        if self.current is not None:
            self.current.reading.move(self.current.reading.position)
            self._drop_stale()

    def settle(self) -> None:
        """Everything that was handed over is processed."""
        for reading in self.readings.values():
            reading.processed = reading.position

    def positions(self, *, processed_only: bool = False) -> dict[TopicPartition, int]:
        """Per partition, the offset behind what was handed over, or behind what was processed."""
        places: dict[TopicPartition, int] = {}
        for tp, reading in self.readings.items():
            place = reading.processed if processed_only else reading.position
            chunk = self.current
            if chunk is not None and chunk.reading is reading and chunk.taken:
                place = chunk.processed if processed_only else chunk.position
            if place is not None:
                places[tp] = place
        return places

    def plan(
        self, now: float, leader_of: Callable[[str, int], int], epoch_of: Callable[[str, int], int]
    ) -> dict[int, list[tuple[Reading, FetchPartition]]]:
        """What to ask each leader for now. Partitions take turns at being first, so that none starves."""
        asks: dict[int, list[tuple[Reading, FetchPartition]]] = {}
        readings = list(self.readings.values())
        self._turn += 1
        turn = self._turn % len(readings) if readings else 0
        for reading in readings[turn:] + readings[:turn]:
            if not self._is_wanted(reading, now):
                continue
            leader = leader_of(*reading.tp)
            if leader >= 0 and reading.fetch_offset is not None:
                partition = FetchPartition(
                    partition=reading.tp.partition,
                    current_leader_epoch=epoch_of(*reading.tp),
                    fetch_offset=reading.fetch_offset,
                    partition_max_bytes=self._options.max_partition_fetch_bytes,
                )
                asks.setdefault(leader, []).append((reading, partition))
        return asks

    @staticmethod
    def _is_wanted(reading: Reading, now: float) -> bool:
        return (
            reading.fetch_offset is not None
            and not reading.paused
            and not reading.in_flight
            and reading.buffered < ANSWERS_AHEAD
            and reading.not_before <= now
        )

    def request(
        self, asks: Sequence[tuple[Reading, FetchPartition]], topic_id: Callable[[str], bytes] | None
    ) -> Plan:
        """The request for one leader; `topic_id` for versions that name topics by id."""
        topics: dict[str, FetchTopic] = {}
        asked: dict[TopicPartition, tuple[Reading, int]] = {}
        for reading, partition in asks:
            name = reading.tp.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = (
                    FetchTopic(topic_id=topic_id(name), partitions=[])
                    if topic_id
                    else FetchTopic(topic=name, partitions=[])
                )
            topic.partitions.append(partition)
            reading.in_flight = True
            asked[reading.tp] = (reading, reading.era)
        full = any(one.buffered >= ANSWERS_AHEAD and not one.paused for one in self.readings.values())
        wait_ms = self._options.fetch_max_wait_ms
        request = FetchRequest(
            max_wait_ms=min(wait_ms, _BUSY_WAIT_MS) if full else wait_ms,
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=self._options.fetch_max_bytes,
            isolation_level=int(self._options.isolation_level == READ_COMMITTED),
            topics=list(topics.values()),
        )
        return Plan(request, asked)

    def landed(self, plan: Plan) -> None:
        """The request is over, answered or not."""
        for reading, _ in plan.asked.values():
            reading.in_flight = False

    def accept(self, plan: Plan, tp: TopicPartition, data: Any) -> Problem | None:
        """Take in what an answer says about one partition."""
        reading, era = plan.asked.get(tp, (None, 0))
        if reading is None or reading.era != era:
            return None
        if data.error_code:
            return Problem(reading, error_for(data.error_code, f"{tp}: {error_for(data.error_code)}"))
        reading.high_watermark = data.high_watermark
        reading.last_stable_offset = data.last_stable_offset
        reading.log_start_offset = data.log_start_offset
        if data.records is None or not len(data.records):
            return None
        try:
            whole = list(batches(data.records))
        except CorruptRecords as error:
            return Problem(reading, CorruptMessageError(f"{tp}: offset {reading.fetch_offset}: {error}"))
        return self._buffer(reading, whole, data.aborted_transactions)

    def _buffer(self, reading: Reading, whole: list[Batch], aborted: Any) -> Problem | None:
        start = reading.fetch_offset or 0
        whole = [batch for batch in whole if batch.last_offset >= start]
        if not whole:
            return None
        try:
            visible = list(self._visible(whole, aborted))
        except CorruptRecords as error:
            return Problem(reading, CorruptMessageError(f"{reading.tp}: offset {start}: {error}"))
        reading.fetch_offset = whole[-1].next_offset
        reading.buffered += 1
        for some in _portions(visible):
            last = some[-1] is visible[-1]
            next_offset = reading.fetch_offset if last else some[-1].next_offset
            self.chunks.append(Chunk(reading, some, next_offset, self._options, ends_answer=last))
        if not visible:
            self.chunks.append(Chunk(reading, [], reading.fetch_offset, self._options))
        return None

    def _visible(self, whole: list[Batch], aborted: Any) -> Iterator[Batch]:
        """Batches of records for the user: no control batches, nothing of transactions that were aborted.

        The broker names, ordered by first offset, the aborted transactions that overlap the answer; each ends with
        its abort marker (Kafka's `CompletedFetch`).
        """
        committed_only = self._options.isolation_level == READ_COMMITTED
        coming = deque(sorted(aborted or (), key=lambda one: one.first_offset)) if committed_only else deque()
        open_now: set[int] = set()
        for batch in whole:
            while coming and coming[0].first_offset <= batch.last_offset:
                open_now.add(coming.popleft().producer_id)
            if batch.is_control:
                if batch.producer_id in open_now and _is_abort(batch):
                    open_now.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in open_now):
                yield batch


def _portions(some: list[Batch]) -> Iterator[list[Batch]]:
    """Batches in portions of about CHUNK_SIZE_BYTES."""
    portion: list[Batch] = []
    size_bytes = 0
    for batch in some:
        portion.append(batch)
        size_bytes += batch.size_bytes
        if size_bytes >= CHUNK_SIZE_BYTES:
            yield portion
            portion, size_bytes = [], 0
    if portion:
        yield portion


def _is_abort(batch: Batch) -> bool:
    records = batch.records()
    return bool(records) and control_type(records[0].key) is ControlType.ABORT
