"""`ProducerSnapshots`: writes and loads the producer snapshot files of a log.

`00000000000000002120.snapshot` is the producer state before offset 2120. A snapshot is written when a segment is
rolled, at the base offset of the new segment, and when the log is closed. As in Kafka, each segment keeps its snapshot,
so that a recovery or truncation replays one segment rather than the whole log.

If there are many producers, the next flush encodes them, in its thread. Until then the snapshot is `pending`, and
further segments get no snapshot.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from minikafka.storage.disks.disk import Disk
from minikafka.storage.disks.disk_errors import is_passing
from minikafka.storage.logs.producer_state import CorruptSnapshot, FrozenProducers, ProducerStates
from minikafka.storage.segments.segment_names import DELETED, offset_name

SUFFIX = ".snapshot"
AT_ONCE = 5000
"""The largest number of producers that a roll encodes itself, in about 3 ms."""


class ProducerSnapshots:
    """The snapshots of one log. All methods may raise OSError.

    Args:
        offsets: the offsets in the names of the existing files.

    Attributes:
        offsets: the offsets of the snapshots, ascending.
        pending: the snapshot that the next flush writes; None if there is none.
        unsynced: the offsets of the snapshots that the next flush which reaches them includes, ascending.
    """

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[int]) -> None:
        self._disk = disk
        self.directory = directory
        self.offsets = sorted(offsets)
        self.pending: FrozenProducers | None = None
        self.unsynced: dict[int, None] = {}
        self._start = 0

    def path(self, offset: int) -> str:
        return f"{self.directory}/{offset_name(offset)}{SUFFIX}"

    def take(self, producers: ProducerStates) -> None:
        """Writes a snapshot, unless nothing was appended since the last snapshot, or the disk is full.

        Without a snapshot the next recovery reads more batches.
        """
        if self._is_new(producers.end_offset) and self.write(FrozenProducers(producers, producers.end_offset)):
            self.unsynced[producers.end_offset] = None
            insort(self.offsets, producers.end_offset)

    def _is_new(self, offset: int) -> bool:
        return offset > (self.offsets[-1] if self.offsets else self._start)

    def take_later(self, producers: ProducerStates) -> None:
        """As `take`, but for many producers the next flush writes the snapshot, unless another one is pending."""
        if len(producers) <= AT_ONCE:
            self.take(producers)
        elif self.pending is None and self._is_new(producers.end_offset):
            self.pending = producers.freeze()

    def write(self, frozen: FrozenProducers) -> bool:
        """Writes a snapshot file; returns whether the disk had room for it. For a worker thread."""
        try:
            self._disk.write_atomically(self.path(frozen.end_offset), frozen.encode(), sync=False)
        except OSError as error:
            if is_passing(error):
                return False
            raise
        return True

    def drop_pending(self) -> None:
        """Drops the pending snapshot, if any, and the frozen state that is kept for it."""
        if self.pending is not None:
            self.pending.states.thaw()
            self.pending = None

    def written(self, frozen: FrozenProducers) -> None:
        """Called after a flush has written and synced the snapshot that was pending when the flush began.

        If that snapshot is no longer the pending one, its file is removed, unless there is a snapshot at its offset.
        """
        offset = frozen.end_offset
        if self.pending is frozen:
            self.drop_pending()
            if offset not in self.offsets and self._disk.exists(self.path(offset)):
                insort(self.offsets, offset)
        elif offset not in self.offsets and self._disk.exists(self.path(offset)):
            self._disk.remove(self.path(offset))

    def load(self, producers: ProducerStates, *, start_offset: int, end_offset: int, expired_ms: int) -> None:
        """Loads the newest snapshot up to `end_offset`, and removes damaged snapshots.

        Without a snapshot the state is empty, at `start_offset`, where the first segment begins. Producers of deleted
        records remain known, as in a log that stays open: a snapshot at the start of an empty log has all these
        producers. Kafka removes that snapshot, and so forgets the producers with a restart
        (`ProducerStateManager.truncateAndReload`).
        """
        self.remove_above(end_offset)
        self._start = start_offset
        while self.offsets and self.offsets[-1] >= start_offset:
            offset = self.offsets[-1]
            try:
                producers.load_snapshot(self._disk.read_bytes(self.path(offset)), offset, expired_ms)
                return
            except (CorruptSnapshot, FileNotFoundError):
                self._remove(offset)
        producers.clear(start_offset)

    def remove_strays(self, bases: list[int]) -> None:
        """Removes all snapshots except the newest and those at the base offset of a segment."""
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
        """Renames the snapshots before `offset`, like their deleted segments; returns the new paths.

        If a snapshot is pending and no other snapshot would be left, a snapshot of the present state is written first.
        Otherwise, if the process ended before the next flush, no snapshot and no record would name these producers.
        """
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
