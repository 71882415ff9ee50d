"""Files and directories of a `MemoryDisk`: their current content, their durable content, and the pending changes.

A change is pending until it is synced. A simulated crash decides which pending changes have become durable.
"""

import errno
from array import array
from random import Random

_SECTOR_SIZE = 512


class FileBytes:
    """The bytes of a file. The part after `data`, up to `size_bytes`, is a hole: zeros that take no memory."""

    __slots__ = ("data", "size_bytes")

    def __init__(self, data: bytes | bytearray = b"", size_bytes: int = 0) -> None:
        self.data = bytearray(data)
        self.size_bytes = max(size_bytes, len(data))

    def write(self, position: int, data: bytes) -> None:
        held, end = self.data, position + len(data)
        if position == len(held):
            held += data
        else:
            if len(held) < position:
                held.extend(bytes(position - len(held)))
            held[position:end] = data
        if end > self.size_bytes:
            self.size_bytes = end

    def truncate(self, size_bytes: int) -> None:
        del self.data[size_bytes:]
        self.size_bytes = size_bytes

    def read(self, position: int, size_bytes: int) -> bytes:
        found = bytes(self.data[position : position + size_bytes])
        if len(found) < size_bytes and position + len(found) < self.size_bytes:
            found += bytes(min(size_bytes, self.size_bytes - position) - len(found))
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileBytes):
            return NotImplemented
        return self is other or (self.size_bytes == other.size_bytes and self.data == other.data)

    def copy(self) -> "FileBytes":
        return FileBytes(self.data, self.size_bytes)


class _Run:
    """A run of pending writes, each of which begins where the previous write ended.

    Attributes:
        position: the byte position at which the first write begins.
        ends: the byte position at which each write ends.
        data: the bytes of all writes; None as long as the file has these bytes at the same position.
    """

    __slots__ = ("data", "ends", "position")

    def __init__(self, position: int, end: int) -> None:
        self.position = position
        self.ends = array("q", (end,))
        self.data: bytes | None = None

    def bytes_in(self, current: FileBytes) -> bytes:
        return bytes(current.data[self.position : self.ends[-1]]) if self.data is None else self.data

    def writes(self, current: FileBytes) -> "list[tuple[int, bytes | None]]":
        data, start = self.bytes_in(current), self.position
        found: list[tuple[int, bytes | None]] = []
        for end in self.ends:
            found.append((start, data[start - self.position : end - self.position]))
            start = end
        return found


class Content:
    """The content of a file.

    Attributes:
        current, durable: the bytes that are read now, and the bytes that survive a power failure.
        pending: the pending writes and truncations in order; an int is the size of a truncation or extension.
        failed: whether pages could not be written and are lost; the next sync reports the loss (as `errseq_t` of
            Linux).
        lost: whether writes that count as clean are not durable, and disappear at the next crash.
        modified_ms: the time of the last write, in milliseconds since 1970.
    """

    __slots__ = ("_last", "_shared_end", "current", "durable", "failed", "lost", "modified_ms", "pending")

    def __init__(self, data: bytes | bytearray = b"", size_bytes: int = 0) -> None:
        self.current = FileBytes(data, size_bytes)
        self.durable = FileBytes(data, size_bytes)
        self.pending: list[_Run | int] = []
        self.failed = False
        self.modified_ms = 0
        self._last: _Run | None = None
        self._shared_end = 0
        self.lost = False

    def write(self, position: int, data: bytes) -> None:
        if not data:
            return
        if position < self._shared_end:
            self._copy_pending()
        self.current.write(position, data)
        end = position + len(data)
        if self._last is not None and self._shared_end == position:
            self._last.ends.append(end)
        else:
            self._last = _Run(position, end)
            self.pending.append(self._last)
        self._shared_end = end

    def truncate(self, size_bytes: int) -> None:
        if size_bytes < self._shared_end:
            self._copy_pending()
        self.current.truncate(size_bytes)
        self.pending.append(size_bytes)
        self._last = None

    def _copy_pending(self) -> None:
        """Copies the bytes of the pending writes, before these bytes of the file are overwritten."""
        for one in self.pending:
            if isinstance(one, _Run):
                one.data = one.bytes_in(self.current)
        self._last, self._shared_end = None, 0

    def sync(self) -> None:
        """Makes the pending changes durable. The first sync after lost writes raises OSError instead."""
        if self.failed:
            self.lose()
            self.failed = False
            raise OSError(errno.EIO, "earlier writes are lost")
        if not self.pending:
            return
        for one in self.pending:
            if isinstance(one, _Run):
                self.durable.write(one.position, one.bytes_in(self.current))
            else:
                self.durable.truncate(one)
        self._clear()

    def _clear(self) -> None:
        self.pending.clear()
        self._last, self._shared_end = None, 0

    def lose(self, *, evict: bool = False) -> None:
        """Marks the pending changes as clean, so that the next crash drops them.

        With `evict`, the pages also leave the page cache: reads do not see the changes any more.
        """
        self.lost |= bool(self.pending)
        self._clear()
        if evict:
            size_bytes = self.current.size_bytes
            self.current = self.durable.copy()
            self.current.truncate(size_bytes)

    def crash(self, random: Random) -> None:
        """Decides which pending changes became durable, and makes the durable bytes the content."""
        if not self.pending and not self.lost:
            return
        for position, data in _survivors(self._writes(), random):
            if data is None:
                self.durable.truncate(position)
            else:
                self.durable.write(position, data)
        self.current = self.durable.copy()
        self._clear()
        self.lost = self.failed = False

    def _writes(self) -> list[tuple[int, bytes | None]]:
        found: list[tuple[int, bytes | None]] = []
        for one in self.pending:
            if isinstance(one, _Run):
                found += one.writes(self.current)
            else:
                found.append((one, None))
        return found

    @property
    def held_bytes(self) -> int:
        """The disk space of the file in bytes, without the hole at its end."""
        return len(self.current.data)


