"""The disk of a simulated machine as one process of it sees it: with the faults in force, until the process ends."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

import trio

from minikafka.storage.disks.memory_content import Content, Directory
from minikafka.storage.disks.memory_disk import MemoryDisk, MemoryFile
from simulation.world.descriptors import DescriptorFile, Descriptors
from simulation.world.disk_faults import FREE_BYTES, DiskFaults, NoDisk

Result = TypeVar("Result")
SHORT_S = 0.1
"""A shorter call takes effect at its beginning or at its end, so that it is one wait instead of two."""


class ProcessDisk(MemoryDisk):
    """A `Disk` for one process. Created by `SimulatedDisk.attach`.

    After `kill` every method, and every method of its files, raises ProcessEnded or OSError and has no effect.

    Attributes:
        alive: the process has not ended.
        descriptors: the descriptors of the process; None if it has as many as it wants.
    """

    def __init__(
        self,
        *,
        root: Directory,
        known: dict[str, Directory],
        locks: dict[Content, ProcessDisk],
        faults: DiskFaults,
        descriptors: Descriptors | None,
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__(faults.random, now_ms=now_ms)
        self._root = root
        self._known = known
        self._locks = locks
        self._in_force = faults
        self.descriptors = descriptors
        self.alive = True

    def kill(self) -> None:
        """Ends the process: what it wrote stays, its locks are released."""
        self.alive = False
        self.unlock_all()
        self.generation += 1
        self._in_force = NoDisk()
        self.descriptors = None

    def crash(self) -> None:
        raise NotImplementedError("the power of the machine fails: SimulatedDisk.power_failure")

    def call(self, kind: str, path: str) -> None:
        self.calls[kind] += 1
        if self._in_force.watched:
            self._in_force.meet(kind, path)

    def allocate(self, path: str, size_bytes: int) -> int:
        return self._in_force.allocate(path, size_bytes) if self._in_force.limits else size_bytes

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if self.descriptors is None:
            return MemoryFile(self, path, self._opened(path, create=create))
        self.descriptors.make_room(path)
        return DescriptorFile(self, path, self._opened(path, create=create), self.descriptors, self._reopened)

    def _opened(self, path: str, *, create: bool) -> Content:
        if self._in_force.watched:
            self._in_force.meet("modify", path)
        return super()._opened(path, create=create)

    def _reopened(self, path: str) -> Content:
        return self._opened(path, create=False)

    def _require_descriptor(self, path: str) -> None:
        if self.descriptors is not None:
            self.descriptors.require(path)

    def list(self, directory: str) -> list[str]:
        self._require_descriptor(directory)
        return super().list(directory)

    def make_directory(self, path: str) -> None:
        if self._in_force.watched and isinstance(self._find(path), Directory):
            self.call("stat", path)  # On a read-only file system the directory is found before the write is refused.
        else:
            super().make_directory(path)

    def remove_tree(self, path: str) -> None:
        self._require_descriptor(path)
        super().remove_tree(path)

    def read_bytes(self, path: str) -> bytes:
        self._require_descriptor(path)
        return super().read_bytes(path)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._require_descriptor(path)
        super().write_atomically(path, data, sync=sync)

    def sync_file(self, path: str) -> None:
        self._require_descriptor(path)
        self.call("open", path)
        super().sync_file(path)

    def sync_directory(self, path: str) -> None:
        self._require_descriptor(path)
        super().sync_directory(path)

    def free_bytes(self, path: str) -> int:
        self.call("stat", path)
        if self._find(path) is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self._in_force.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        self.free_bytes(path)
        return FREE_BYTES

    def lock(self, path: str) -> None:
        self._require_descriptor(path)
        content = self._opened(path, create=True)
        if content in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "in use by another process", path)
        self._locks[content] = self
        if self.descriptors is not None:
            self.descriptors.locks += 1

    def unlock_all(self) -> None:
        for content in [content for content, owner in self._locks.items() if owner is self]:
            del self._locks[content]
        if self.descriptors is not None:
            self.descriptors.locks = 0

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        """As a worker thread: `function` takes effect at some time between the call and the return."""
        delay = self._in_force.delay(function, args)
        if not delay:
            await trio.lowlevel.cancel_shielded_checkpoint()
            return function(*args)
        before = delay * self._in_force.random.random()
        if delay < SHORT_S:
            before = delay if 2 * before > delay else 0.0
        with trio.CancelScope(shield=True):
            if before:
                await trio.sleep(before)
            try:
                return function(*args)
            finally:
                if before < delay:
                    await trio.sleep(delay - before)
