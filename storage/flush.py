"""Flushes a log: fsync of batches, indexes, producer snapshots and leader epochs, then of the directories.

The recovery point advances only after all of them; everything below it, including the indexes, can be trusted after a
crash.
"""

from collections.abc import Iterable

from minikafka.storage.disk import File
from minikafka.storage.log_state import LogState

_SEGMENTS_MAX = 32
"""Segments held open during one flush."""


class Flush:
    """One flush: holds files of a log open for a worker thread, which calls `sync` and nothing else.

    Args:
        offset: the offset to flush up to.

    Attributes:
        offset: the offset that this flush reaches: lower than requested if there are many segments.
        directory: that of the log when the flush began.
        truncations: the log's number of truncations when the flush began.
    """

    def __init__(self, log: LogState, offset: int) -> None:
        self.offset = offset
        self.truncations = log.truncations
        self.directory = log.directory
        self._disk = log.disk
        segments = log.segments
        first = max(0, segments.floor(log.recovery_point))
        until = segments.floor(max(offset - 1, segments.bases[0])) + 1
        if until > first + _SEGMENTS_MAX:
            until = first + _SEGMENTS_MAX
            self.offset = segments.bases[until]
        log.epochs.complete()
        self._touched, self._snapshots, self._small = log.touched, log.snapshots.unsynced, log.unsynced_paths
        self._epochs, self._names = log.epochs.unsynced, log.directory_unsynced
        found = [*self._touched, *(segments[index] for index in range(first, until))]
        for segment in found:
            segment.transactions.complete()
        self._new_indexes = [one.transactions for one in found if one.transactions.created]
        self._files: list[File] = []
        self._hold(file for segment in found for file in segment.files)
        self._paths = [*self._snapshots, *self._small]
        if self._epochs:
            self._paths.append(log.epochs.path)
        self._directories: list[str] = []
        if self._names or self._paths or self._new_indexes:
            self._directories = [log.directory, log.directory.rpartition("/")[0] or "/"]
        self._settle = log.unsettled
        log.touched, log.snapshots.unsynced, log.unsynced_paths = [], [], []
        log.epochs.unsynced = log.directory_unsynced = False
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
        """After a `sync` that was not possible, without descriptors: the next flush is to do all of it."""
        touched = [*self._touched, *(one for one in log.touched if one not in self._touched)]
        log.touched = [one for one in touched if not one.is_deleted]
        log.snapshots.unsynced = [*self._snapshots, *log.snapshots.unsynced]
        log.unsynced_paths = [*self._small, *log.unsynced_paths]
        log.epochs.unsynced |= self._epochs
        log.directory_unsynced |= self._names
        self._set_created(True)

    def _set_created(self, created: bool) -> None:
        for index in self._new_indexes:
            index.created = created

    def sync(self) -> None:
        """Raises OSError, after which the log must go offline, unless it is passing (`disk_errors`)."""
        if self._settle is not None:
            self._settle()
        for file in self._files:
            file.sync()
        for path in self._paths:
            if self._disk.exists(path):
                self._disk.sync_file(path)
        for directory in self._directories:
            self._disk.sync_directory(directory)

    def release(self) -> None:
        for file in self._files:
            file.release()
