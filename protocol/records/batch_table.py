"""`BatchTable` reads the batches of a fetch response with numpy: headers as columns, and the positions of records.

Creating a `Batch` takes microseconds, which is significant if the batch has only one record. Here only the length and
the checksum are read batch by batch; everything else is done for all batches at once.

Records can only be located one after the other, as the length of each determines where the next begins. There are five
methods. Batches of the same size often have their records at the same places. Records of the same size are at a
constant stride. Records without headers begin and end with bytes that are 0. The first records of many small batches
are located together, then their second records, and so on. The remaining records are located in a plain loop.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from crc32c import crc32c

from minikafka.protocol.records.batch import (
    CONTROL,
    HEADER_SIZE,
    LENGTH_MIN,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    Batch,
    parse_header,
)
from minikafka.protocol.records.compression import Buffer, decompress, too_much
from minikafka.protocol.records.numpy_varints import Array, read_short_varints, read_varints
from minikafka.protocol.records.record import RECORD_SIZE_MIN, CorruptRecords, record_starts

_HEADER = np.dtype([
    ("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4"),
    ("attributes", ">i2"), ("last_offset_delta", ">i4"), ("base_timestamp", ">i8"), ("max_timestamp", ">i8"),
    ("producer_id", ">i8"), ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("record_count", ">i4"),
])  # fmt: skip
_LENGTH_TO_MAGIC = struct.Struct(">iib")
_CODEC = 0x07
_ALIKE_MIN = 8
"""The number of batches of the same size from which `locate_alike` is faster than the other methods."""
_ALIKE_COUNT_MIN, _ALIKE_COUNT_MAX = 16, 512
_STRIDE_COUNT_MIN = 64
_STRIDE_RUN_MIN = 16
_ZEROS_COUNT_MIN = 512
"""Below this number of records, the plain loop is faster than `locate_by_zeros`."""
_ZEROS_ROUNDS = 4
_PARALLEL_MIN = 24
"""Below this number of batches, a step of numpy costs more than the plain loop."""


class BatchTable:
    """Batches in one buffer, in order; each row corresponds to a `Batch`.

    Attributes:
        data: the buffer.
        starts, ends: the positions of the batches in `data`, int64.
        heads: the headers, a structured array with the field names of `Batch`.
    """

    __slots__ = ("data", "ends", "heads", "starts")

    def __init__(self, data: Buffer, starts: Array, ends: Array, heads: Array) -> None:
        self.data = data
        self.starts = starts
        self.ends = ends
        self.heads = heads

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: slice | Array) -> BatchTable:
        """A subset of the batches: a slice, or selected by an array of bool or of row numbers."""
        return BatchTable(self.data, self.starts[rows], self.ends[rows], self.heads[rows])

    def batch(self, row: int) -> Batch:
        """A row as a `Batch`."""
        return parse_header(self.data, int(self.starts[row]))

    def column(self, name: str) -> Array:
        """A field of all headers, as int64."""
        return self.heads[name].astype(np.int64)

    @property
    def counts(self) -> Array:
        return self.column("record_count")

    @property
    def base_offsets(self) -> Array:
        return self.column("base_offset")

    @property
    def last_offsets(self) -> Array:
        return self.base_offsets + self.column("last_offset_delta")

    @property
    def sizes_bytes(self) -> Array:
        return self.ends - self.starts

    @property
    def timestamp_types(self) -> Array:
        """The timestamp type of each batch: 0 for CreateTime, 1 for LogAppendTime."""
        return (self.heads["attributes"] & LOG_APPEND_TIME) >> 3

    @property
    def is_compressed(self) -> Array:
        return (self.heads["attributes"] & _CODEC) != 0

    @property
    def is_control(self) -> Array:
        return (self.heads["attributes"] & CONTROL) != 0

    @property
    def is_transactional(self) -> Array:
        return (self.heads["attributes"] & TRANSACTIONAL) != 0

    def check_crcs(self) -> None:
        """Raise CorruptRecords if a checksum does not match."""
        view, crcs = memoryview(self.data), self.heads["crc"].tolist()
        bounds = zip((self.starts + 21).tolist(), self.ends.tolist(), strict=True)
        for row, (start, end) in enumerate(bounds):
            if crc32c(view[start:end]) != crcs[row]:
                self.batch(row).check_crc()


def read_table(data: Buffer) -> BatchTable:
    """Make a table of every complete batch of `data`; a truncated batch at the end is ignored.

    Raises CorruptRecords and UnsupportedMagic as `batch.batches` does.
    """
    size, position, starts = len(data), 0, []
    view, unpack = memoryview(data), _LENGTH_TO_MAGIC.unpack_from
    while size - position >= HEADER_SIZE:
        length, _, magic = unpack(view, position + 8)
        if length > size - position - 12:
            break
        if length < LENGTH_MIN or magic != MAGIC:
            parse_header(view, position)  # raises
        starts.append(position)
        position += 12 + length
    if not starts:
        no_positions = np.empty(0, np.int64)
        return BatchTable(data, no_positions, no_positions, np.empty(0, _HEADER))
    heads = np.ndarray((size - HEADER_SIZE + 1,), _HEADER, view, strides=(1,))[starts]
    begun = np.array(starts, np.int64)
    return BatchTable(data, begun, begun + 12 + heads["length"], heads)


def table_of(batches: Sequence[Batch]) -> BatchTable:
    """Make a table of batches from any buffers, which are copied into one buffer."""
    return read_table(b"".join([batch.data for batch in batches]))


class Sections(NamedTuple):
    """The decompressed records of batches. The records of batch i are `data[starts[i]:ends[i]]`; their number is
    `counts[i]`."""

    data: Buffer
    starts: Array
    ends: Array
    counts: Array


def decompress_all(table: BatchTable, max_size_bytes: int) -> Sections:
    """Decompress the records of a table; uncompressed tables are not copied.

    Raises CorruptRecords for invalid or unknown compression and impossible counts, TooMuchContent if any batch is
    compressed and the records exceed `max_size_bytes` together.
    """
    sections = Sections(table.data, table.starts + HEADER_SIZE, table.ends, table.counts)
    if table.is_compressed.any():
        parts: list[Buffer] = []
        left = max_size_bytes
        for batch in map(table.batch, range(len(table))):
            parts.append(decompress(batch.codec, batch.payload, left))
            left -= len(parts[-1])
            if left < 0:
                raise too_much(max_size_bytes)
        ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
        sections = Sections(b"".join(parts), np.append(0, ends[:-1]), ends, sections.counts)
    impossible = (sections.counts < 0) | (sections.counts > (sections.ends - sections.starts) // RECORD_SIZE_MIN)
    if impossible.any():
        row = int(impossible.argmax())
        size = sections.ends[row] - sections.starts[row]
        raise CorruptRecords(f"batch claims {sections.counts[row]} records in {size} bytes")
    return sections


def record_bounds(sections: Sections) -> tuple[Array, Array]:
    """The start of each record, at its length, and its end. Raises CorruptRecords if they do not fill their batch."""
    locator = _RecordLocator(sections)
    locator.locate_alike()
    locator.locate_strides()
    locator.locate_by_zeros()
    locator.locate_in_parallel()
    locator.locate_in_loop()
    return locator.starts, locator.ends()


class _RecordLocator:
    """Locates the records of each batch.

    Attributes:
        starts: the starts of all records; the records of batch i begin at index `firsts[i]`.
    """

    def __init__(self, sections: Sections) -> None:
        self._buffer = np.frombuffer(sections.data or b"\0", np.uint8)
        self._sections = sections
        self._counts = sections.counts
        self._firsts = np.cumsum(self._counts) - self._counts
        self._found = np.zeros_like(self._counts)
        self._position = sections.starts.copy()
        self.starts = np.empty(int(self._counts.sum()), np.int64)

    def locate_alike(self) -> None:
        """Locate the records of batches whose records are at the same places as in the first batch of the same size.

        This is tried for the most frequent size. The length of each record must lead to the next record.
        """
        rows = np.flatnonzero((self._counts >= _ALIKE_COUNT_MIN) & (self._counts <= _ALIKE_COUNT_MAX))
        if len(rows) < _ALIKE_MIN:
            return
        sizes = (self._sections.ends - self._sections.starts)[rows]
        kinds, counts = np.unique(sizes << 32 | self._counts[rows], return_counts=True)
        if counts.max() < _ALIKE_MIN:
            return
        rows = rows[(sizes << 32 | self._counts[rows]) == kinds[counts.argmax()]]
        count = int(self._counts[rows[0]])
        begun, end = int(self._sections.starts[rows[0]]), int(self._sections.ends[rows[0]])
        relative = np.array(_record_starts(bytes(memoryview(self._sections.data)[begun:end]), count), np.int64)
        places = self._sections.starts[rows][:, None] + relative
        lengths, after = read_varints(self._buffer, places.ravel())
        nexts = np.append(relative[1:], end - begun) - relative
        alike = ((after + lengths).reshape(places.shape) == places + nexts).all(axis=1)
        rows, places = rows[alike], places[alike]
        self.starts[(self._firsts[rows][:, None] + np.arange(count)).ravel()] = places.ravel()
        self._position[rows], self._found[rows] = self._sections.ends[rows], count

    def locate_strides(self) -> None:
        """Locate the records of large batches with records of the same size."""
        self._locate_each(_stride_starts, _STRIDE_COUNT_MIN)

    def locate_by_zeros(self) -> None:
        """Locate the records of large batches with records of any size and without headers."""
        self._locate_each(_starts_by_zeros, _ZEROS_COUNT_MIN)

    def _locate_each(self, method: Callable[[Array, int, int, int], Array | None], count_min: int) -> None:
        for row in np.flatnonzero((self._counts >= count_min) & (self._found == 0)).tolist():
            end, count = int(self._sections.ends[row]), int(self._counts[row])
            places = method(self._buffer, int(self._position[row]), end, count)
            if places is not None:
                first = int(self._firsts[row])
                self.starts[first : first + count] = places
                self._position[row], self._found[row] = end, count

    def locate_in_parallel(self) -> None:
        """Locate the first records of all batches, then the second records, as long as many batches have more."""
        rows = np.flatnonzero((self._found == 0) & (self._counts > 0))
        number = 0
        while len(rows) >= _PARALLEL_MIN:
            position = self._position[rows]
            self.starts[self._firsts[rows] + number] = position
            lengths, position = read_varints(self._buffer, position)
            position += lengths
            if lengths.min() < 0 or (position > self._sections.ends[rows]).any():
                raise CorruptRecords("record extends past the end of its batch, or its length is negative")
            self._position[rows] = position
            number += 1
            self._found[rows] = number
            rows = rows[self._counts[rows] > number]

    def locate_in_loop(self) -> None:
        """Locate the remaining records in a plain loop."""
        for row in np.flatnonzero(self._found < self._counts).tolist():
            begun, count = int(self._position[row]), int(self._counts[row] - self._found[row])
            end = int(self._sections.ends[row])
            places = _record_starts(bytes(memoryview(self._sections.data)[begun:end]), count)
            first = int(self._firsts[row] + self._found[row])
            self.starts[first : first + count] = places
            self.starts[first : first + count] += begun
            self._position[row] = end

    def ends(self) -> Array:
        """The end of each record: the start of the next one, or the end of the batch."""
        if not np.array_equal(self._position, self._sections.ends):
            raise CorruptRecords("the records do not fill their batch")
        ends = np.empty_like(self.starts)
        ends[:-1] = self.starts[1:]
        full = self._counts > 0
        ends[(self._firsts + self._counts - 1)[full]] = self._sections.ends[full]
        return ends


def locate_large(buffer: Array, count: int) -> tuple[Array, Array] | None:
    """Locate many records without headers that fill `buffer`, as fast as possible. Returns the position after the
    length of each record, and its end; None if there are few records, or these methods do not locate them."""
    if count < _ZEROS_COUNT_MIN:
        return None
    starts = _stride_starts(buffer, 0, len(buffer), count)
    if starts is not None:
        _, bodies, _ = read_short_varints(buffer, starts)
    else:
        found = _located_by_zeros(buffer, 0, len(buffer), count)
        if found is None:
            return None
        starts, bodies = found
    return bodies, np.append(starts[1:], len(buffer))


def _stride_starts(buffer: Array, position: int, end: int, count: int) -> Array | None:
    """The starts of records that come in runs of the same size; None if the runs are short.

    The length of each record is compared at the position that it has if all records before it have the same size.
    """
    runs: list[Array] = []
    while count and end - position > 2:
        first, second = int(buffer[position]), int(buffer[position + 1])
        if second >= 0x80 <= first or (first & 1):
            return None
        stride = (first >> 1) + 1 if first < 0x80 else ((first & 0x7F | second << 7) >> 1) + 2
        most = min(count, (end - position) // stride)
        if not most:
            return None
        probed = position + stride * min(_STRIDE_RUN_MIN, most) - stride
        if probed + 1 >= end or buffer[probed] != first:
            return None
        places = position + stride * np.arange(most, dtype=np.int64)
        alike = buffer[places] == first
        if first >= 0x80:
            alike &= buffer[places + 1] == second
        length = len(places) if alike.all() else int(alike.argmin())
        if length < min(_STRIDE_RUN_MIN, count):
            return None
        runs.append(places[:length])
        position, count = position + stride * length, count - length
    return np.concatenate(runs) if not count and position == end and runs else None


def _starts_by_zeros(buffer: Array, position: int, end: int, count: int) -> Array | None:
    """The starts of records without headers; None if this method does not find them."""
    found = _located_by_zeros(buffer, position, end, count)
    return None if found is None else found[0]


def _located_by_zeros(buffer: Array, position: int, end: int, count: int) -> tuple[Array, Array] | None:
    """The starts of records without headers, and the positions after their lengths; None if they are not found.

    A record begins with its length and the attributes, which are 0, and ends with the number of headers, which is 0 as
    well. Other places look the same, so the length of each record must lead to the next record.
    """
    if buffer[end - 1]:
        return None
    data = buffer[position:end]
    is_zero = data == 0
    places = _sparse(is_zero[:-3] & (is_zero[2:-1] | is_zero[3:])) + 1  # lengths of one or two bytes
    if not count - 1 <= len(places) <= 2 * count:
        return None
    places = np.append(0, places)
    lengths, after, sizes = read_short_varints(data, places)
    nexts = after + lengths
    kept = (sizes > 0) & (lengths > 0) & (nexts <= len(data)) & (data.take(after, mode="clip") == 0)
    nexts *= kept
    for _ in range(_ZEROS_ROUNDS):
        led_to = np.zeros(len(data) + 1, np.bool_)
        led_to[nexts] = True
        led_to[0] = True
        kept &= led_to.take(places)
        found = np.flatnonzero(kept)
        places, after, nexts, kept = places[found], after[found], nexts[found], kept[found]
        if len(places) <= count:
            break
    if len(places) != count or not np.array_equal(np.append(places[1:], len(data)), nexts) or places[0]:
        return None
    return position + places, position + after


def _sparse(wanted: Array) -> Array:
    """The positions of the true elements of a bool array, like `np.flatnonzero`. It is faster if few elements are true,
    because it tests eight elements at a time first."""
    whole = len(wanted) // 8 * 8
    words = wanted[:whole].view(np.uint64)
    found = np.flatnonzero(words != 0)
    places = np.flatnonzero(words[found].view(np.bool_))
    places = (found[places >> 3] << 3) + (places & 7)
    return np.concatenate((places, whole + np.flatnonzero(wanted[whole:])))


def _record_starts(data: bytes, count: int) -> list[int]:
    """The starts of `count` records that fill `data`. Negative lengths are detected by the caller."""
    starts = record_starts(data, count)
    if len(starts) <= count or starts.pop() != len(data):
        raise CorruptRecords(f"the last {count} records do not fill their batch")
    return starts
