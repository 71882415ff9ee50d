"""`LargeBatch` cuts a batch of too many records into slices, so that it need not be decoded at once."""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.protocol.counted import counted
from minikafka.protocol.records.batch import Batch, Span, assemble_parts, parse_header, with_codec
from minikafka.protocol.records.compression import MAX_SIZE_BYTES, Codec, decompress
from minikafka.protocol.records.record import (
    RECORD_OVERHEAD_BYTES,
    RECORD_SIZE_MIN,
    CorruptRecords,
    Record,
    read_varint,
    record_starts,
)

SLICE_SIZE_BYTES = 1 << 20
"""No record of a slice begins after this position in the slice."""


def record_slices(batch: Batch, count_max: int) -> Iterator[list[Record]]:
    """The records of a batch, up to `count_max` at a time. Raises as `Batch.records`."""
    if batch.record_count <= count_max:
        yield batch.records()
        return
    large = LargeBatch(batch, MAX_SIZE_BYTES, count_max)
    while large.has_records:
        yield large.cut().records()


class LargeBatch:
    """The records of a batch that are still to be decoded. They are decompressed once, and located slice by slice.

    Args:
        batch: the batch. Its records are not checked before they are cut off.
        max_size_bytes: the largest size of all decompressed records.
        count_max: the most records of a slice.

    Raises CorruptRecords for invalid compression and an impossible count, TooMuchContent above `max_size_bytes`.
    """

    __slots__ = ("_batch", "_count", "_count_max", "_data", "_delta", "_position")

    def __init__(self, batch: Batch, max_size_bytes: int, count_max: int) -> None:
        self._batch, self._count_max = batch, count_max
        self._data = memoryview(decompress(batch.codec, batch.payload, max_size_bytes))
        self._count = batch.record_count
        self._position = 0
        self._delta = -1
        if not 0 <= self._count <= len(self._data) // RECORD_SIZE_MIN:
            raise CorruptRecords(f"batch claims {counted(self._count, 'record')} in {counted(len(self._data), 'byte')}")

    @property
    def has_records(self) -> bool:
        return self._count > 0 or self._position < len(self._data)

    def cut(self) -> Batch:
        """Cut off the next records, as a batch of their own without compression.

        Raises CorruptRecords, also for bytes behind the last record, and for an offset that does not increase.
        """
        try:
            count, last, end = self._scan()
            first_delta, last_delta = self._delta_at(self._position), self._delta_at(last)
        except IndexError:
            raise CorruptRecords(f"batch of {counted(self._batch.record_count, 'record')} ends within one") from None
        if not self._delta < first_delta <= last_delta <= self._batch.last_offset_delta:
            raise CorruptRecords("record offsets are not increasing, or lie outside their batch")
        body = self._data[self._position : end]
        self._count, self._position, self._delta = self._count - count, end, last_delta
        return self._with(body, count, last_delta)

    def _scan(self) -> tuple[int, int, int]:
        """The number of records of the next slice, the start of its last record, and the end of that record."""
        begun, left_bytes = self._position, len(self._data) - self._position
        starts = record_starts(bytes(self._data[begun : begun + SLICE_SIZE_BYTES]), min(self._count, self._count_max))
        count = len(starts) - 1
        if starts[-1] > left_bytes or (count == self._count) != (starts[-1] == left_bytes):
            raise CorruptRecords(f"{counted(self._batch.record_count, 'record')} do not fill their batch")
        return count, begun + starts[-2], begun + starts[-1]

    def _delta_at(self, position: int) -> int:
        """The offset delta of the record at `position`."""
        head = bytes(self._data[position : position + RECORD_OVERHEAD_BYTES])
        _, position = read_varint(head, 0)
        _, position = read_varint(head, position + 1, 10)
        return read_varint(head, position)[0]

    def _with(self, body: memoryview, count: int, last_delta: int) -> Batch:
        batch = self._batch
        header = batch.header._replace(attributes=with_codec(batch.attributes, Codec.NONE))
        span = Span(last_delta, batch.base_timestamp, batch.max_timestamp)
        return parse_header(b"".join(assemble_parts(body, count, header, span)))
