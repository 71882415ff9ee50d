"""The open descriptors of a `RealDisk`: how many, which of them to close, and a reserve.

A file opens itself on use and may be closed when too many are open, by the second-chance algorithm: files not used
since the last sweep are closed first. A file that is held, for a worker thread or sendfile, stays open; no sweep comes
across it.

Only the thread that made the `OpenFiles`, which is that of the event loop, closes files for want of descriptors: a file
that nobody holds may be in use by it at any moment. Other threads take from the reserve, and what they open stays open
until they close it.
"""

import os
import threading
import weakref
from collections import OrderedDict
from typing import Protocol

from minikafka.storage.disk_errors import NO_DESCRIPTORS

__all__ = ["OpenFiles"]

_RESERVE = 8


class Sweepable(Protocol):
    """An open file that is not held."""

    used: bool

    @property
    def path(self) -> str: ...

    def try_close(self) -> bool:
        """Closes the descriptor, and says so by `OpenFiles.closed`."""
        ...


class OpenFiles:
    """See above.

    Args:
        count_max: the number of descriptors to keep open, exceeded only by held files.

    Attributes:
        count: that of the open files.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._sweepable: OrderedDict[Sweepable, None] = OrderedDict()
        self.count = 0
        self._home = threading.get_ident()
        self._lock = threading.Lock()
        """For the count and the reserve."""
        self._ran_out = False
        """In another thread, which has closed no file for it."""
        self._reserve: list[int] = []
        self._fill_reserve()
        weakref.finalize(self, _close_all, self._reserve)

    def descriptor(self, file: Sweepable, flags: int) -> int:
        """Opens a file; closes others if too many are open, or if descriptors have run out in another thread."""
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
        """Opens a path; if descriptors have run out, closes files for it, or gives up one of the reserve."""
        while True:
            try:
                return os.open(path, flags | os.O_CLOEXEC, 0o644)
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS or not self._give_way():
                    raise

    def close(self, fd: int) -> None:
        """Closes what `opened` returned."""
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
        """Closes files until there is room for one more, or all others are held. A file that is passed over has been
        used since the last time: in the long run no more are looked at than are used and opened."""
        while self._sweepable and self.count >= self._count_max:
            file, _ = self._sweepable.popitem(last=False)
            if file.used:
                file.used = False
                self._sweepable[file] = None
            else:
                file.try_close()

    def _give_way(self) -> bool:
        """Keeps fewer files open from now on, since descriptors ran out; returns whether one was closed."""
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
        """Returns whether one was closed."""
        before = self.count
        self._count_max = max(1, min(self._count_max, before) * 3 // 4)
        self._sweep()
        return self.count < before

    def _fill_reserve(self) -> None:
        """Takes descriptors for the reserve again, as far as there are any."""
        try:
            while len(self._reserve) < _RESERVE:
                self._reserve.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS:
                raise


def _close_all(descriptors: list[int]) -> None:
    for fd in descriptors:
        os.close(fd)
