"""`MemoryDisk`: an in-memory disk for simulations and tests, with power failures and I/O errors.

Written and durable data are kept apart, as in a file system with a page cache: bytes become durable with `sync`, names
with `sync_directory`. `crash` keeps the durable data; a seeded random generator decides about the rest: dropped, kept,
a prefix with a torn last write, some sectors, or length without content (Pillai et al., OSDI 2014). A failed sync marks
the pages as clean although they were not written, so that a later sync succeeds without them (Rebello et al., USENIX
ATC 2020).
"""

import errno
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TypeVar

__all__ = ["MemoryDisk", "MemoryFile", "PowerLoss"]

Buffer = bytes | bytearray | memoryview
Outcomes = list[OSError | None]
Result = TypeVar("Result")
_SECTOR_SIZE = 512


class PowerLoss(Exception):
    """A simulated power failure during an operation (`MemoryDisk.lose_power_after`)."""


class _Content:
    """A file: its bytes, its durable bytes, and the pending writes and truncations in order.

    A pending entry is (position, bytes) for a write and (size, None) for a truncation or extension.
    """

    __slots__ = ("data", "durable", "modified_ms", "pending")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []
        self.modified_ms = 0

    def write(self, position: int, data: bytes) -> None:
        _apply(self.data, position, data)
        self.pending.append((position, data))

    def truncate(self, size: int) -> None:
        _apply(self.data, size, None)
        self.pending.append((size, None))

    def sync(self) -> None:
        for position, data in self.pending:
            _apply(self.durable, position, data)
        self.pending.clear()

    def crash(self, random: Random) -> None:
        """Decides which pending writes became durable, and makes the durable bytes the content."""
        choice = random.randrange(5)
        pending = self.pending
        if choice == 0:
            pending = []
        elif choice == 2:
            pending = pending[: random.randint(0, len(pending))]
            position, data = pending[-1] if pending else (0, None)
            if data is not None:
                pending[-1] = (position, data[: random.randint(0, len(data))])
        elif choice == 3:
            pending = [part for write in pending for part in _sectors(write, random)]
        elif choice == 4:
            pending = [_blank(write) if random.random() < 0.5 else write for write in pending]
        for position, data in pending:
            _apply(self.durable, position, data)
        self.data = bytearray(self.durable)
        self.pending = []


def _apply(target: bytearray, position: int, data: bytes | None) -> None:
    if len(target) < position:
        target.extend(bytes(position - len(target)))
    if data is None:
        del target[position:]
    else:
        target[position : position + len(data)] = data


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


