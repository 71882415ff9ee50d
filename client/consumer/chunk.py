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
from minikafka.protocol.records.record import CorruptRecords

if TYPE_CHECKING:
    from pyarrow import RecordBatch

T = TypeVar("T")
CHUNK_SIZE_BYTES = 512 << 10
"""The approximate size of the batches decoded at once, which should stay in a processor's cache."""


class Chunk:
    """Consecutive records of one partition, decoded on first access.

    Attributes:
        next_offset: the offset after the chunk, including records that are hidden from the user.
        ends_response: whether it is the last chunk of a fetch response.
        taken: the number of records returned to the user.
        by_list: whether the records were taken as a list, all of which may still be being processed.
        failure: why the records end before the chunk does: the next one cannot be deserialized.
        corruption: why the chunk has no records: its batch is damaged.
    """

    __slots__ = (
        "_batches", "_options", "_records", "by_list", "corruption", "ends_response", "era", "failure", "next_offset",
        "state", "taken",
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
        self._records: list[ConsumerRecord] | None = None
        self.failure: RecordDeserializationError | None = None

    def split(self) -> tuple[Chunk, Chunk]:
        """Two chunks in place of one too large to be decoded at once; records already taken precede the position."""
        middle = len(self._batches) // 2
        first, second = self._batches[:middle], self._batches[middle:]
        return (
            Chunk(self.state, first, first[-1].next_offset, self._options, ends_response=False),
            Chunk(self.state, second, self.next_offset, self._options, ends_response=self.ends_response),
        )

    @property
    def size_bytes(self) -> int:
        """The size of the batches, as they were received."""
        return sum(batch.size_bytes for batch in self._batches)

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
        columns = self._checked(lambda size: decode_columns(self._batches, max_size_bytes=size))
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
        return self._checked(
            lambda size: records_from(self._batches, start or 0, *self.state.tp, columns, max_size_bytes=size)
        )

    def _checked(self, decode: Callable[[int], T]) -> T:
        """Call `decode` with the maximum decompressed size."""
        together = len(self._batches) > 1
        try:
            if self.corruption is not None:
                raise self.corruption
            return decode(TOGETHER_SIZE_BYTES if together else MAX_SIZE_BYTES)
        except CorruptRecords as error:
            if together and isinstance(error, TooMuchContent):
                raise
            raise CorruptMessageError(
                f"{self.state.tp}: corrupt records at offset {self.state.position}: {error};"
                f" seek to {self.next_offset} to skip them"
            ) from error

    @property
    def position(self) -> int:
        """The user's position after `taken` records."""
        if self.taken >= len(self.records):
            return self.failure.offset if self.failure is not None else self.next_offset
        return self.records[self.taken - 1].offset + 1 if self.taken else self.records[0].offset

    @property
    def processed(self) -> int:
        """The position before the records that may still be being processed: the last one, or those of a list.

        It is never before what was settled explicitly.
        """
        settled = self.state.processed
        if self.by_list and settled is not None:
            return settled
        return max(self.records[self.taken - 1].offset, settled or 0) if self.taken else self.position


def portions(some: list[Batch]) -> Iterator[list[Batch]]:
    """Consecutive batches in portions of about CHUNK_SIZE_BYTES."""
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
