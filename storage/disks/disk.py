"""Gives access to the file system: the `Disk` and `File` interfaces, and `RealDisk`.

`RealDisk` uses the operating system; `MemoryDisk` (in `memory_disk.py`) keeps flushed and unflushed bytes apart, so
that a test can simulate a power failure at any operation. Both have the same methods and raise OSError; the log handles
errors by going offline (`log.py`).

The number of open descriptors is limited: a `RealFile` opens its descriptor on use, and the descriptor may be closed
when more than `open_files_max` files are open (`open_files.py`). `hold` keeps a file open for a worker thread or
sendfile.
"""

import errno
import fcntl
import os
import resource
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, TypeVar

import trio

from minikafka.storage.disks.disk_errors import FailedSync, name_file, naming
from minikafka.storage.disks.flush_turns import FlushTurns
from minikafka.storage.disks.memory_disk import MemoryDisk, Outcomes, outcome
from minikafka.storage.disks.open_files import OpenFiles
from minikafka.storage.disks.worker import Lane, ThreadLane, attempt
from minikafka.storage.disks.worker_process import ProcessLane
from minikafka.storage.waits import in_task

__all__ = ["Disk", "File", "FileSlice", "MemoryDisk", "RealDisk", "RealFile"]

_READ_SIZE = 1 << 16
_THREADS = 8
_OPEN_FILES_MAX = 4096
_THREAD_BYTES_MAX = 8 << 20
"""The largest work that runs in a thread: cleaning so many bytes costs about as much CPU time as starting a process."""
Buffer = bytes | bytearray | memoryview
Result = TypeVar("Result")


class File(Protocol):
    """A file that is appended to. Positions and sizes are in bytes."""

    path: str
    size_bytes: int

    def append(self, *buffers: Buffer) -> int:
        """Appends the buffers; returns the position of the first. After an OSError a part may have been written."""
        ...

    def pread(self, position: int, size_bytes: int) -> bytes:
        """Returns up to `size_bytes` bytes, fewer only at the end of the file."""
        ...

    def pwrite(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size_bytes: int) -> None:
        """Truncates the file, or extends it with a hole."""
        ...

    def sync(self) -> None:
        """Flushes the file (fdatasync). May run in a worker thread while the file is held. Raises FailedSync."""
        ...

    def fileno(self) -> int:
        """Returns a descriptor for sendfile, valid until the next call into storage; -1 if there is none."""
        ...

    def hold(self) -> None:
        """Opens the file and keeps it open until `release`, even after `close`."""
        ...

    def release(self) -> None: ...

    def close(self) -> None:
        """Closes the descriptor. The file reopens itself on its next use."""
        ...


class Disk(Protocol):
    """The file system as storage uses it. Paths are strings with `/`; every method may raise OSError.

    Attributes:
        flush_turns: limits the number of logs that are flushed at the same time.
    """

    flush_turns: FlushTurns

    def open(self, path: str, *, create: bool = False) -> File: ...

    def list(self, directory: str) -> list[str]:
        """Returns the sorted names in a directory."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory exists. Raises OSError if that cannot be determined."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether a directory exists. Raises OSError if that cannot be determined."""
        ...

    def file_size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def make_directory(self, path: str) -> None:
        """Creates the directory and its parents, unless it exists."""
        ...

    def rename(self, path: str, new_path: str) -> None:
        """Replaces an existing file atomically; durable only after `sync_directory`."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Writes a temporary file, fsyncs it, renames it to `path`, and fsyncs the directory.

        With `sync=False` there are no fsyncs.
        """
        ...

    def sync_file(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...

    def lock(self, path: str) -> None:
        """Locks a file exclusively. Raises BlockingIOError if another process holds the lock."""
        ...

    def unlock_all(self) -> None:
        """Releases all locks."""
        ...

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        """Calls `function` in a worker thread.

        If the caller is cancelled, the function is called nevertheless, and this method waits for its end: only the
        function knows its arguments, such as files to flush.
        """
        ...

    def run_all(self, functions: Sequence[Callable[[], None]]) -> Outcomes:
        """Calls all functions concurrently and waits; returns the OSError of each, or None. For shutdown."""
        ...

    def mutex(self) -> AbstractContextManager[object]:
        """Returns a lock between the thread of the event loop and the threads of `run`."""
        ...

    def lane(self, size_bytes: int) -> Lane:
        """Returns a worker for functions that need much processor time, for work on `size_bytes` bytes."""
        ...


class FileSlice:
    """A part of a file to send by `sendfile` (`file.fileno()`, `position`) or `read()`."""

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def read(self) -> bytes:
        """Returns the bytes. Raises OSError, also if the file has been truncated meanwhile."""
        data = self.file.pread(self.position, self.size_bytes)
        if len(data) != self.size_bytes:
            raise OSError(errno.EIO, f"{self.size_bytes - len(data)} bytes are missing from {self.file.path}")
        return data

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path!r}, {self.position}, {self.size_bytes})"


