"""`Flush`: flushes a log, with fsyncs of batches, indexes, producer snapshots, leader epochs, then the directories.

The recovery point advances only after all these fsyncs. Everything below the recovery point, including the indexes, can
be trusted after a crash. Two things are not flushed, since the next start finds them out by itself: that the indexes of
an empty segment are empty, and that a log which never had records has no leader epochs.
"""

from collections.abc import Iterable
from itertools import takewhile

from minikafka.storage.disks.disk import File
from minikafka.storage.logs.log_state import LogState
from minikafka.storage.segments.segment import Segment


class Flush:
    """One flush of a log. It holds the files open for a worker thread, which calls `sync` and nothing else.

    A flush includes up to `segments_max` segments (`FlushTurns`). It also includes the touched segments
    (`Unflushed.touched`) below the offset that the flush reaches: all of them must be on the device before the recovery
    point advances to that offset. The other segments are left to the next flush: while a flush waits for the disk, any
    number of segments may be rolled.

    Args:
        offset: the offset to flush up to.

    Attributes:
        offset: the offset that this flush reaches; lower than requested if there are many segments.
        directory: the path of the log's directory when the flush began.
        truncations: the log's number of truncations when the flush began.
        parent: the path of the data directory, if the name of the log may not be durable there; None otherwise.
    """

    def __init__(self, log: LogState, offset: int) -> None:
        self.offset = offset
        unflushed = log.unflushed
        self.truncations = unflushed.truncations
        self.directory = log.directory
        self._disk = log.disk
        segments = log.segments
        first = max(0, segments.floor(unflushed.recovery_point))
        until = segments.floor(max(offset - 1, segments.bases[0])) + 1
        at_most = log.disk.flush_turns.segments_max
        if until > first + at_most:
            until = first + at_most
            self.offset = segments.bases[until]
        room = at_most - max(0, until - first)
        end = segments.bases[until] if until < len(segments) else log.end_offset + 1
        self._epochs = log.epochs.unsynced and log.end_offset > 0
        if self._epochs:
            log.epochs.complete()
        self._touched = _below(unflushed.touched, end, room)
        self._snapshots = dict.fromkeys(takewhile(lambda one: one <= self.offset, log.snapshots.unsynced))
        self._small, self._names = unflushed.paths, unflushed.names
        frozen = log.snapshots.pending
        self._frozen = frozen if frozen is not None and frozen.end_offset <= self.offset else None
        self._write_snapshot = log.snapshots.write
        found = list(dict.fromkeys([*self._touched, *(segments[index] for index in range(first, until))]))
        for segment in found:
            segment.transactions.complete()
        self._new_indexes = [one.transactions for one in found if one.transactions.created]
        self._files: list[File] = []
        self._hold(file for segment in found for file in (segment.files if segment.size else [segment.log]))
        written = [] if self._frozen is None else [self._frozen.end_offset]
        self._paths = [*map(log.snapshots.path, self._snapshots | dict.fromkeys(written)), *self._small]
        if self._epochs:
            self._paths.append(log.epochs.path)
        has_names = self._names or self._paths or self._new_indexes
        self.parent = log.directory.rpartition("/")[0] or "/" if has_names else None
        self._settle = unflushed.settle
        for segment in self._touched:
            del unflushed.touched[segment]
        for snapshot in self._snapshots:
            del log.snapshots.unsynced[snapshot]
        unflushed.paths = []
        log.epochs.unsynced &= not self._epochs
        unflushed.names = False
        self._set_created(False)

    def _hold(self, files: Iterable[File]) -> None:
        try:
            for file in files:
                file.hold()
                self._files.append(file)
        except OSError:
            self.release()
            raise

    def give_back(self, log: LogState) -> None:
        """Undoes the beginning of this flush after a failed `sync`, so that the next flush does all of its work."""
        unflushed = log.unflushed
        unflushed.touched = {one: None for one in (self._touched | unflushed.touched) if not one.is_deleted}
        log.snapshots.unsynced = self._snapshots | log.snapshots.unsynced
        unflushed.paths = [*self._small, *unflushed.paths]
        log.epochs.unsynced |= self._epochs
        unflushed.names |= self._names
        self._set_created(True)

    def _set_created(self, created: bool) -> None:
        for index in self._new_indexes:
            index.created = created

    def sync(self) -> None:
        """Flushes the files and directories. Blocking.

        Raises OSError, after which the log must go offline, unless the error is passing (`disk_errors`).
        """
        self.sync_within()
        if self.parent is not None:
            self._disk.sync_directory(self.parent)

    def sync_within(self) -> None:
        """As `sync`, but without the sync of `parent`.

        The caller syncs `parent` once for many logs, before it writes their recovery points.
        """
        if self._settle is not None:
            self._settle()
        for file in self._files:
            file.sync()
        if self._frozen is not None:
            self._write_snapshot(self._frozen)
        for path in self._paths:
            if self._disk.exists(path):
                self._disk.sync_file(path)
        if self.parent is not None:
            self._disk.sync_directory(self.directory)

    def end(self, log: LogState) -> None:
        """Completes the flush after `sync`: the producer snapshot that `sync` wrote counts as written."""
        if self._frozen is not None:
            log.snapshots.written(self._frozen)

    def release(self) -> None:
        for file in self._files:
            file.release()


def _below(touched: dict[Segment, None], offset: int, room: int) -> dict[Segment, None]:
    """Returns the segments that begin before `offset`, and more of the others while there are fewer than `room`."""
    found: dict[Segment, None] = {}
    for segment in touched:  # Ascending, as only the last segment of a log is touched.
        if segment.base_offset >= offset and len(found) >= room:
            break
        found[segment] = None
    return found
