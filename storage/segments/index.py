"""The sparse offset and time indexes of a segment: offset to position, and timestamp to offset.

Entries have a fixed size, are big endian and sorted, with offsets relative to the base offset::

    .index       relative offset: int32   position: int32                 8 bytes
    .timeindex   timestamp: int64         relative offset: int32         12 bytes

An offset index entry means that the batch at this position ends with this offset. A time index entry means that no
record up to the end of the batch with this last offset has a larger timestamp. The indexes of the active segment are
preallocated to `segment.index.bytes` (sparse files, as in Kafka) and trimmed when the segment is rolled.

A search reads a window of entries by `pread` at an estimated position. The last window is cached for sequential reads.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from minikafka.storage.disks.disk import File

_WINDOW_ENTRIES = 256
_SCANNED_ENTRIES = 4096
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class OffsetPosition(NamedTuple):
    """The batch that ends with `offset` starts at byte `position`."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """The largest `timestamp` (ms; -1 without timestamps) of all records up to the batch that ends with `offset`."""

    timestamp: int
    offset: int


class _Index:
    """The base class of both indexes: sorted entries in a file.

    Args:
        count: the number of entries; the rest of the file is preallocated space.
        capacity_bytes: `segment.index.bytes`.
    """

    __slots__ = ("_layout", "_window", "_window_slot", "base_offset", "capacity", "count", "file")

    def __init__(self, file: File, base_offset: int, *, count: int, capacity_bytes: int, layout: struct.Struct) -> None:
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
        """Reads the window around a slot."""
        first = max(0, min(slot - _WINDOW_ENTRIES // 2, self.count - _WINDOW_ENTRIES))
        last = min(self.count, first + _WINDOW_ENTRIES)
        size = self._layout.size
        self._window = self.file.pread(first * size, (last - first) * size)
        self._window_slot = first
        if len(self._window) != (last - first) * size:
            raise OSError(f"{self.file.path} was truncated by another process")

    def _floor(self, key: int, column: int, last_key: int = 0) -> int:
        """Returns the last slot whose column is at most `key`, or -1 if there is no such slot.

        Offsets and positions increase almost linearly. So an estimate from the last entry usually finds the window at
        once, whereas a binary search would read several windows.
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
        """Narrows the range low..high, in which the first slot above `key` is, by means of the cached window."""
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
        """Yields all whole slots of the file, used or not. Reads chunks, since the preallocated space may be large."""
        size = self.file.size_bytes
        end, position = size - size % self._layout.size, 0
        while position < end:
            piece = self.file.pread(position, min(_SCANNED_ENTRIES * self._layout.size, end - position))
            yield from self._layout.iter_unpack(piece)
            position += len(piece)

    def truncate_to_count(self, count: int) -> None:
        """Keeps the first `count` entries."""
        self.count = count
        self._window = b""

    def trim(self) -> None:
        """Removes the preallocated space. Raises OSError."""
        if self.file.size_bytes != self.count * self._layout.size:
            self.file.truncate(self.count * self._layout.size)

    def reserve(self) -> None:
        """Preallocates the file to `capacity_bytes`, without writing. Raises OSError."""
        if self.file.size_bytes < self.capacity * self._layout.size:
            self.file.truncate(self.capacity * self._layout.size)

    def clear(self) -> None:
        """Removes all entries and empties the file. Raises OSError."""
        self.truncate_to_count(0)
        if self.file.size_bytes:
            self.file.truncate(0)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """All entries as in the file (with relative offsets), for tools and tests."""
        data = self.file.pread(0, self.count * self._layout.size)
        return [self._layout.unpack_from(data, at) for at in range(0, len(data), self._layout.size)]


