"""Producer snapshot files: `00000000000000002120.snapshot` is the producer state before offset 2120.

A snapshot is written when a segment is rolled, at its base offset, and when the log is closed. As in Kafka, each
segment keeps its snapshot, so that a recovery or truncation replays one segment rather than the log.

Many producers are encoded by the next flush, in its thread. Until then the snapshot is `pending`, and further segments
get none.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from minikafka.storage.disk import Disk
from minikafka.storage.disk_errors import is_passing
from minikafka.storage.producer_state import CorruptSnapshot, FrozenProducers, ProducerStates
from minikafka.storage.segment_names import DELETED, offset_name

SUFFIX = ".snapshot"
AT_ONCE = 5000
"""Producers that a roll encodes itself, in about 3 ms."""


class ProducerSnapshots:
    """The snapshots of one log. All methods may raise OSError.

    Args:
        offsets: the offsets in the names of the existing files.

    Attributes:
        offsets: the offsets of the snapshots, ascending.
        pending: the one that the next flush writes.
        unsynced: the offsets of those to include in the next flush that reaches them, ascending.
    """

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[str]) -> None:
        self._disk = disk
        self.directory = directory
        self.offsets = sorted(int(text) for text in offsets if text.isdigit())
        self.pending: FrozenProducers | None = None
        self.unsynced: dict[int, None] = {}
        self._start = 0

    def path(self, offset: int) -> str:
        return f"{self.directory}/{offset_name(offset)}{SUFFIX}"

    def take(self, producers: ProducerStates) -> None:
        """Writes a snapshot unless nothing was appended since the last one, or the disk is full: the next recovery then
        reads more batches."""
        if self._is_new(producers.end_offset) and self.write(FrozenProducers(producers, producers.end_offset)):
            self.unsynced[producers.end_offset] = None
            insort(self.offsets, producers.end_offset)

    def _is_new(self, offset: int) -> bool:
        return offset > (self.offsets[-1] if self.offsets else self._start)

    def take_later(self, producers: ProducerStates) -> None:
        """As `take`, but of many producers the next flush writes a snapshot, unless it has one to write already."""
        if len(producers) <= AT_ONCE:
            self.take(producers)
        elif self.pending is None and self._is_new(producers.end_offset):
            self.pending = producers.freeze()

    def write(self, frozen: FrozenProducers) -> bool:
        """Returns whether there was room; for a worker thread."""
        try:
            self._disk.write_atomically(self.path(frozen.end_offset), frozen.encode(), sync=False)
        except OSError as error:
            if is_passing(error):
                return False
            raise
        return True

    def drop_pending(self) -> None:
        """There is no pending snapshot any more, and nothing is kept for it."""
        if self.pending is not None:
            self.pending.states.thaw()
            self.pending = None

    def written(self, frozen: FrozenProducers) -> None:
        """Called after the flush that wrote and synced the pending snapshot, or what was pending when it began."""
        offset = frozen.end_offset
        if self.pending is frozen:
            self.drop_pending()
            if offset not in self.offsets and self._disk.exists(self.path(offset)):
                insort(self.offsets, offset)
        elif offset not in self.offsets and self._disk.exists(self.path(offset)):
            self._disk.remove(self.path(offset))

    def load(self, producers: ProducerStates, *, start_offset: int, end_offset: int, now_ms: int) -> None:
        """Loads the newest snapshot up to `end_offset` and removes damaged ones. Without a snapshot the state is empty,
        at `start_offset`, where the first segment begins.

        As in a log that stays open, producers of deleted records remain: a snapshot at the start of an empty log has
        all of them. Kafka removes it, and forgets them with a restart (`ProducerStateManager.truncateAndReload`).
        """
        self.remove_above(end_offset)
        self._start = start_offset
        while self.offsets and self.offsets[-1] >= start_offset:
            offset = self.offsets[-1]
            try:
                producers.load_snapshot(self._disk.read_bytes(self.path(offset)), offset, now_ms)
                return
            except (CorruptSnapshot, FileNotFoundError):
                self._remove(offset)
        producers.clear(start_offset)

    def remove_strays(self, bases: list[int]) -> None:
        """Removes all snapshots except those at a base offset and the newest."""
        known = set(bases)
        for offset in self.offsets[:-1]:
            if offset not in known:
                self._remove(offset)

    def restart(self, offset: int) -> None:
        """Removes all snapshots: the log restarts at `offset`."""
        self.remove_above(-1)
        self._start = offset

    def remove_above(self, offset: int) -> None:
        if self.pending is not None and self.pending.end_offset > offset:
            self.drop_pending()
        for beyond in self.offsets[bisect_right(self.offsets, offset) :]:
            self._remove(beyond)

    def mark_deleted_below(self, offset: int, producers: ProducerStates) -> list[str]:
        """Renames the snapshots before `offset` like their segments; returns the new paths. One is left, or what is
        pending would be lost with the process, and no records would tell of these producers."""
        if self.pending is not None and (not self.offsets or self.offsets[-1] < offset):
            self.take(producers)
        if self.pending is not None and self.pending.end_offset < offset:
            self.drop_pending()
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
        self.unsynced.pop(offset, None)
