"""The sparse indexes beside a segment: offset → position, and timestamp → offset.

Entries are fixed in size, big endian and sorted, offsets relative to the segment's base::

    .index       relative offset: int32   position: int32                 8 bytes
    .timeindex   timestamp: int64         relative offset: int32         12 bytes

An index entry says: the batch at this position ends with this offset. A time index entry says: up to and
including the batch that ends with this offset, no record is later than this timestamp. The index of the
segment that is written to is lengthened to `segment.index.bytes` at once (a sparse file, as Kafka does) and
trimmed when the segment is full.

Searches read a window of entries by `pread` and guess where it should lie; the last window is kept, so that
whoever reads on finds it there.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from minikafka.storage.disk import File

_WINDOW_ENTRIES = 256
_SCANNED_ENTRIES = 4096
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class OffsetPosition(NamedTuple):
    """The batch that ends with `offset` begins at byte `position`."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """No record up to the batch that ends with `offset` is later than `timestamp` (ms; -1: none has one)."""

    timestamp: int
    offset: int


class _Index:
    """What both indexes are: sorted entries in a file.

    Args:
        count: entries in use; what lies behind them in the file is room.
        capacity_bytes: `segment.index.bytes`.
    """

    __slots__ = ("_layout", "_window", "_window_slot", "base_offset", "capacity", "count", "file")

    def __init__(
        self, file: File, base_offset: int, *, count: int, capacity_bytes: int, layout: struct.Struct
    ) -> None:
        self.file = file
        self.base_offset = base_offset
        self.count = count
        self.capacity = capacity_bytes // layout.size
        self._layout = layout
        self._window = b""
        self._window_slot = 0

    def _append(self, entries: bytes) -> None:
        size = self._layout.size
        end = self.count * size + len(entries)
        if self.file.size_bytes < end:
            self.file.truncate(max(end, self.capacity * size))
        self.file.pwrite(self.count * size, entries)
        self.count += len(entries) // size

    def _raw(self, slot: int) -> tuple[int, int]:
        window = slot - self._window_slot
        if not 0 <= window * self._layout.size < len(self._window):
            self._load(slot)
            window = slot - self._window_slot
        number, other = self._layout.unpack_from(self._window, window * self._layout.size)
        return number, other

    def _load(self, slot: int) -> None:
        """Read the window around a slot."""
        first = max(0, min(slot - _WINDOW_ENTRIES // 2, self.count - _WINDOW_ENTRIES))
        last = min(self.count, first + _WINDOW_ENTRIES)
        size = self._layout.size
        self._window = self.file.pread(first * size, (last - first) * size)
        self._window_slot = first
        if len(self._window) != (last - first) * size:
            raise OSError(f"{self.file.path} has been cut behind our back")

    def _floor(self, key: int, column: int, last_key: int = 0) -> int:
        """The last slot whose column is not above `key`, -1 where all are.

        Offsets and positions grow nearly evenly: with the last entry's, one guess mostly saves reading the
        windows of a bisection.
        """
        low, high = self._bounds(key, column, 0, self.count)
        guess = key * self.count // last_key if last_key > 0 else -1
        while high - low > _WINDOW_ENTRIES:  # Invariant: the first slot above `key` is in low..high.
            self._load(guess if low <= guess < high else (low + high) // 2)
            guess = -1
            low, high = self._bounds(key, column, low, high)
        unpack, size, data = self._layout.unpack_from, self._layout.size, self._window
        if low < high and not self._window_slot <= low <= high <= self._window_slot + len(data) // size:
            self._load((low + high) // 2)
            data = self._window
        first = self._window_slot
        while low < high:
            middle = (low + high) // 2
            if unpack(data, (middle - first) * size)[column] > key:
                high = middle
            else:
                low = middle + 1
        return low - 1

    def _bounds(self, key: int, column: int, low: int, high: int) -> tuple[int, int]:
        """What the window at hand says of where the first slot above `key` can be."""
        first = self._window_slot
        last = first + len(self._window) // self._layout.size - 1
        if last < first:
            return low, high
        if self._raw(first)[column] > key:
            return low, min(high, first)
        if self._raw(last)[column] <= key:
            return max(low, last + 1), high
        return max(low, first + 1), min(high, last)

    def _every_slot(self) -> Iterator[tuple[int, int]]:
        """All whole slots of the file, used or not, a piece at a time: megabytes of room may lie behind the entries."""
        size = self.file.size_bytes
        end, position = size - size % self._layout.size, 0
        while position < end:
            piece = self.file.pread(position, min(_SCANNED_ENTRIES * self._layout.size, end - position))
            yield from self._layout.iter_unpack(piece)
            position += len(piece)

    def truncate_to_count(self, count: int) -> None:
        """Keep the first `count` entries."""
        self.count = count
        self._window = b""

    def trim(self) -> None:
        """Give back the room behind the entries. Raises OSError."""
        if self.file.size_bytes != self.count * self._layout.size:
            self.file.truncate(self.count * self._layout.size)

    def reserve(self) -> None:
        """Lengthen the file to its full size, without writing. Raises OSError."""
        if self.file.size_bytes < self.capacity * self._layout.size:
            self.file.truncate(self.capacity * self._layout.size)

    def clear(self) -> None:
        """Drop all entries and zero the file. Raises OSError."""
        self.truncate_to_count(0)
        if self.file.size_bytes:
            self.file.truncate(0)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """All entries as they are in the file (offsets relative); for tools and tests."""
        data = self.file.pread(0, self.count * self._layout.size)
        return [self._layout.unpack_from(data, at) for at in range(0, len(data), self._layout.size)]


class OffsetIndex(_Index):
    """`.index` of one segment."""

    __slots__ = ("last",)

    def __init__(self, file: File, base_offset: int, *, count: int, capacity_bytes: int) -> None:
        super().__init__(
            file, base_offset, count=count, capacity_bytes=capacity_bytes, layout=_OFFSET_ENTRY
        )
        self.last = self.entry(count - 1)

    @property
    def room(self) -> int:
        """Entries that may still be made."""
        return self.capacity - self.count

    def entry(self, slot: int) -> OffsetPosition:
        """The entry in a slot; for slot -1 the segment's beginning."""
        if slot < 0:
            return OffsetPosition(self.base_offset, 0)
        relative, position = self._raw(slot)
        return OffsetPosition(self.base_offset + relative, position)

    def append(self, entries: list[tuple[int, int]]) -> None:
        """Add (offset, position) entries, both growing. Raises OSError."""
        base = self.base_offset
        if entries:
            packed = [_OFFSET_ENTRY.pack(offset - base, position) for offset, position in entries]
            self._append(b"".join(packed))
            self.last = OffsetPosition(*entries[-1])

    def lookup(self, offset: int) -> OffsetPosition:
        """The entry with the greatest offset that is not above this one, or the segment's beginning."""
        return self.entry(self.slot_of(offset))

    def slot_of(self, offset: int) -> int:
        """The slot of `lookup`, -1 for the segment's beginning."""
        return self._floor(offset - self.base_offset, 0, self.last.offset - self.base_offset)

    def first_at_position(self, position: int) -> OffsetPosition | None:
        """The first entry at this position or behind it."""
        slot = self._floor(position - 1, 1, self.last.position) + 1
        return self.entry(slot) if slot < self.count else None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of `offset` and later ones."""
        self.truncate_to_count(self._floor(offset - self.base_offset - 1, 0) + 1)

    def truncate_to_count(self, count: int) -> None:
        super().truncate_to_count(count)
        self.last = self.entry(count - 1)

    def trusted_count(self, recovery_point: int) -> int:
        """How many entries lie before the recovery point, in a file that a crash may have left with room
        (zeros) or torn entries behind them."""
        count, last = 0, (-1, 0)
        for entry in self._every_slot():
            if not (entry[0] > last[0] and entry[1] > last[1] and entry[0] < recovery_point - self.base_offset):
                break
            count, last = count + 1, entry
        return count


class TimeIndex(_Index):
    """`.timeindex` of one segment."""

    __slots__ = ("last",)

    def __init__(self, file: File, base_offset: int, *, count: int, capacity_bytes: int) -> None:
        super().__init__(file, base_offset, count=count, capacity_bytes=capacity_bytes, layout=_TIME_ENTRY)
        self.last = self.entry(count - 1)

    @property
    def room(self) -> int:
        """Entries that may still be made; one slot is kept for the last, when the segment is rolled."""
        return self.capacity - 1 - self.count

    def entry(self, slot: int) -> TimestampOffset:
        """The entry in a slot; for slot -1 no timestamp at the segment's beginning."""
        if slot < 0:
            return TimestampOffset(-1, self.base_offset)
        timestamp, relative = self._raw(slot)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def append(self, entries: list[tuple[int, int]]) -> None:
        """Add those (timestamp, offset) entries that are later than the ones before. Raises OSError."""
        packed: list[bytes] = []
        for timestamp, offset in entries:
            if timestamp > self.last.timestamp:
                packed.append(_TIME_ENTRY.pack(timestamp, offset - self.base_offset))
                self.last = TimestampOffset(timestamp, offset)
        if packed:
            self._append(b"".join(packed))

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The entry with the greatest timestamp that is not above this one, or `entry(-1)`."""
        return self.entry(self._floor(timestamp, 0))

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of `offset` and later ones."""
        self.truncate_to_count(self._floor(offset - self.base_offset - 1, 1) + 1)

    def truncate_to_count(self, count: int) -> None:
        super().truncate_to_count(count)
        self.last = self.entry(count - 1)

    def trusted_count(self, last_offset: int) -> int:
        """How many entries speak of offsets up to `last_offset`; see `OffsetIndex.trusted_count`."""
        count, last = 0, (-1, -1)
        for entry in self._every_slot():
            if not (entry[0] > last[0] and entry[1] > last[1] and entry[1] <= last_offset - self.base_offset):
                break
            count, last = count + 1, entry
        return count


def last_entry(file: File, base_offset: int) -> TimestampOffset | None:
    """The last entry of a trimmed time index; None where it has none, or none that can be right."""
    size = file.size_bytes
    if size == 0 or size % _TIME_ENTRY.size:
        return None
    timestamp, relative = _TIME_ENTRY.unpack(file.pread(size - _TIME_ENTRY.size, _TIME_ENTRY.size))
    return TimestampOffset(timestamp, base_offset + relative) if timestamp > 0 and relative >= 0 else None
