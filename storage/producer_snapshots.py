"""The files of producer snapshots: `00000000000000002120.snapshot` is the state before offset 2120.

One is taken when a segment is rolled, at its base offset, and one when the log is closed. As in Kafka each
segment keeps its own, so that what has to be read again after a crash or a truncation is a segment, not a log.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from minikafka.storage.disk import Disk
from minikafka.storage.producer_state import CorruptSnapshot, ProducerStates
from minikafka.storage.segment import DELETED, offset_name

SUFFIX = ".snapshot"


class ProducerSnapshots:
    """The snapshots of one log. All methods may raise OSError.

    Args:
        offsets: the digits that the files' names begin with.

    Attributes:
        offsets: at which there is one, growing.
        unsynced: files that the next flush must sync.
    """

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[str]) -> None:
        self._disk = disk
        self.directory = directory
        self.offsets = sorted(int(text) for text in offsets if text.isdigit())
        self.unsynced: list[str] = []
        self._start = 0

    def path(self, offset: int) -> str:
        return f"{self.directory}/{offset_name(offset)}{SUFFIX}"

    def take(self, producers: ProducerStates) -> None:
        """Write the state, unless nothing was appended since the last snapshot."""
        offset = producers.end_offset
        if offset <= (self.offsets[-1] if self.offsets else self._start):
            return
        path = self.path(offset)
        self._disk.write_atomically(path, producers.encode_snapshot(), sync=False)
        self.unsynced.append(path)
        insort(self.offsets, offset)

    def load(self, producers: ProducerStates, *, start_offset: int, end_offset: int, now_ms: int) -> None:
        """Load the newest that is not beyond `end_offset`; broken ones are removed. Without any the state is
        empty, at the log's start."""
        self.remove_above(end_offset)
        self._start = start_offset
        while self.offsets and self.offsets[-1] > start_offset:
            offset = self.offsets[-1]
            try:
                producers.load_snapshot(self._disk.read_bytes(self.path(offset)), offset, now_ms)
                return
            except (CorruptSnapshot, FileNotFoundError):
                self._remove(offset)
        producers.clear(start_offset)

    def remove_strays(self, bases: list[int]) -> None:
        """Keep those at the base of a segment, and the newest of all."""
        known = set(bases)
        for offset in self.offsets[:-1]:
            if offset not in known:
                self._remove(offset)

    def restart(self, offset: int) -> None:
        """Remove all: the log begins anew at `offset`."""
        self.remove_above(-1)
        self._start = offset

    def remove_above(self, offset: int) -> None:
        for beyond in self.offsets[bisect_right(self.offsets, offset) :]:
            self._remove(beyond)

    def mark_deleted_below(self, offset: int) -> list[str]:
        """Rename those before `offset`, as is done with the segments they belong to; returns the new paths."""
        count = bisect_left(self.offsets, offset)
        marked: list[str] = []
        for old in self.offsets[:count]:
            path = self.path(old)
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED)
                marked.append(path + DELETED)
        del self.offsets[:count]
        return marked

    def _remove(self, offset: int) -> None:
        self.offsets.remove(offset)
        path = self.path(offset)
        if self._disk.exists(path):
            self._disk.remove(path)
        if path in self.unsynced:
            self.unsynced.remove(path)