class OffsetIndex(_Index):
    """The offset index of a segment, `.index`."""

    __slots__ = ("last",)

    def __init__(self, file: File, base_offset: int, *, count: int, capacity_bytes: int) -> None:
        super().__init__(file, base_offset, count=count, capacity_bytes=capacity_bytes, layout=_OFFSET_ENTRY)
        self.last = self.entry(count - 1)

    @property
    def room(self) -> int:
        """The number of entries that can be added."""
        return self.capacity - self.count

    def entry(self, slot: int) -> OffsetPosition:
        """Returns the entry in a slot; for slot -1 the start of the segment."""
        if slot < 0:
            return OffsetPosition(self.base_offset, 0)
        relative, position = self._raw(slot)
        return OffsetPosition(self.base_offset + relative, position)

    def append(self, entries: list[tuple[int, int]]) -> None:
        """Adds (offset, position) entries, both ascending. Raises OSError."""
        base = self.base_offset
        if entries:
            packed = [_OFFSET_ENTRY.pack(offset - base, position) for offset, position in entries]
            self._append(b"".join(packed))
            self.last = OffsetPosition(*entries[-1])

    def lookup(self, offset: int) -> OffsetPosition:
        """Returns the entry with the largest offset up to `offset`, or the start of the segment."""
        return self.entry(self.slot_of(offset))

    def slot_of(self, offset: int) -> int:
        """Returns the slot of the entry that `lookup` returns; -1 for the start of the segment."""
        return self._floor(offset - self.base_offset, 0, self.last.offset - self.base_offset)

    def first_at_position(self, position: int) -> OffsetPosition | None:
        """Returns the first entry at or after a byte position; None if there is no such entry."""
        slot = self._floor(position - 1, 1, self.last.position) + 1
        return self.entry(slot) if slot < self.count else None

    def truncate_to(self, offset: int) -> None:
        """Removes the entries from `offset` on."""
        self.truncate_to_count(self._floor(offset - self.base_offset - 1, 0) + 1)

    def truncate_to_count(self, count: int) -> None:
        super().truncate_to_count(count)
        self.last = self.entry(count - 1)

    def trusted_count(self, recovery_point: int) -> int:
        """Returns the number of valid entries before the recovery point.

        After a crash the file may contain preallocated space (zeros) or torn entries.
        """
        count, last = 0, (-1, 0)
        for entry in self._every_slot():
            if not (entry[0] > last[0] and entry[1] > last[1] and entry[0] < recovery_point - self.base_offset):
                break
            count, last = count + 1, entry
        return count


class TimeIndex(_Index):
    """The time index of a segment, `.timeindex`."""

    __slots__ = ("last",)

    def __init__(self, file: File, base_offset: int, *, count: int, capacity_bytes: int) -> None:
        super().__init__(file, base_offset, count=count, capacity_bytes=capacity_bytes, layout=_TIME_ENTRY)
        self.last = self.entry(count - 1)

    @property
    def room(self) -> int:
        """The number of entries that can be added; one slot is reserved for the last entry when the segment is
        rolled."""
        return self.capacity - 1 - self.count

    def entry(self, slot: int) -> TimestampOffset:
        """Returns the entry in a slot; for slot -1 no timestamp at the start of the segment."""
        if slot < 0:
            return TimestampOffset(-1, self.base_offset)
        timestamp, relative = self._raw(slot)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def append(self, entries: list[tuple[int, int]]) -> None:
        """Adds the (timestamp, offset) entries with a timestamp above the last one. Raises OSError."""
        packed: list[bytes] = []
        last = self.last
        for timestamp, offset in entries:
            if timestamp > last.timestamp:
                packed.append(_TIME_ENTRY.pack(timestamp, offset - self.base_offset))
                last = TimestampOffset(timestamp, offset)
        if packed:
            self._append(b"".join(packed))
            self.last = last

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Returns the entry with the largest timestamp up to `timestamp` (ms), or `entry(-1)`."""
        return self.entry(self._floor(timestamp, 0))

    def truncate_to(self, offset: int) -> None:
        """Removes the entries from `offset` on."""
        self.truncate_to_count(self._floor(offset - self.base_offset - 1, 1) + 1)

    def truncate_to_count(self, count: int) -> None:
        super().truncate_to_count(count)
        self.last = self.entry(count - 1)

    def trusted_count(self, last_offset: int) -> int:
        """Returns the number of valid entries with offsets up to `last_offset`; as `OffsetIndex.trusted_count`."""
        count, last = 0, (-1, -1)
        for entry in self._every_slot():
            if not (entry[0] > last[0] and entry[1] > last[1] and entry[1] <= last_offset - self.base_offset):
                break
            count, last = count + 1, entry
        return count


def last_entry(file: File, base_offset: int) -> TimestampOffset | None:
    """Returns the last entry of a trimmed time index; None if it is empty or invalid."""
    size = file.size_bytes
    if size == 0 or size % _TIME_ENTRY.size:
        return None
    timestamp, relative = _TIME_ENTRY.unpack(file.pread(size - _TIME_ENTRY.size, _TIME_ENTRY.size))
    return TimestampOffset(timestamp, base_offset + relative) if timestamp > 0 and relative >= 0 else None
