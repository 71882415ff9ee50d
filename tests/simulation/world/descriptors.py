"""The file descriptors of a simulated process. Files are opened and closed as `RealDisk` does it."""

from __future__ import annotations

import errno
from collections import Counter, deque
from collections.abc import Callable

from minikafka.storage.disks.memory_content import Content
from minikafka.storage.disks.memory_disk import MemoryDisk, MemoryFile

_KEPT_MAX = 4096


class Descriptors:
    """The descriptors of one process.

    Args:
        limit: RLIMIT_NOFILE.
        used_elsewhere: the number of connections and listeners.
        effects: where calls without a descriptor are counted.

    Attributes:
        locks: the number of locked files.
    """

    def __init__(self, limit: int, used_elsewhere: Callable[[], int], effects: Counter[str]) -> None:
        self.limit = limit
        self.locks = 0
        self._used_elsewhere = used_elsewhere
        self._effects = effects
        self._kept_max = min(_KEPT_MAX, limit // 3)
        self._open_files: deque[DescriptorFile] = deque()
        self._open_count = 0

    @property
    def in_files(self) -> int:
        """How many are files."""
        return self._open_count + self.locks

    @property
    def in_use(self) -> int:
        return self.in_files + self._used_elsewhere()

    def make_room(self, path: str) -> None:
        """Closes files if too many are open. Raises OSError if not one descriptor is free."""
        if self._open_count >= self._kept_max:
            self._sweep()
        if self.in_use >= self.limit:
            self._give_way()
        self.require(path)

    def _give_way(self) -> None:
        """Connections have taken the descriptors: keeps fewer files open from now on."""
        self._kept_max = max(1, min(self._kept_max, self._open_count) * 3 // 4)
        self._sweep()

    def require(self, path: str) -> None:
        """Raises OSError if not one descriptor is free."""
        if self.in_use >= self.limit:
            self._effects["no descriptors"] += 1
            raise OSError(errno.EMFILE, "Too many open files", path)

    def take(self, file: DescriptorFile) -> None:
        """Opens a file, and closes others if too many are open. Raises OSError."""
        self.make_room(file.path)
        self._open_count += 1
        self._open_files.append(file)

    def give_back(self) -> None:
        self._open_count -= 1

    def _sweep(self) -> None:
        for _ in range(2 * len(self._open_files)):
            if not self._open_files:
                return
            file = self._open_files.popleft()
            if not file.is_open:
                continue
            if file.used or file.holds:
                file.used = False
                self._open_files.append(file)
                continue
            file.try_close()
            if self._open_count < self._kept_max:
                return


class DescriptorFile(MemoryFile):
    """A file that has a descriptor while it is in use, like `RealFile`."""

    __slots__ = ("_closing", "_descriptors", "_find", "holds", "is_open", "used")

    def __init__(
        self, disk: MemoryDisk, path: str, content: Content, descriptors: Descriptors, find: Callable[[str], Content]
    ) -> None:
        super().__init__(disk, path, content)
        self._descriptors = descriptors
        self._find = find
        self._closing = False
        self.holds = 0
        self.used = True
        descriptors.take(self)
        self.is_open = True

    def _check(self, kind: str) -> None:
        self.fileno()
        super()._check(kind)

    def sync(self) -> None:
        self._reopen()
        super().sync()

    def fileno(self) -> int:
        self.used = True
        self._reopen()
        return -1

    def _reopen(self) -> None:
        """By its path: a file that was removed or replaced meanwhile is not found again."""
        if self.is_open:
            return
        if self._generation != self._disk.generation:
            raise self._outdated()
        self._descriptors.take(self)
        try:
            self._content = self._find(self.path)
        except OSError:
            self._descriptors.give_back()
            raise
        self.is_open = True

    def hold(self) -> None:
        self.fileno()
        self.holds += 1

    def release(self) -> None:
        self.holds -= 1
        if self._closing and not self.holds:
            self.try_close()

    def close(self) -> None:
        self._closing = not self.try_close()

    def try_close(self) -> bool:
        """Gives the descriptor back unless held; returns whether the file is closed."""
        if self.holds:
            return False
        if self.is_open:
            self.is_open = False
            self._descriptors.give_back()
        return True