class RealFile:
    """A `File` of the operating system. Created by `RealDisk.open`."""

    __slots__ = ("_closing", "_fd", "_files", "_holds", "path", "size_bytes", "used")

    def __init__(self, files: OpenFiles, path: str, fd: int, size_bytes: int) -> None:
        self._files = files
        self._fd = fd
        self._holds = 0
        self._closing = False
        self.path = path
        self.size_bytes = size_bytes
        self.used = True

    def append(self, *buffers: Buffer) -> int:
        self.used = True
        position = self.size_bytes
        fd = self._fd if self._fd >= 0 else self._open()
        try:
            if len(buffers) == 1:
                written = os.pwrite(fd, buffers[0], position)
                expected = len(buffers[0])
            else:
                written = os.pwritev(fd, buffers, position)
                expected = sum(map(len, buffers))
        except OSError as error:
            name_file(error, self.path)
            raise
        self.size_bytes = position + written
        if written != expected:  # A nearly full disk, a signal, more than 2 GiB.
            self._append_rest(buffers, written)
        return position

    def _append_rest(self, buffers: tuple[Buffer, ...], written: int) -> None:
        rest = memoryview(b"".join(buffers))[written:]
        while rest:
            with naming(self.path):
                written = os.pwrite(self._fd, rest, self.size_bytes)
            if not written:
                raise OSError(errno.EIO, f"no bytes could be written to {self.path}")
            self.size_bytes += written
            rest = rest[written:]

    def pread(self, position: int, size_bytes: int) -> bytes:
        self.used = True
        try:
            return os.pread(self._fd if self._fd >= 0 else self._open(), size_bytes, position)
        except OSError as error:
            name_file(error, self.path)
            raise

    def pwrite(self, position: int, data: Buffer) -> None:
        self.used = True
        with naming(self.path):
            written = os.pwrite(self._fd if self._fd >= 0 else self._open(), data, position)
        if written != len(data):
            raise OSError(errno.EIO, f"only {written} of {len(data)} bytes could be written to {self.path}")
        self.size_bytes = max(self.size_bytes, position + written)

    def truncate(self, size_bytes: int) -> None:
        self.used = True
        with naming(self.path):
            os.ftruncate(self._fd if self._fd >= 0 else self._open(), size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        fd = self._fd if self._fd >= 0 else self._open()
        try:
            os.fdatasync(fd)
        except OSError as error:
            raise FailedSync(error.errno, error.strerror, self.path) from error

    def fileno(self) -> int:
        self.used = True
        return self._fd if self._fd >= 0 else self._open()

    def hold(self) -> None:
        self.fileno()
        self._holds += 1
        if self._holds == 1:
            self._files.held(self)

    def release(self) -> None:
        self._holds -= 1
        if not self._holds:
            self._files.released(self)
            if self._closing:
                self.try_close()

    def close(self) -> None:
        self._closing = not self.try_close()

    def try_close(self) -> bool:
        """Closes the descriptor unless held; returns whether it is closed."""
        if self._holds:
            return False
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._files.closed(self)
        return True

    def _open(self) -> int:
        self._fd = self._files.descriptor(self, os.O_RDWR)
        return self._fd


def _mode(path: str) -> int | None:
    """Returns the type and mode of a file or directory; None if it does not exist.

    Raises OSError if that cannot be determined, whereas `os.path` takes such a file for missing.
    """
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


class RealDisk:
    """The `Disk` of the operating system.

    Args:
        open_files_max: the number of descriptors to keep open, exceeded only by held files. By default a third of the
            process limit (RLIMIT_NOFILE), at most 4,096; the other descriptors are for connections. If connections
            take more, fewer files are kept open.

    A few descriptors are kept in reserve for operations that must succeed when all others are in use, such as
    checkpoints.
    """

    def __init__(self, *, open_files_max: int | None = None) -> None:
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        files_max = open_files_max or min(_OPEN_FILES_MAX, allowed // 3)
        self.open_files = OpenFiles(files_max)
        self.flush_turns = FlushTurns(files_max)
        self._locks: list[int] = []

    def open(self, path: str, *, create: bool = False) -> RealFile:
        file = RealFile(self.open_files, path, -1, 0)
        file._fd = self.open_files.descriptor(file, os.O_RDWR | os.O_CREAT if create else os.O_RDWR)
        file.size_bytes = os.fstat(file._fd).st_size
        return file

    def list(self, directory: str) -> list[str]:
        fd = self.open_files.opened(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with naming(directory):
                return sorted(os.listdir(fd))
        finally:
            self.open_files.close(fd)

    def exists(self, path: str) -> bool:
        return _mode(path) is not None

    def is_directory(self, path: str) -> bool:
        mode = _mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def file_size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path)
        except (FileNotFoundError, FileExistsError):
            os.makedirs(path, exist_ok=True)

    def rename(self, path: str, new_path: str) -> None:
        os.rename(path, new_path)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    self.remove_tree(entry.path)
                else:
                    os.unlink(entry.path)
        os.rmdir(path)

    def read_bytes(self, path: str) -> bytes:
        fd = self.open_files.opened(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            with naming(path):
                mode = os.fstat(fd).st_mode
                if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
                    raise OSError(errno.EINVAL, "a pipe or device, where a file is expected")
                parts = [os.read(fd, _READ_SIZE)]
                while len(parts[-1]) == _READ_SIZE:
                    parts.append(os.read(fd, _READ_SIZE))
            return b"".join(parts)
        finally:
            self.open_files.close(fd)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        fd = self.open_files.opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            rest = memoryview(data)
            with naming(temporary):
                while rest:
                    rest = rest[os.write(fd, rest) :]
                if sync:
                    os.fsync(fd)
        except OSError:
            os.unlink(temporary)  # It would take the room that a full disk does not have.
            raise
        finally:
            self.open_files.close(fd)
        os.rename(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def sync_file(self, path: str) -> None:
        self._sync(path, os.O_RDONLY)

    def sync_directory(self, path: str) -> None:
        self._sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def _sync(self, path: str, flags: int) -> None:
        fd = self.open_files.opened(path, flags)
        try:
            os.fsync(fd)
        except OSError as error:
            raise FailedSync(error.errno, error.strerror, path) from error
        finally:
            self.open_files.close(fd)

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    def lock(self, path: str) -> None:
        fd = self.open_files.opened(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise BlockingIOError(error.errno, "in use by another process", path) from error
        self._locks.append(fd)  # Held until the process ends or `unlock_all`.

    def unlock_all(self) -> None:
        while self._locks:
            os.close(self._locks.pop())

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        await in_task()
        with trio.CancelScope(shield=True):
            found: list[tuple[Any, Exception | None]] = []
            with suppress(RuntimeError):
                await trio.to_thread.run_sync(attempt, found, function, args)
            if not found:  # No thread can be started: others then wait, but nothing fails.
                attempt(found, function, args)
        result, error = found.pop()
        if error is None:
            return result
        try:
            raise error
        finally:
            del error  # A frame of its traceback that had it would be a cycle, which keeps all that was passed.

    def run_all(self, functions: Sequence[Callable[[], None]]) -> Outcomes:
        outcomes: list[OSError | None] = [OSError(errno.EIO, "not completed") for _ in functions]
        left = iter(enumerate(functions))

        def work() -> None:
            for index, function in left:
                outcomes[index] = outcome(function)

        helpers = [threading.Thread(target=work, daemon=True) for _ in functions[1:_THREADS]]
        with suppress(RuntimeError):  # No further thread can be started.
            for helper in helpers:
                helper.start()
        try:
            work()
        finally:
            for helper in helpers:
                if helper.ident is not None:
                    helper.join()
        return outcomes

    def mutex(self) -> AbstractContextManager[object]:
        return threading.Lock()

    def lane(self, size_bytes: int) -> Lane:
        """Returns a process for much work, which in a thread would keep the interpreter from all other threads."""
        return ThreadLane(self) if size_bytes <= _THREAD_BYTES_MAX else ProcessLane(self.run)
