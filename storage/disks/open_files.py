"""`OpenFiles`: limits the open file descriptors of a `RealDisk`, and keeps a reserve of descriptors.

A file opens its descriptor on use. When too many files are open, descriptors are closed by the second-chance algorithm:
files that were not used since the last sweep are closed first. A file that is held, for a worker thread or sendfile,
stays open; a sweep does not examine held files.

Only the thread that created the `OpenFiles`, which is the thread of the event loop, closes files when descriptors run
out, since that thread may be using any file that is not held. Other threads take descriptors from the reserve, and the
files that they open stay open until they close them.
"""

import os
import threading
import weakref
from collections import OrderedDict
from typing import Protocol

from minikafka.storage.disks.disk_errors import NO_DESCRIPTORS

__all__ = ["OpenFiles"]

_RESERVE = 8


class Sweepable(Protocol):
    """An open file that is not held."""

    used: bool

    @property
    def path(self) -> str: ...

    def try_close(self) -> bool:
        """Closes the descriptor, and calls `OpenFiles.closed`."""
        ...


class OpenFiles:
    """The open descriptors of one disk.

    Args:
        count_max: the number of descriptors to keep open, exceeded only by held files.

    Attributes:
        count: the number of open files.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._sweepable: OrderedDict[Sweepable, None] = OrderedDict()
        self.count = 0
        self._home = threading.get_ident()
        self._lock = threading.Lock()
        """Protects the count and the reserve."""
        self._ran_out = False
        """Whether descriptors have run out in another thread, which could not close files itself."""
        self._reserve: list[int] = []
        self._fill_reserve()
        weakref.finalize(self, _close_all, self._reserve)

    def descriptor(self, file: Sweepable, flags: int) -> int:
        """Opens a file; closes other files if too many are open, or if descriptors have run out in another thread."""
        at_home = self._at_home()
        if at_home and self._ran_out:
            self._ran_out = False
            self._keep_fewer()
        if at_home and self.count >= self._count_max:
            self._sweep()
        fd = self.opened(file.path, flags)
        with self._lock:
            self.count += 1
        if at_home:
            self._sweepable[file] = None
        return fd

    def held(self, file: Sweepable) -> None:
        self._sweepable.pop(file, None)

    def released(self, file: Sweepable) -> None:
        if self._at_home():
            self._sweepable[file] = None
            if self.count > self._count_max:
                self._sweep()

    def closed(self, file: Sweepable) -> None:
        self._sweepable.pop(file, None)
        with self._lock:
            self.count -= 1

    def opened(self, path: str, flags: int) -> int:
        """Opens a path. If descriptors have run out, closes other files, or gives up a descriptor of the reserve."""
        while True:
            try:
                return os.open(path, flags | os.O_CLOEXEC, 0o644)
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or not self._give_way():
                    raise

    def close(self, fd: int) -> None:
        """Closes a descriptor that `opened` has returned."""
        with self._lock:
            if self._reserve and len(self._reserve) < _RESERVE:  # At once: nobody else gets the descriptor.
                os.dup2(self._reserve[-1], fd, inheritable=False)
                self._reserve.append(fd)
                return
            os.close(fd)
            self._fill_reserve()

    def _at_home(self) -> bool:
        return threading.get_ident() == self._home

    def _sweep(self) -> None:
        """Closes files until there is room for another file, or all open files are held.

        A file that was used since the last sweep is passed over once. So in the long run a sweep examines no more files
        than are used and opened.
        """
        while self._sweepable and self.count >= self._count_max:
            file, _ = self._sweepable.popitem(last=False)
            if file.used:
                file.used = False
                self._sweepable[file] = None
            else:
                file.try_close()

    def _give_way(self) -> bool:
        """Frees a descriptor after descriptors ran out; returns whether one was freed.

        The thread of the event loop closes files, and keeps fewer files open from now on. If that frees none, and in
        other threads, a descriptor of the reserve is closed.
        """
        if not self._at_home():
            self._ran_out = True
        elif self._keep_fewer():
            return True
        with self._lock:
            if self._reserve:
                os.close(self._reserve.pop())
                return True
        return False

    def _keep_fewer(self) -> bool:
        """Lowers the number of files to keep open, and closes files beyond it. Returns whether a file was closed."""
        before = self.count
        self._count_max = max(1, min(self._count_max, before) * 3 // 4)
        self._sweep()
        return self.count < before

    def _fill_reserve(self) -> None:
        """Fills up the reserve with descriptors, as far as the process can open any."""
        try:
            while len(self._reserve) < _RESERVE:
                self._reserve.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS:
                raise


def _close_all(descriptors: list[int]) -> None:
    for fd in descriptors:
        os.close(fd)
