"""`DirectoryCheckpoints`: reads and writes the checkpoint files of a data directory, which have offsets of its logs."""

from collections.abc import Iterable, Mapping

from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.offset_checkpoint import OffsetCheckpoint, Prepared
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint
from minikafka.storage.disks.disk import Disk
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import Checkpointed
from minikafka.storage.steps import at_once

Logs = dict[TopicPartition, Log]


class DirectoryCheckpoints:
    """The checkpoint files of a data directory.

    A `prepare_…` method collects in steps what a file is to contain, and returns a function that writes the file, for a
    worker thread; the `write_…` method of the same name does both at once. Methods raise OSError, after which the
    directory must go offline.

    Attributes:
        recovery_points: the offsets up to which logs have been flushed.
        start_offsets: log start offsets that DeleteRecords has moved.
        high_watermarks: high watermarks.
        cleaner_offsets: the offsets up to which compacted logs are clean.
    """

    def __init__(self, disk: Disk, path: str, logs: Logs, futures: Logs, unopened: set[TopicPartition]) -> None:
        """Takes the open logs of the directory, its open future logs, and those that are there but not open."""
        self._disk = disk
        self._path = path
        self._logs = logs
        self._futures = futures
        self._unopened = unopened
        self.recovery_points = OffsetCheckpoint(disk, f"{path}/{checkpoint_files.RECOVERY_POINTS}")
        self.start_offsets = OffsetCheckpoint(disk, f"{path}/{checkpoint_files.LOG_START_OFFSETS}")
        self.high_watermarks = OffsetCheckpoint(disk, f"{path}/{checkpoint_files.HIGH_WATERMARKS}")
        self.cleaner_offsets = OffsetCheckpoint(disk, f"{path}/{checkpoint_files.CLEANER_OFFSETS}")

    def read(self) -> list[str]:
        """Reads the files, and returns messages about invalid ones, which safely count as empty."""
        warnings: list[str] = []
        for checkpoint in self._all():
            try:
                checkpoint.read()
            except BrokenCheckpoint as error:
                warnings.append(str(error))
        return warnings

    def _all(self) -> Iterable[OffsetCheckpoint]:
        return self.recovery_points, self.start_offsets, self.high_watermarks, self.cleaner_offsets

    def forget(self, key: TopicPartition) -> None:
        """Removes the offsets of an earlier log with the same name."""
        known = {checkpoint for checkpoint in self._all() if checkpoint.forget(key)}
        for checkpoint, prepare in (
            (self.cleaner_offsets, self._prepare_cleaner_offsets),
            (self.recovery_points, self.prepare_recovery_points),
            (self.start_offsets, self.prepare_start_offsets),
        ):
            if checkpoint in known:
                at_once(prepare())()

    def of_log(self, key: TopicPartition, *, was_clean: bool) -> Checkpointed:
        """Returns the offsets in the files for a log that is not open yet, after a clean or an unclean shutdown."""
        recovery_points = self.recovery_points.offsets
        recovery_point, start_offset = recovery_points.get(key, 0), self.start_offsets.offsets.get(key, 0)
        cleaner_offset = self.cleaner_offsets.offsets.get(key, 0 if recovery_points else None)
        return Checkpointed(was_clean, recovery_point, start_offset, cleaner_offset)

    def truncated(self, key: TopicPartition, recovery_point: int) -> None:
        """Called before a log is truncated to its recovery point, which has been lowered.

        Writes the recovery points, and lowers the cleaner offset: records that are appended later are not clean.
        """
        self.write_recovery_points()
        self.lower_cleaner_offset(key, recovery_point)

    def lower_cleaner_offset(self, key: TopicPartition, offset: int) -> None:
        """Writes the cleaner offset of a log if it is beyond `offset`."""
        if self.cleaner_offsets.offsets.get(key, 0) > offset:
            self.write_cleaner_offset(key, offset)

    def write_cleaner_offset(self, key: TopicPartition, offset: int) -> None:
        """Writes the offset up to which a log is clean."""
        at_once(self.prepare_cleaner_offset(key, offset))()

    def prepare_cleaner_offset(self, key: TopicPartition, offset: int) -> Prepared:
        self.cleaner_offsets.offsets[key] = offset
        return self._prepare_cleaner_offsets()

    def _prepare_cleaner_offsets(self) -> Prepared:
        kept = self.cleaner_offsets.offsets
        return self.cleaner_offsets.prepare(self._open(), self._is_open, self._is_kept, lambda key, _: kept.get(key))

    def write_recovery_points(self) -> None:
        """Writes the recovery point of each log, except of logs that have lost their topic id."""
        at_once(self.prepare_recovery_points())()

    def prepare_recovery_points(self) -> Prepared:
        return self.recovery_points.prepare(self._open(), self._is_open, self._is_kept, _recovery_point)

    def prepare_start_offsets(self) -> Prepared:
        """Prepares the log start offsets that differ from the base offset of the first segment."""
        return self.start_offsets.prepare(self._open(), self._is_open, self._is_kept, _moved_start)

    def prepare_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> Prepared:
        """Prepares high watermarks. Logs without one in `high_watermarks`, whose partitions are not served yet, keep
        their earlier value."""
        kept = self.high_watermarks.offsets

        def offset_of(key: TopicPartition, _: Log) -> int | None:
            if key in high_watermarks:
                kept[key] = high_watermarks[key]
            return kept.get(key)

        return self.high_watermarks.prepare(self._logs, self._is_open, self._is_kept, offset_of)

    def _open(self) -> Logs:
        return {**self._futures, **self._logs} if self._futures else self._logs

    def _is_open(self, key: TopicPartition, log: Log | None) -> bool:
        """Whether a log is open; whether any log of the name is, if none is given."""
        if log is None:
            return key in self._logs or key in self._futures
        return self._logs.get(key) is log or self._futures.get(key) is log

    def _is_kept(self, key: TopicPartition) -> bool:
        """Whether a log that is not open exists: a corrupt one, say."""
        return key in self._unopened or self._disk.exists(f"{self._path}/{key}")


def _recovery_point(_: TopicPartition, log: Log) -> int | None:
    return None if log.has_lost_id else log.recovery_point


def _moved_start(_: TopicPartition, log: Log) -> int | None:
    return log.start_offset if log.start_offset > log.segments.bases[0] else None