class _Directory:
    """The current and durable names, and the pending changes: (new name, old name, entry), each may be None."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, _Content | _Directory] = {}
        self.durable: dict[str, _Content | _Directory] = {}
        self.pending: list[tuple[str | None, str | None, _Content | _Directory | None]] = []

    def change(self, new: str | None, old: str | None, what: "_Content | _Directory | None" = None) -> None:
        """Adds `what` as `new`, removes `old`, or renames `old` to `new`."""
        _change(self.entries, new, old, what)
        self.pending.append((new, old, what))

    def sync(self) -> None:
        for new, old, what in self.pending:
            _change(self.durable, new, old, what)
        self.pending.clear()

    def crash(self, random: Random) -> None:
        for new, old, what in self.pending[: random.randint(0, len(self.pending))]:
            _change(self.durable, new, old, what)
        self.entries = dict(self.durable)
        self.pending = []
        for _, entry in sorted(self.entries.items()):
            entry.crash(random)


def _change(
    names: "dict[str, _Content | _Directory]",
    new: str | None,
    old: str | None,
    what: "_Content | _Directory | None",
) -> None:
    moved = names.pop(old, None) if old is not None else what
    if new is not None and moved is not None:
        names[new] = moved


class _Fault:
    """An injected fault: `times` calls of `kind` on paths that contain `path` fail, after `skip` calls."""

    __slots__ = ("code", "kind", "path", "skip", "times")

    def __init__(self, kind: str, path: str, skip: int, times: int, code: int) -> None:
        self.kind = kind
        self.path = path
        self.skip = skip
        self.times = times
        self.code = code

    def matches(self, kind: str, path: str) -> bool:
        if kind != self.kind or self.path not in path or not self.times:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class MemoryFile:
    """A `disk.File` in memory."""

    __slots__ = ("_content", "_disk", "_generation", "path", "size_bytes")

    def __init__(self, disk: "MemoryDisk", path: str, content: _Content) -> None:
        self._disk = disk
        self._content = content
        self._generation = disk.generation
        self.path = path
        self.size_bytes = len(content.data)

    def append(self, *buffers: Buffer) -> int:
        position = self.size_bytes
        self._write(position, b"".join(buffers))
        return position

    def pwrite(self, position: int, data: Buffer) -> None:
        self._write(position, bytes(data))

    def _write(self, position: int, data: bytes) -> None:
        self._check("write")
        room = self._disk.remaining_bytes - max(0, position + len(data) - len(self._content.data))
        kept = data if room >= 0 else data[: max(0, len(data) + room)]
        self._disk.remaining_bytes -= max(0, position + len(kept) - len(self._content.data))
        self._content.write(position, kept)
        self._content.modified_ms = self._disk.now_ms()
        self.size_bytes = max(self.size_bytes, position + len(kept))
        self._disk.step()
        if len(kept) < len(data):
            raise OSError(errno.ENOSPC, "No space left on device", self.path)

    def pread(self, position: int, size_bytes: int) -> bytes:
        self._check("read")
        return bytes(self._content.data[position : position + size_bytes])

    def truncate(self, size_bytes: int) -> None:
        self._check("truncate")
        self._content.truncate(size_bytes)
        self.size_bytes = size_bytes
        self._disk.step()

    def sync(self) -> None:
        try:
            self._check("sync")
        except OSError:
            self._content.pending.clear()  # The pages are clean now, and lost at the next crash.
            raise
        self._content.sync()
        self._disk.step()

    def fileno(self) -> int:
        return -1

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _check(self, kind: str) -> None:
        if self._generation != self._disk.generation:
            raise OSError(errno.EIO, "opened before the power failure", self.path)
        self._disk.call(kind, self.path)


class MemoryDisk:
    """A `disk.Disk` in memory, with fault injection.

    Args:
        random: decides which unflushed data a crash keeps.
        now_ms: the clock of modification times.

    Attributes:
        calls: the number of calls of each kind (`open`, `read`, `write`, `sync`, `list`, …).
        remaining_bytes: the free space of the disk.
        pause: if set, awaited by `run` to simulate a slow disk.
    """

    def __init__(
        self, random: Random | None = None, *, now_ms: Callable[[], int] = lambda: 0
    ) -> None:
        self._random = random or Random(0)
        self._root = _Directory()
        self._faults: list[_Fault] = []
        self._steps_left = -1
        self.now_ms = now_ms
        self.calls: Counter[str] = Counter()
        self.generation = 0
        self.remaining_bytes = 1 << 60
        self.pause: Callable[[], Awaitable[None]] | None = None

    def crash(self) -> None:
        """Simulates a power failure. Open files can no longer be used."""
        self.generation += 1
        self._steps_left = -1
        self._faults.clear()
        self._root.crash(self._random)

    def lose_power_after(self, operations: int) -> None:
        """Makes a write operation raise PowerLoss after `operations` others; then call `crash`."""
        self._steps_left = operations

    def fail(
        self, kind: str, *, times: int = 1, skip: int = 0, path: str = "", code: int = errno.EIO
    ) -> None:
        """Makes `times` calls of a kind (`write`, `sync`, `rename`, `read`, …) on paths that contain `path` fail, after
        the first `skip` calls."""
        self._faults.append(_Fault(kind, path, skip, times, code))

    def heal(self) -> None:
        """Removes all injected faults."""
        self._faults.clear()

    def call(self, kind: str, path: str) -> None:
        """Counts a call; raises OSError for an injected fault."""
        self.calls[kind] += 1
        for fault in self._faults:
            if fault.matches(kind, path):
                raise OSError(fault.code, "injected fault", path)

    def step(self) -> None:
        if self._steps_left == 0:
            raise PowerLoss
        self._steps_left -= 1

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.call("open", path)
        parent, name = self._parent(path)
        content = parent.entries.get(name)
        if content is None and create:
            content = _Content()
            content.modified_ms = self.now_ms()
            parent.change(name, None, content)
            self.step()
        if not isinstance(content, _Content):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return MemoryFile(self, path, content)

    def list(self, directory: str) -> list[str]:
        self.call("list", directory)
        return sorted(self._directory(directory).entries)

    def exists(self, path: str) -> bool:
        self.call("stat", path)
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        self.call("stat", path)
        return isinstance(self._find(path), _Directory)

    def file_size(self, path: str) -> int:
        self.call("stat", path)
        return len(self._content(path).data)

    def modified_ms(self, path: str) -> int:
        self.call("stat", path)
        return self._content(path).modified_ms

    def make_directory(self, path: str) -> None:
        self.call("mkdir", path)
        at = self._root
        for name in filter(None, path.split("/")):
            found = at.entries.get(name)
            if found is None:
                found = _Directory()
                at.change(name, None, found)
            if not isinstance(found, _Directory):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
            at = found
        self.step()

    def rename(self, path: str, new_path: str) -> None:
        self.call("rename", path)
        parent, name = self._parent(path)
        new_parent, new_name = self._parent(new_path)
        if name not in parent.entries or parent is not new_parent:
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        parent.change(new_name, name)
        self.step()

    def remove(self, path: str) -> None:
        self.call("remove", path)
        self._content(path)
        parent, name = self._parent(path)
        parent.change(None, name)
        self.step()

    def remove_tree(self, path: str) -> None:
        self.call("remove", path)
        self._directory(path)
        parent, name = self._parent(path)
        parent.change(None, name)
        self.step()

    def read_bytes(self, path: str) -> bytes:
        self.call("open", path)
        self.call("read", path)
        return bytes(self._content(path).data)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        file = self.open(path + ".tmp", create=True)
        file.truncate(0)
        file.pwrite(0, data)
        if sync:
            file.sync()
        self.rename(path + ".tmp", path)
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def sync_file(self, path: str) -> None:
        MemoryFile(self, path, self._content(path)).sync()

    def sync_directory(self, path: str) -> None:
        self.call("sync", path)
        self._directory(path).sync()
        self.step()

    def free_bytes(self, path: str) -> int:
        return self.remaining_bytes

    def total_bytes(self, path: str) -> int:
        return 1 << 60

    def lock(self, path: str) -> None:
        self.open(path, create=True)

    def unlock_all(self) -> None:
        pass

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        if self.pause is not None:
            await self.pause()
        return function(*args)

    def run_all(self, functions: Sequence[Callable[[], None]]) -> Outcomes:
        return [outcome(one) for one in functions]

    def _find(self, path: str) -> _Content | _Directory | None:
        at: _Content | _Directory | None = self._root
        for name in filter(None, path.split("/")):
            at = at.entries.get(name) if isinstance(at, _Directory) else None
        return at

    def _directory(self, path: str) -> _Directory:
        found = self._find(path)
        if not isinstance(found, _Directory):
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        return found

    def _content(self, path: str) -> _Content:
        found = self._find(path)
        if not isinstance(found, _Content):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return found

    def _parent(self, path: str) -> tuple[_Directory, str]:
        directory, _, name = path.rpartition("/")
        return self._directory(directory), name


def outcome(function: Callable[[], None]) -> OSError | None:
    """Calls `function`; returns its OSError, or None."""
    try:
        function()
    except OSError as error:
        return error
    return None
