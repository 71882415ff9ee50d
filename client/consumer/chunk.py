"""`Chunk`: records of one partition from a fetch response, decoded when the first one is requested."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, repeat
from typing import TYPE_CHECKING, TypeVar

from minikafka.client.consumer.deserialization import RecordDeserializationError, deserialization_error, deserialized
from minikafka.client.consumer.partition_state import PartitionState
from minikafka.client.options import ConsumerOptions
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.errors import CorruptMessageError
from minikafka.protocol.records.batch import Batch
from minikafka.protocol.records.column_codec import decode_columns
from minikafka.protocol.records.compression import MAX_SIZE_BYTES, TOGETHER_SIZE_BYTES, TooMuchContent
from minikafka.protocol.records.large_batch import LargeBatch
from minikafka.protocol.records.record import CorruptRecords

if TYPE_CHECKING:
    from pyarrow import RecordBatch

T = TypeVar("T")
CHUNK_SIZE_BYTES = 512 << 10
"""The approximate size of the batches decoded at once, which should stay in a processor's cache."""
CHUNK_COUNT_MAX = 50_000
"""The maximum number of records decoded at once. Each takes some hundred bytes, however small it is on the wire."""
SLICE_COUNT_MAX = 20_000
"""The maximum number of records in one slice of a large batch."""