def _survivors(writes: list[tuple[int, bytes | None]], random: Random) -> list[tuple[int, bytes | None]]:
    """Returns the writes that became durable: (position, bytes), or (size, None) for a truncation."""
    choice = random.randrange(5)
    if choice == 0:
        return []
    if choice == 2:
        writes = writes[: random.randint(0, len(writes))]
        position, data = writes[-1] if writes else (0, None)
        if data is not None:
            writes[-1] = (position, data[: random.randint(0, len(data))])
    elif choice == 3:
        return [part for write in writes for part in _sectors(write, random)]
    elif choice == 4:
        return [_blank(write) if random.random() < 0.5 else write for write in writes]
    return writes


def _sectors(write: tuple[int, bytes | None], random: Random) -> list[tuple[int, bytes | None]]:
    position, data = write
    if data is None:
        return [write]
    kept: list[tuple[int, bytes | None]] = []
    start = 0
    while start < len(data):
        end = min(len(data), (position + start) // _SECTOR_SIZE * _SECTOR_SIZE + _SECTOR_SIZE - position)
        if random.random() < 0.5:
            kept.append((position + start, data[start:end]))
        start = end
    return kept


def _blank(write: tuple[int, bytes | None]) -> tuple[int, bytes | None]:
    position, data = write
    return write if data is None else (position, bytes(len(data)))


class Directory:
    """A directory: the names of its files and directories.

    Attributes:
        entries, durable: the current names, and the names that survive a power failure.
        pending: the pending changes, as (new name, old name, entry), each of which may be None.
        failed: whether changes are lost; the next sync reports the loss.
        lost: whether `entries` has changes that count as clean and are not durable.
    """

    __slots__ = ("durable", "entries", "failed", "lost", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Content | Directory] = {}
        self.durable: dict[str, Content | Directory] = {}
        self.pending: list[tuple[str | None, str | None, Content | Directory | None]] = []
        self.failed = False
        self.lost = False

    def change(self, new: str | None, old: str | None, what: "Content | Directory | None" = None) -> None:
        """Adds `what` as `new`, removes `old`, or renames `old` to `new`."""
        _change(self.entries, new, old, what)
        self.pending.append((new, old, what))

    def sync(self) -> None:
        """Makes the pending changes durable. The first sync after lost changes raises OSError instead."""
        if self.failed:
            self.failed = False
            raise OSError(errno.EIO, "earlier changes of names are lost")
        for new, old, what in self.pending:
            _change(self.durable, new, old, what)
        self.pending.clear()

    def lose(self) -> None:
        """Marks the pending changes as clean, so that the next crash or `forget_lost` drops them."""
        self.lost |= bool(self.pending)
        self.pending.clear()

    def forget_lost(self) -> None:
        """Drops the lost changes, as a file system that is mounted again reads its directories anew."""
        if self.lost:
            self.entries = dict(self.durable)
            for new, old, what in self.pending:
                _change(self.entries, new, old, what)
        self.failed = self.lost = False

    def crash(self, random: Random) -> None:
        if self.pending:
            for new, old, what in self.pending[: random.randint(0, len(self.pending))]:
                _change(self.durable, new, old, what)
            self.pending.clear()
        self.entries = dict(self.durable)
        self.failed = self.lost = False
        for _, entry in sorted(self.entries.items()):
            entry.crash(random)

    @property
    def held_bytes(self) -> int:
        """The disk space of all files in the directory, in bytes."""
        return sum([entry.held_bytes for entry in self.entries.values()])


def _change(
    names: dict[str, Content | Directory], new: str | None, old: str | None, what: Content | Directory | None
) -> None:
    moved = names.pop(old, None) if old is not None else what
    if new is not None and moved is not None:
        names[new] = moved
