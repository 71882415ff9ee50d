"""A disk in memory whose n-th call fails, for tests that have each operation of something fail."""

from __future__ import annotations

import errno
from random import Random

from minikafka.storage.disks.memory_disk import MemoryDisk

FOR_ROOM = {"open", "write", "mkdir"}
FOR_DESCRIPTORS = {"open", "list"}


class FaultyDisk(MemoryDisk):
    """The calls from a number on fail, as many as are set, of the kinds that can fail so.

    Attributes:
        failed: what failed: the kind of the call, and its path.
    """

    def __init__(self, seed: str, *, syncs_fail: bool) -> None:
        super().__init__(Random(seed))
        self.failed: list[tuple[str, str]] = []
        self.syncs_fail = syncs_fail
        self._number, self._first, self._times, self._code = 0, -1, 0, 0
        self._under = ""

    def fail_from(self, first: int, times: int, code: int, under: str = "") -> None:
        self._number, self._first, self._times, self._code, self._under = 0, first, times, code, under

    def call(self, kind: str, path: str) -> None:
        super().call(kind, path)
        kinds = {errno.ENOSPC: FOR_ROOM, errno.EMFILE: FOR_DESCRIPTORS}.get(self._code)
        if not path.startswith(self._under) or (kinds is not None and kind not in kinds):
            return
        if kind == "sync" and not self.syncs_fail:
            return
        number, self._number = self._number, self._number + 1
        if self._first <= number < self._first + self._times and self._code:
            self.failed.append((kind, path))
            raise OSError(self._code, "injected fault", path)

    def heal(self) -> None:
        """No call fails from now on."""
        super().heal()
        self._code = 0
