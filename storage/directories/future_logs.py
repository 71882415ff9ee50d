"""`FutureLogs`: the logs that moves of replicas fill in another data directory of this node, and that are to replace
the logs (KIP-113).

    data-1/flights-0/                               the current log
    data-2/flights-0.<hex>-future/                  its copy: the future log
        └── .future                                 it is a copy until the log that it was copied from is gone
                 │ all is copied and flushed
                 ▼
    data-1/flights-0.<hex>-delete/                  1. the current log is renamed: from now on the copy is the log
    data-2/flights-0/                               2. without `.future` once the new names are durable

If the process ends at any point, exactly one of the two logs is current. A log with `.future` is a copy as long as the
partition has another log; otherwise it is the log of the partition. An incomplete copy is continued after a restart. A
copy without another log is used only if no data directory is offline, since the log may be there, and if no
acknowledged records can be lost: see `promote`.

Source: Kafka's `LogManager.replaceCurrentWithFutureLog`. Kafka renames the copy first, so that a crash leaves two logs,
and the broker does not start.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

import structlog

from minikafka.protocol.errors import KafkaStorageError, again, without_frames
from minikafka.protocol.names import TopicPartition, uuid_text
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.directory_ids import MIGRATING, UNASSIGNED, is_reserved
from minikafka.storage.directories.directory_scan import DELETED, FUTURE_MARKER, STRAY, topic_id_in
from minikafka.storage.directories.offset_checkpoint import write_prepared
from minikafka.storage.directories.renamed_logs import RenamedLogs, future_name
from minikafka.storage.disks.disk import Disk
from minikafka.storage.disks.disk_errors import as_failure, is_passing
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.recovery import CorruptLog

__all__ = ["FutureLogs", "Swap"]

_REMOVAL_MS_MIN = 5_000
"""The shortest delay in milliseconds before a replaced log is removed, so that its new name is durable by then."""


class OpenLog(Protocol):
    """A function that opens the log at a path in a data directory, as `LogManager` does."""

    def __call__(
        self, directory: DataDirectory, path: str, key: TopicPartition, topic_id: bytes | None, config: LogConfig | None
    ) -> Log: ...


class FutureLogs:
    """The future logs of a node.

    Args:
        directories: the data directories of the node.
        current: the logs of the node, which `swap` and `promote` change.
        gone: renames logs that are deleted or set aside.
        open_log: opens a log. Raises OSError, CorruptLog.
        failed: called with a directory and its error, also with a passing error.

    Attributes:
        logs: the open future logs, by partition.
        unusable: by partition, why its future log cannot be opened.
    """

    def __init__(
        self,
        disk: Disk,
        directories: list[DataDirectory],
        current: dict[TopicPartition, Log],
        gone: RenamedLogs,
        open_log: OpenLog,
        failed: Callable[[DataDirectory, Exception], None],
    ) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.unusable: dict[TopicPartition, CorruptLog] = {}
        self._disk = disk
        self._directories = directories
        self._current = current
        self._gone = gone
        self._open_log = open_log
        self._failed = failed
        self._place: dict[TopicPartition, DataDirectory] = {}
        self._unopened_paths: dict[TopicPartition, str] = {}
        self._logger = structlog.get_logger("minikafka.storage")

    def directory_of(self, key: TopicPartition) -> DataDirectory | None:
        """The directory of a partition's future log, even if that log cannot be opened; None without a future log."""
        return self._place.get(key)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions with a future log, even if that log cannot be opened."""
        return list(self._place)

    def is_at(self, directory: DataDirectory, key: TopicPartition) -> bool:
        """Whether the future log, in the middle of a swap, already has the name of the log in a directory."""
        if self._place.get(key) is not directory:
            return False
        return self._path(key) == f"{directory.path}/{key}"

    def _path(self, key: TopicPartition) -> str:
        return self.logs[key].directory if key in self.logs else self._unopened_paths[key]

    def load(self, directory: DataDirectory, paths: Mapping[TopicPartition, str]) -> None:
        """Opens the future logs that were found at the start. A second one of a partition is set aside. Raises OSError.

        Args:
            paths: the path of each future log, by partition.
        """
        for key, path in paths.items():
            if key in self._place:
                renamed = self._gone.rename(directory, key, STRAY, path=path)
                self._logger.warning("second future log set aside", partition=str(key), path=renamed)
                continue
            if self._is_beside_its_log(directory, key, path):
                self._gone.remove_later(self._gone.rename(directory, key, DELETED, path=path))
                self._logger.warning("future log beside its log deleted", partition=str(key), path=path)
                continue
            self._place[key], self._unopened_paths[key] = directory, path
            try:
                self._open(key)
            except OSError as error:
                if not is_passing(error):
                    raise
                self._failed(directory, error)

    def _open(self, key: TopicPartition) -> None:
        """Opens a future log that is on disk, unless it is corrupt. Raises OSError."""
        directory, path = self._place[key], self._unopened_paths[key]
        try:
            log = self._open_log(directory, path, key, None, None)
        except CorruptLog as error:
            self.unusable[key] = without_frames(error)
            self._logger.error("future log corrupt", partition=str(key), error=str(error))
        else:
            del self._unopened_paths[key]
            self._add(directory, key, log)

    @property
    def waiting(self) -> list[TopicPartition]:
        """The partitions whose future log could not be opened because of a passing error; `reopen` tries again."""
        return [key for key in self._unopened_paths if key not in self.unusable]

    def reopen(self, key: TopicPartition) -> None:
        """Tries again to open the future log of a partition in `waiting`. Raises CorruptLog, KafkaStorageError."""
        directory = self._place[key]
        try:
            self._open(key)
        except OSError as error:
            self._failed(directory, error)
            raise KafkaStorageError(f"the future log of {key} cannot be opened now: {error}") from error
        if key in self.unusable:
            raise again(self.unusable[key])

    def _is_beside_its_log(self, directory: DataDirectory, key: TopicPartition, path: str) -> bool:
        """Whether the log of the partition is in this directory already, so that the future log has no purpose."""
        current = f"{directory.path}/{key}"
        if current == path or not self._disk.exists(current):
            return False
        return topic_id_in(self._disk, path) in (None, topic_id_in(self._disk, current))

    def create(self, directory: DataDirectory, key: TopicPartition, topic_id: bytes) -> None:
        """Creates an empty future log for an open log. Raises KafkaError: KAFKA_STORAGE_ERROR."""
        self._sync_earlier(key)
        path = f"{directory.path}/{future_name(key, self._gone.new_id())}"
        try:
            self._create(directory, path, key, topic_id)
        except (OSError, CorruptLog) as error:
            self._failed(directory, self._undone(directory, path, key, error))
            raise KafkaStorageError(f"no future log can be made in {directory.path}: {error}") from error

    def _sync_earlier(self, key: TopicPartition) -> None:
        """Syncs the directory of an earlier, deleted copy, so that a power failure does not bring that copy back.

        Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        earlier = self._gone.unsynced_directory(key)
        if earlier is None:
            return
        try:
            self._gone.sync(earlier)
        except OSError as error:
            self._failed(earlier, error)
            raise KafkaStorageError(f"{earlier.path} cannot be synced: {error}") from error

    def _create(self, directory: DataDirectory, path: str, key: TopicPartition, topic_id: bytes) -> None:
        directory.checkpoints.forget(key)
        self._disk.make_directory(path)
        marker = f"{path}/{FUTURE_MARKER}"
        self._disk.open(marker, create=True).close()
        log = self._open_log(directory, path, key, topic_id, self._current[key].config)
        log.state.unflushed.paths.append(marker)
        log.state.unflushed.names = True
        self._add(directory, key, log)

    def _undone(self, directory: DataDirectory, path: str, key: TopicPartition, error: Exception) -> Exception:
        """Deletes the remains of a new future log after a passing error; returns the error to report."""
        try:
            if is_passing(error) and self._disk.exists(path):
                self._gone.remove_later(self._gone.rename(directory, key, DELETED, path=path))
        except OSError as worse:
            return as_failure(worse)
        return error

    async def checkpoint(self, key: TopicPartition) -> None:
        """Writes the recovery points and start offsets of a future log's directory, before the log becomes current."""
        directory = self._place[key]
        try:
            await write_prepared(self._disk, directory.checkpoints.prepare_recovery_points())
            await write_prepared(self._disk, directory.checkpoints.prepare_start_offsets())
        except OSError as error:
            self._failed(directory, error)

    def _add(self, directory: DataDirectory, key: TopicPartition, log: Log) -> None:
        self.logs[key] = directory.futures[key] = log
        self._place[key] = directory
        directory.unopened.discard(key)

    def remove(self, key: TopicPartition) -> DataDirectory:
        """Forgets the future log of a partition without touching its files. Returns its directory."""
        directory = self._place.pop(key)
        directory.futures.pop(key, None)
        directory.unopened.discard(key)
        self.logs.pop(key, None)
        self.unusable.pop(key, None)
        self._unopened_paths.pop(key, None)
        return directory

    def offline(self, directory: DataDirectory, error: Exception) -> None:
        """Takes the future logs of a failed directory offline."""
        for key in [key for key, place in self._place.items() if place is directory]:
            log = self.logs.get(key)
            self.remove(key)
            if log is not None:
                log.fail(error)

    def settle(self, key: TopicPartition, topic_id: bytes | None) -> None:
        """Sets a future log aside if it belongs to another topic of the same name.

        Args:
            topic_id: the id of the topic; None if this node has no replica.

        Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        if key in self._place and (topic_id is None or not self.is_of(key, topic_id)):
            self.discard(key, 0, STRAY)

    def is_of(self, key: TopicPartition, topic_id: bytes) -> bool:
        """Whether there is a future log of this topic, or one without a topic id; the future log need not be open.

        Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        if key not in self._place:
            return False
        try:
            log = self.logs.get(key)
            owner = topic_id_in(self._disk, self._path(key)) if log is None else log.topic_id
            return owner in (topic_id, None)
        except OSError as error:
            self._failed(self._place[key], error)
            raise KafkaStorageError(f"the topic id of {self._path(key)} cannot be read: {error}") from error

    def discard(self, key: TopicPartition, delay_ms: int, suffix: str = DELETED) -> None:
        """Deletes a future log, if there is one, or sets it aside as a stray.

        Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        if key not in self._place:
            return
        directory, log, path = self._place[key], self.logs.get(key), self._path(key)
        try:
            renamed = self._gone.rename(directory, key, suffix, log, path)
        except OSError as error:
            self._failed(directory, error)
            raise KafkaStorageError(f"cannot rename {path}: {error}") from error
        self.remove(key)
        if suffix == DELETED:
            self._gone.remove_later(renamed, delay_ms)
        else:
            self._logger.warning("stray log set aside", partition=str(key), path=renamed)
        if log is not None:
            log.close(clean=False)

    def promote(self, key: TopicPartition, topic_id: bytes | None, assigned: bytes, *, is_needed: bool) -> bool:
        """Makes the future log of a partition without another log its log.

        The process ended during a swap, or the log is lost with its directory. Once a copy has caught up, the metadata
        names the directory of the copy (Kafka's `recoverAbandonedFutureLogs`). A copy in another directory may lack
        records. It is used only if other replicas have the records: replication then replaces everything after the last
        common epoch.

        Args:
            assigned: the id of the directory that the metadata names for this replica.
            is_needed: whether this replica is in sync, or eligible to lead.

        Returns:
            False if there is no future log, or if it belongs to another topic and was set aside.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        directory = self._place.get(key)
        if directory is None:
            return False
        self._check_directories(key)
        if key in self.unusable:
            raise KafkaStorageError(
                f"the log of {key} is missing, and its copy is corrupt: {self.unusable[key]}; bring back the data "
                f"directory that had the log, or, if another replica leads, move {self._path(key)} away: restart then"
            )
        if is_needed and assigned not in (directory.id, UNASSIGNED, MIGRATING):
            raise KafkaStorageError(
                f"the log of {key} is missing, and its copy {self._path(key)} may lack acknowledged records: bring "
                f"back the data directory that had the log{_named(assigned)}, or rename the copy to "
                f"{directory.path}/{key} without its file {FUTURE_MARKER} to serve what it has: restart then"
            )
        if key not in self.logs:
            self.reopen(key)
        if topic_id is not None and self.logs[key].topic_id != topic_id:
            self.discard(key, 0, STRAY)
            return False
        self._put_in_place(key)
        swap = self._make_current(key, self._place[key])
        self._logger.warning("future log took the place of a missing log", partition=str(key))
        try:
            swap.settle()
        except OSError as error:
            raise self._current[key].fail(error) from error
        self.settled(key, swap)
        return True

    def _check_directories(self, key: TopicPartition) -> None:
        failures = "; ".join(f"{one.path}: {one.failure}" for one in self._directories if one.failure is not None)
        if failures:
            raise KafkaStorageError(f"the future log of {key} is not used: the log may be in {failures}")

    def swap(self, key: TopicPartition) -> "Swap":
        """Puts the future log, which has all records and is flushed as far as the log, in the place of the log.

        Returns:
            The swap. Its `settle` must be called in a worker thread, and then `settled`.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR: a log directory could not be renamed. Unless the error is passing, its data
                directory is offline now.
        """
        source, future = self._current[key], self.logs[key]
        left = next(one for one in self._directories if one.logs.get(key) is source)
        self._put_in_place(key)
        try:
            renamed = self._gone.rename(left, key, DELETED, source)
        except OSError as error:
            self._failed(left, error)
            raise KafkaStorageError(f"cannot rename {source.directory}: {error}") from error
        del left.logs[key]
        swap = self._make_current(key, left)
        directory = next(one for one in self._directories if one.logs.get(key) is future)
        for ours, theirs in (
            (directory.checkpoints.cleaner_offsets.offsets, left.checkpoints.cleaner_offsets.offsets),
            (directory.checkpoints.high_watermarks.offsets, left.checkpoints.high_watermarks.offsets),
        ):
            ours.update({key: theirs.pop(key)} if key in theirs else {})
        self._gone.remove_later(renamed, max(source.config.file_delete_delay_ms, _REMOVAL_MS_MIN))
        source.close(clean=False)
        with suppress(KafkaStorageError):  # The log is offline then, and whoever uses it is told.
            future.take_over(source)
        return swap

    def _put_in_place(self, key: TopicPartition) -> None:
        """Gives the copy the name of the log. By its marker file it is still a copy.

        A directory that has this name already is set aside as a stray, since the log is in another data directory.
        """
        directory, log = self._place[key], self.logs[key]
        path = f"{directory.path}/{key}"
        if log.directory != path:
            try:
                if key not in directory.logs and self._disk.exists(path):
                    stray = self._gone.rename(directory, key, STRAY, path=path)
                    self._gone.sync(directory)  # A power failure must not leave both beside each other.
                    self._logger.warning("stray log set aside", partition=str(key), path=stray)
                self._disk.rename(log.directory, path)
            except OSError as error:
                raise log.fail(error) from error
            log.move(path)
        log.state.unflushed.names = True

    def _make_current(self, key: TopicPartition, left: DataDirectory) -> "Swap":
        log = self.logs[key]
        directory = self.remove(key)
        directory.logs[key] = self._current[key] = log
        swap = Swap(self._disk, left, log.directory)
        log.state.unflushed.settle = swap.settle
        return swap

    def settled(self, key: TopicPartition, swap: "Swap") -> None:
        """Completes a swap after `Swap.settle` has returned."""
        if swap.error is not None:
            self._failed(swap.left, swap.error)
        log = self._current.get(key)
        if log is not None and log.state.unflushed.settle == swap.settle:
            log.state.unflushed.settle = None


def _named(assigned: bytes) -> str:
    return "" if is_reserved(assigned) else f" (directory.id {uuid_text(assigned)})"


class Swap:
    """A copy that has taken the place of a log. `settle` makes the change durable, and removes the copy's marker.

    Args:
        left: the data directory that had the log before.
        path: the path of the log now.

    Attributes:
        error: why the earlier directory could not be synced, or None. After a power failure both logs may then exist
            without a marker. The node refuses to start, and says so, rather than serve the older log.
    """

    def __init__(self, disk: Disk, left: DataDirectory, path: str) -> None:
        self.left = left
        self.error: OSError | None = None
        self._disk = disk
        self._path = path

    def settle(self) -> None:
        """Syncs both directories and removes the marker. For a worker thread; may be called again.

        Raises OSError if the directory that has the log now fails.
        """
        try:
            self._disk.sync_directory(self.left.path)
        except OSError as error:
            self.error = without_frames(error)
        self._disk.sync_directory(self._path.rpartition("/")[0])
        with suppress(FileNotFoundError):
            self._disk.remove(f"{self._path}/{FUTURE_MARKER}")
        if self.error is not None:
            self._disk.sync_directory(self._path)