class Chunk:
    """Consecutive records of one partition, decoded on first access.

    Attributes:
        next_offset: the offset after the chunk, including records that are hidden from the user.
        ends_response: whether the chunk is the last one of a fetch response.
        size_bytes: the size of the batches that end in the chunk, as they were received.
        taken: the number of records returned to the user.
        by_list: whether the records were taken as a list; the application may still be processing all of them.
        failure: the error of the first record that cannot be deserialized, where `records` end; None if all can.
        corruption: why the chunk has no records, because its batch is damaged; else None.
    """

    __slots__ = (
        "_batches", "_large", "_options", "_records", "by_list", "corruption", "ends_response", "era", "failure",
        "next_offset", "size_bytes", "state", "taken",
    )  # fmt: skip

    def __init__(
        self,
        state: PartitionState,
        some: list[Batch],
        next_offset: int,
        options: ConsumerOptions,
        *,
        ends_response: bool = True,
        corruption: CorruptRecords | None = None,
        size_bytes: int | None = None,
        large: LargeBatch | None = None,
    ) -> None:
        self.state = state
        self.corruption = corruption
        self.ends_response = ends_response
        self.era = state.era
        self.next_offset = next_offset
        self.taken = 0
        self.by_list = False
        self._options = options
        self._batches = some
        self._large = large
        self.size_bytes = sum(batch.size_bytes for batch in some) if size_bytes is None else size_bytes
        self._records: list[ConsumerRecord] | None = None
        self.failure: RecordDeserializationError | None = None

    def split(self) -> tuple[Chunk, Chunk]:
        """Split a chunk that is too large to be decoded at once in two. Records already taken precede the position.

        Raises CorruptMessageError.
        """
        if len(self._batches) < 2:
            return self._checked(self._cut, may_split=False)
        middle = len(self._batches) // 2
        first, second = self._batches[:middle], self._batches[middle:]
        return (
            Chunk(self.state, first, first[-1].next_offset, self._options, ends_response=False),
            Chunk(self.state, second, self.next_offset, self._options, ends_response=self.ends_response),
        )

    def _cut(self) -> tuple[Chunk, Chunk]:
        """Cut the next slice off the only batch; return it and the rest. Slices before the position are dropped."""
        large = self._large or LargeBatch(self._batches[0], MAX_SIZE_BYTES, SLICE_COUNT_MAX)
        start = self.state.position or 0
        piece = large.cut()
        while piece.next_offset <= start and large.has_records:
            piece = large.cut()
        return (
            Chunk(self.state, [piece], piece.next_offset, self._options, ends_response=False, size_bytes=0),
            Chunk(
                self.state, [], self.next_offset, self._options, ends_response=self.ends_response,
                size_bytes=self.size_bytes, large=large,
            ),
        )  # fmt: skip

    @property
    def is_stale(self) -> bool:
        return self.era != self.state.era

    @property
    def records(self) -> list[ConsumerRecord]:
        """The records of the chunk from the partition's position on.

        Raises CorruptMessageError, and TooMuchContent if the chunk must be decoded in two parts (`split`).
        """
        if self._records is None:
            self._records = self._materialize()
        return self._records

    def _materialize(self) -> list[ConsumerRecord]:
        tp, start = self.state.tp, self.state.position
        columns = self._decoded(lambda size: decode_columns(self._batches, max_size_bytes=size))
        first = bisect_left(columns.offsets, start) if start is not None else 0
        options, known = self._options, columns.headers
        keys = deserialized(columns.keys(), first, options.key_deserializer, tp.topic, known)
        values = deserialized(columns.values(), first, options.value_deserializer, tp.topic, known)
        if keys.error is not None or values.error is not None:
            self.failure = deserialization_error(tp, columns, first, keys, values)
        headers = repeat(()) if columns.headers is None else islice(columns.headers, first, None)
        types = repeat(0) if columns.timestamp_types is None else islice(columns.timestamp_types, first, None)
        rows = zip(
            repeat(tp.topic), repeat(tp.partition), islice(columns.offsets, first, None),
            islice(columns.timestamps, first, None), keys.objects, values.objects, headers, types, strict=False,
        )  # fmt: skip
        return list(map(tuple.__new__, repeat(ConsumerRecord), rows))

    def arrow(self, columns: Sequence[str]) -> RecordBatch:
        """The records not yet taken, as an Arrow record batch.

        Raises CorruptMessageError, TimestampOverflow, and TooMuchContent as `records`.
        """
        from minikafka.client.consumer.arrow_batches import records_from

        start = self._records[self.taken - 1].offset + 1 if self._records and self.taken else self.state.position
        return self._decoded(
            lambda size: records_from(self._batches, start or 0, *self.state.tp, columns, max_size_bytes=size)
        )

    def _decoded(self, decode: Callable[[int], T]) -> T:
        """Call `decode` with the maximum decompressed size. Raises TooMuchContent and CorruptMessageError."""
        count = sum([batch.record_count for batch in self._batches])
        if self.corruption is None and (count > CHUNK_COUNT_MAX or (self._large and self._large.has_records)):
            raise TooMuchContent(f"more than {CHUNK_COUNT_MAX} records are not decoded at once")
        return self._checked(lambda: decode(TOGETHER_SIZE_BYTES), may_split=True)

    def _checked(self, decode: Callable[[], T], *, may_split: bool) -> T:
        """Call `decode`, and raise its CorruptRecords as CorruptMessageError.

        The error has no cause, because the cause's traceback would keep the content of the batches in memory.
        """
        why = str(self.corruption)
        try:
            if self.corruption is None:
                return decode()
        except CorruptRecords as error:
            if may_split and isinstance(error, TooMuchContent):
                raise
            why = str(error)
        raise CorruptMessageError(
            f"{self.state.tp}: corrupt records at offset {self.state.position}: {why};"
            f" seek to {self.next_offset} to skip them"
        )

    @property
    def position(self) -> int:
        """The user's position after `taken` records."""
        if self.taken >= len(self.records):
            return self.failure.offset if self.failure is not None else self.next_offset
        return self.records[self.taken - 1].offset + 1 if self.taken else self.records[0].offset

    @property
    def processed(self) -> int:
        """The position before the records that the application may still be processing: the last one, or a whole list.

        The result is never before an offset that was settled explicitly.
        """
        settled = self.state.processed
        if self.by_list and settled is not None:
            return settled
        return max(self.records[self.taken - 1].offset, settled or 0) if self.taken else self.position


def portions(some: list[Batch]) -> Iterator[list[Batch]]:
    """Group consecutive batches into portions of about CHUNK_SIZE_BYTES and at most CHUNK_COUNT_MAX records.

    A batch with more records is a portion by itself.
    """
    portion: list[Batch] = []
    size_bytes = count = 0
    for batch in some:
        if portion and count + batch.record_count > CHUNK_COUNT_MAX:
            yield portion
            portion, size_bytes, count = [], 0, 0
        portion.append(batch)
        size_bytes += batch.size_bytes
        count += batch.record_count
        if size_bytes >= CHUNK_SIZE_BYTES:
            yield portion
            portion, size_bytes, count = [], 0, 0
    if portion:
        yield portion
