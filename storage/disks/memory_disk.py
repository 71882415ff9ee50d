"""`MemoryDisk`: an in-memory disk with power failures and I/O errors, for simulations and tests, and `dump-log`.

Written and durable data are kept apart, as in a file system with a page cache: bytes become durable with `sync`, names
with `sync_directory`. `crash` keeps the durable data. A seeded random generator decides which part of the other data
survives: none, all, a prefix with a torn last write, some sectors, or the length without the content (Pillai et al.,
OSDI 2014). A failed sync marks the pages as clean although they were not written, so that a later sync succeeds without
writing the pages (Rebello et al., USENIX ATC 2020).
"""

import errno
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import TypeVar

from minikafka.protocol.errors import without_frames
from minikafka.storage.disks.flush_turns import FlushTurns
from minikafka.storage.disks.memory_content import Content, Directory
from minikafka.storage.disks.worker import Lane, ThreadLane
from minikafka.storage.waits import in_task

__all__ = ["MemoryDisk", "MemoryFile", "PowerLoss"]

_FILES_MAX = 4096
Buffer = bytes | bytearray | memoryview
Outcomes = list[OSError | None]
Result = TypeVar("Result")


class PowerLoss(BaseException):
    """A simulated power failure during an operation (`MemoryDisk.lose_power_after`), which nothing may handle."""


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
    """A `disk.File` in memory. Like `RealFile`, it is opened again by its path when it is used after `close`."""

    __slots__ = ("_closing", "_content", "_disk", "_generation", "_holds", "_is_open", "path", "size_bytes")

    def __init__(self, disk: "MemoryDisk", path: str, content: Content) -> None:
        self._disk = disk
        self._content = content
        self._generation = disk.generation
        self._holds = 0
        self._is_open, self._closing = True, False
        self.path = path
        self.size_bytes = content.current.size_bytes

    def append(self, *buffers: Buffer) -> int:
        position = self.size_bytes
        self._write(position, b"".join(buffers))
        return position

    def pwrite(self, position: int, data: Buffer) -> None:
        self._write(position, bytes(data))

    def _write(self, position: int, data: bytes) -> None:
        self._check("write")
        disk, content = self._disk, self._content
        kept = data
        growth = position + len(data) - len(content.current.data)
        if growth > 0 and (granted := disk.allocate(self.path, growth)) < growth:
            kept = data[: max(0, len(data) - growth + granted)]
        content.write(position, kept)
        content.modified_ms = disk.now_ms()
        if position + len(kept) > self.size_bytes:
            self.size_bytes = position + len(kept)
        disk.step()
        if len(kept) < len(data):
            raise OSError(errno.ENOSPC, "No space left on device", self.path)

    def pread(self, position: int, size_bytes: int) -> bytes:
        self._check("read")
        return self._content.current.read(position, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        self._check("truncate")
        freed = len(self._content.current.data) - size_bytes
        if freed > 0:
            self._disk.allocate(self.path, -freed)
        self._content.truncate(size_bytes)
        self.size_bytes = size_bytes
        self._disk.step()

    def sync(self) -> None:
        self._reopen()
        try:
            self._disk.call("sync", self.path)
        except OSError:
            if self._generation == self._disk.generation:
                self._content.lose()  # The pages are clean now, and lost at the next crash.
            raise
        self._content.sync()
        self._disk.step()

    def fileno(self) -> int:
        return -1

    def hold(self) -> None:
        self._reopen()
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if self._closing and not self._holds:
            self._is_open = self._closing = False

    def close(self) -> None:
        self._closing = self._holds > 0
        self._is_open = self._closing

    def _check(self, kind: str) -> None:
        self._reopen()
        self._disk.call(kind, self.path)

    def _reopen(self) -> None:
        if self._generation != self._disk.generation:
            raise self._outdated()
        if not self._is_open and not self._disk.names(self.path, self._content):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", self.path)
        self._is_open = True

    def _outdated(self) -> OSError:
        return OSError(errno.EIO, "opened before the power failure", self.path)


class MemoryDisk:
    """A `disk.Disk` in memory, with fault injection.

    Args:
        random: decides which unflushed data a crash keeps.
        now_ms: the clock for modification times, in milliseconds since 1970.

    Attributes:
        calls: the number of calls of each kind (`open`, `read`, `write`, `sync`, `list`, …).
        remaining_bytes: the free space of the disk.
        pause: if set, awaited by `run` to simulate a slow disk.
        flush_turns: limits the number of logs that are flushed at the same time.
    """

    def __init__(self, random: Random | None = None, *, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._random = random or Random(0)
        self._root = Directory()
        self._known: dict[str, Directory] = {}
        self._faults: list[_Fault] = []
        self._steps_left = -1
        self.now_ms = now_ms
        self.calls: Counter[str] = Counter()
        self.generation = 0
        self.remaining_bytes = 1 << 60
        self.pause: Callable[[], Awaitable[None]] | None = None
        self.flush_turns = FlushTurns(_FILES_MAX)

    def crash(self) -> None:
        """Simulates a power failure. Open files can no longer be used."""
        self.generation += 1
        self._steps_left = -1
        self._faults.clear()
        self._known.clear()
        self._root.crash(self._random)

    def lose_power_after(self, operations: int) -> None:
        """Makes a write operation raise PowerLoss after `operations` other write operations. Then call `crash`."""
        self._steps_left = operations

    def fail(self, kind: str, *, times: int = 1, skip: int = 0, path: str = "", code: int = errno.EIO) -> None:
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

    def allocate(self, path: str, size_bytes: int) -> int:
        """Takes disk space for a file, or gives it back if `size_bytes` is negative; returns the bytes granted."""
        granted = min(size_bytes, max(0, self.remaining_bytes))
        self.remaining_bytes -= granted
        return granted

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        return MemoryFile(self, path, self._opened(path, create=create))

    def _opened(self, path: str, *, create: bool) -> Content:
        self.call("open", path)
        parent, name = self._parent(path)
        content = parent.entries.get(name)
        if content is None and create:
            content = Content()
            content.modified_ms = self.now_ms()
            parent.change(name, None, content)
            self.step()
        if not isinstance(content, Content):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return content

    def list(self, directory: str) -> list[str]:
        self.call("list", directory)
        return sorted(self._directory(directory).entries)

    def exists(self, path: str) -> bool:
        self.call("stat", path)
        return self._find(path) is not None

    def names(self, path: str, content: Content) -> bool:
        """Whether a path names this file."""
        return self._find(path) is content

    def is_directory(self, path: str) -> bool:
        self.call("stat", path)
        return isinstance(self._find(path), Directory)

    def file_size(self, path: str) -> int:
        self.call("stat", path)
        return self._content(path).current.size_bytes

    def modified_ms(self, path: str) -> int:
        self.call("stat", path)
        return self._content(path).modified_ms

    def make_directory(self, path: str) -> None:
        self.call("mkdir", path)
        at = self._root
        for name in filter(None, path.split("/")):
            found = at.entries.get(name)
            if found is None:
                found = Directory()
                at.change(name, None, found)
            if not isinstance(found, Directory):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
            at = found
        self.step()

    def rename(self, path: str, new_path: str) -> None:
        self.call("rename", path)
        parent, name = self._parent(path)
        new_parent, new_name = self._parent(new_path)
        moved = parent.entries.get(name)
        if moved is None or parent is not new_parent:
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        replaced = parent.entries.get(new_name)
        if isinstance(moved, Directory):
            if isinstance(replaced, Directory) and replaced.entries:
                raise OSError(errno.ENOTEMPTY, "Directory not empty", new_path)
            self._known.clear()
        elif replaced is not None:
            self.allocate(path, -replaced.held_bytes)
        parent.change(new_name, name)
        self.step()

    def remove(self, path: str) -> None:
        self.call("remove", path)
        self._remove(path, self._content(path))

    def remove_tree(self, path: str) -> None:
        self.call("remove", path)
        self._remove(path, self._directory(path))
        self._known.clear()

    def _remove(self, path: str, removed: Content | Directory) -> None:
        parent, name = self._parent(path)
        self.allocate(path, -removed.held_bytes)
        parent.change(None, name)
        self.step()

    def read_bytes(self, path: str) -> bytes:
        self.call("open", path)
        self.call("read", path)
        current = self._content(path).current
        return current.read(0, current.size_bytes)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        file = MemoryFile(self, path + ".tmp", self._opened(path + ".tmp", create=True))
        if file.size_bytes:
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
            await in_task()
            await self.pause()
        return function(*args)

    def run_all(self, functions: Sequence[Callable[[], None]]) -> Outcomes:
        return [outcome(one) for one in functions]

    def mutex(self) -> AbstractContextManager[object]:
        return nullcontext()

    def lane(self, size_bytes: int) -> Lane:
        return ThreadLane(self)

    def _find(self, path: str) -> Content | Directory | None:
        directory, _, name = path.rpartition("/")
        known = self._known.get(directory)
        if known is not None and name:
            return known.entries.get(name)
        at: Content | Directory | None = self._root
        for one in filter(None, path.split("/")):
            at = at.entries.get(one) if isinstance(at, Directory) else None
        return at

    def _directory(self, path: str) -> Directory:
        found = self._known.get(path) or self._find(path)
        if not isinstance(found, Directory):
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        self._known[path] = found
        return found

    def _content(self, path: str) -> Content:
        parent, name = self._parent(path)
        found = parent.entries.get(name)
        if not isinstance(found, Content):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return found

    def _parent(self, path: str) -> tuple[Directory, str]:
        directory, _, name = path.rpartition("/")
        return self._known.get(directory) or self._directory(directory), name


def outcome(function: Callable[[], None]) -> OSError | None:
    """Calls `function`; returns its OSError, or None."""
    try:
        function()
    except OSError as error:
        return without_frames(error)
    return None
