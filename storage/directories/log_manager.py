"""`LogManager`: opens, creates, deletes, flushes and closes all logs of a node (Kafka's `LogManager`).

manager = LogManager(LogContext(disk, now_ms, random), ["/data"], node_id=1, cluster_id=…)
manager.load()
log = manager.create(TopicPartition("flights", 0), topic_id=…)
…
await manager.upkeep.flush_due(); await manager.upkeep.write_checkpoints_async()
await manager.close_async(high_watermarks, broker_epoch=…)
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import structlog

from minikafka.protocol.errors import KafkaStorageError, again, without_frames
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.directory_ids import UNASSIGNED
from minikafka.storage.directories.directory_scan import (
    DELETED,
    STRAY,
    Content,
    Rivals,
    check_ids,
    claim,
    content_of,
    rivals_in,
)
from minikafka.storage.directories.future_logs import FutureLogs
from minikafka.storage.directories.log_failures import LogFailures
from minikafka.storage.directories.log_placement import LogPlacement, failures_of
from minikafka.storage.directories.log_upkeep import LogUpkeep
from minikafka.storage.directories.renamed_logs import RenamedLogs
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.disk_errors import as_failure, is_passing
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogContext, LogOwner
from minikafka.storage.logs.recovery import CorruptLog
from minikafka.storage.segments.segment import CorruptSegment
from minikafka.storage.steps import at_once, in_steps

METADATA_TOPIC = "__cluster_metadata"
_logger = structlog.get_logger("minikafka.storage")


class LogManager:
    """All logs of a node.

    Args:
        directories: the paths of the data directories, which are created if they do not exist.
        config_of: returns the config of a topic's logs.
        node_id, cluster_id: must match `meta.properties`; None is neither compared nor written.
        on_offline: called with a directory's path and the error when the directory fails.

    Attributes:
        config_of: the argument `config_of`.
        logs: the open logs by partition, except logs in failed directories.
        futures: copies of logs in other directories, which are to replace the logs.
        placement: chooses the directories of new logs.
        upkeep: the periodic work on all logs.
        failures: the failed directories and corrupt logs, and what follows from them.
    """

    def __init__(
        self,
        context: LogContext,
        directories: list[str],
        *,
        config_of: Callable[[str], LogConfig] = lambda topic: LogConfig(),
        node_id: int | None = None,
        cluster_id: str | None = None,
        on_offline: Callable[[str, Exception], None] = lambda path, error: None,
    ) -> None:
        disk, now_ms = context.disk, context.now_ms
        self.context = context
        self.directories = [DataDirectory(disk, path) for path in directories]
        self.logs: dict[TopicPartition, Log] = {}
        self.failures = LogFailures(self.logs, now_ms, self._went_offline)
        self.config_of = config_of
        self._identity = (node_id, cluster_id)
        self._on_offline = on_offline
        self._rivals: Rivals = {}
        self._gone = RenamedLogs(disk, now_ms, context.random)
        offline = self.failures.offline
        self.futures = FutureLogs(disk, self.directories, self.logs, self._gone, self._open_log, offline)
        self.placement = LogPlacement(self.directories)
        self.upkeep = LogUpkeep(disk, self.directories, self.logs, self.futures, self._gone, self.failures)

    def join(self, cluster_id: str) -> None:
        """Sets the cluster id, which is unknown before the first start in a cluster. To be called before `load`."""
        self._identity = self._identity[0], cluster_id

    def load(self) -> None:
        """Opens all logs. The clean-shutdown files are deleted first, so that a crash during loading leads to recovery
        again (KAFKA-10471). A directory that fails is offline, and the last shutdown counts as unclean.

        Raises:
            WrongDirectory: a directory belongs to another node or cluster, or two have the same id.
            DuplicateLog: two directories have a log of the same partition and topic.
            BlockingIOError: a directory is in use by another process.
            KafkaError: KAFKA_STORAGE_ERROR if no directory can be used.
        """
        began_ms = self.context.now_ms()
        for directory in self.directories:
            self._at_start(directory, partial(self._open_directory, directory))
        check_ids(self.healthy)
        contents: dict[str, Content] = {}
        for directory in self.directories:
            self._at_start(directory, partial(self._list, directory, contents))
        self._rivals = rivals_in(contents)
        for directory in self.directories:
            keys = contents[directory.path].logs if directory.path in contents else {}
            self._at_start(directory, partial(self._load_logs, directory, keys))
        for directory in self.directories:
            found = contents[directory.path].futures if directory.path in contents else {}
            self._at_start(directory, partial(self.futures.load, directory, found))
        if not self.healthy:
            failures = failures_of(self.directories)
            raise KafkaStorageError(f"no data directory is usable: {failures}") from self.directories[0].failure
        self.failures.loaded(self.directories)
        self._log_loaded((self.context.now_ms() - began_ms) / 1000)

    def _log_loaded(self, seconds: float) -> None:
        """Logs one event about all logs: the number of logs in each directory, and the results of recovery."""
        recovered = [log.report for log in self.logs.values() if not log.report.clean]
        _logger.info(
            "logs loaded",
            directories={one.path: len(one.logs) for one in self.healthy},
            clean_shutdown=all(one.shutdown.was_clean or one.identity.was_blank for one in self.directories),
            recovered=len(recovered),
            truncated=sum(report.truncated_bytes > 0 for report in recovered),
            truncated_bytes=sum(report.truncated_bytes for report in recovered),
            damaged=sum(bool(report.damage) for report in recovered) + len(self.failures.corrupt),
            seconds=seconds,
        )

    @property
    def healthy(self) -> list[DataDirectory]:
        """The directories that have not failed."""
        return [directory for directory in self.directories if directory.failure is None]

    def full_directory_ids(self) -> list[bytes]:
        """The ids of the directories whose disk is full."""
        return [directory.id for directory in self.healthy if directory.room.is_full]

    def cordoned_ids(self) -> list[bytes]:
        """The ids of the directories in which no new logs are to be made."""
        return sorted(directory.id for directory in self.healthy if directory.cordoned)

    def online_ids(self) -> list[bytes]:
        """The ids of the directories that have not failed."""
        return [directory.id for directory in self.healthy]

    def _at_start(self, directory: DataDirectory, action: Callable[[], None]) -> None:
        if directory.failure is None:
            try:
                action()
            except BlockingIOError:
                raise
            except OSError as error:
                self.failures.offline(directory, as_failure(error))

    def _open_directory(self, directory: DataDirectory) -> None:
        directory.open(*self._identity, random=self.context.random)
        directory.shutdown.take()
        for warning in directory.checkpoints.read():
            _logger.warning("checkpoint invalid", error=warning)

    def _list(self, directory: DataDirectory, contents: dict[str, Content]) -> None:
        content = content_of(self.context.disk, directory, without=METADATA_TOPIC)
        contents[directory.path] = content
        directory.unopened.update(content.logs, content.futures)
        for path in content.deleted:
            self._gone.remove_later(path)
        for path in content.strays:
            _logger.warning("stray log kept", path=path)

    def _load_logs(self, directory: DataDirectory, keys: Iterable[TopicPartition]) -> None:
        for key in keys:
            if key in self._rivals:
                continue
            try:
                self._open(directory, key, None)
            except CorruptLog:
                pass  # Logged, and kept in `corrupt`.
            except OSError as error:
                if not is_passing(error):
                    raise
                self.failures.offline(directory, error)  # `create` opens it when that is possible.

    def _open(
        self,
        directory: DataDirectory,
        key: TopicPartition,
        topic_id: bytes | None,
        config: LogConfig | None = None,
    ) -> Log:
        try:
            log = self._open_log(directory, f"{directory.path}/{key}", key, topic_id, config)
        except CorruptLog as error:
            self.failures.found_corrupt(directory, key, error)
            raise
        directory.logs[key] = self.logs[key] = log
        directory.unopened.discard(key)
        return log

    def _open_log(
        self, directory: DataDirectory, path: str, key: TopicPartition, topic_id: bytes | None, config: LogConfig | None
    ) -> Log:
        owner = LogOwner(
            on_failure=partial(self.failures.offline, directory),
            on_damage=partial(self.failures.found_damage, key),
            on_gap=partial(self.failures.found_gap, key),
            on_truncation=directory.checkpoints.truncated,
        )
        config = config or self.config_of(key.topic)
        known = directory.checkpoints.of_log(key, was_clean=directory.shutdown.was_clean)
        log = Log.open(self.context, path, key, config, known, topic_id=topic_id, owner=owner)
        log.has_lost_id = log.has_lost_id and not directory.checkpoints.recovery_points.offsets.get(key, 0)
        # What recovery truncated will be appended anew.
        directory.checkpoints.lower_cleaner_offset(key, log.end_offset)
        if log.report.damage:
            _logger.error("records lost in log recovery", partition=str(key), error=log.report.damage)
        elif not log.report.clean:
            _logger.debug("log recovered", partition=str(key), truncated_bytes=log.report.truncated_bytes)
        return log

    def get(self, key: TopicPartition) -> Log | None:
        return self.logs.get(key)

    def create(
        self,
        key: TopicPartition,
        *,
        topic_id: bytes | None = None,
        config: LogConfig | None = None,
        assigned: bytes = UNASSIGNED,
        is_new: bool = True,
        is_needed: bool = True,
    ) -> Log:
        """Returns the log of a partition: the open one, the existing one that `load` skipped, or a new one.

        Args:
            topic_id: the id of the topic, as for `settle`; None accepts any log of this name.
            config: the config of the log; by default that of its topic.
            assigned: the id of the directory that the metadata names for this replica. A new log is created there. If
                this node has no such directory, a directory that was blank at the start, as on a new disk, is
                preferred, and then the directory with the fewest logs.
            is_new: whether the replica was never on this node. Otherwise no new log is created while a directory is
                offline, since the records may be there.
            is_needed: whether this replica counts as having all records (`FutureLogs.promote`).

        In a cordoned directory a new log is created only if all are cordoned, as in Kafka.

        Raises:
            CorruptLog: the log exists and is corrupt.
            KafkaError: KAFKA_STORAGE_ERROR if no log may be made, or its directory has failed.
        """
        log = self.logs.get(key)
        found = None
        if log is None or (topic_id is not None and log.topic_id != topic_id):
            is_known = topic_id is not None or key in self._rivals
            found = self.settle(key, topic_id) if is_known else next(iter(self._having(key)), None)
            log = self.logs.get(key)
        if log is not None:
            if log.topic_id is None and topic_id is not None:
                self._assign_topic_id(log, topic_id)
            return log
        if key in self.failures.corrupt:
            raise again(self.failures.corrupt[key])
        if found is not None:
            return self._open_or_fail(found, key, topic_id, config)
        if self.futures.promote(key, topic_id, assigned, is_needed=is_needed):
            return self.logs[key]
        return self._create(key, self.placement.places(key, assigned, is_new=is_new), topic_id, config)

    def _create(
        self, key: TopicPartition, places: list[DataDirectory], topic_id: bytes | None, config: LogConfig | None
    ) -> Log:
        error = KafkaStorageError("all data directories are offline")
        for directory in places:
            earlier = self._gone.unsynced_directory(key)
            if earlier is not None and earlier is not directory:
                self.failures.attempt(earlier, partial(self._gone.sync, earlier))
            self.failures.attempt(directory, partial(directory.checkpoints.forget, key))
            try:
                if directory.failure is None:
                    return self._open_or_fail(directory, key, topic_id, config)
            except KafkaStorageError as failed:
                error = without_frames(failed)
                self._undo(directory, key)
        raise again(error)

    def _undo(self, directory: DataDirectory, key: TopicPartition) -> None:
        """Deletes the remains of a new log after a passing error, since the log may now be created elsewhere.

        Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        if directory.failure is None and self._has(directory, key):
            self._gone.remove_later(self._rename(directory, key, DELETED))

    def _open_or_fail(
        self, directory: DataDirectory, key: TopicPartition, topic_id: bytes | None, config: LogConfig | None
    ) -> Log:
        try:
            return self._open(directory, key, topic_id, config)
        except (OSError, CorruptSegment) as error:
            self.failures.offline(directory, error)
            state = "is offline" if directory.failure is not None else "cannot be written"
            raise KafkaStorageError(f"{directory.path} {state}: {error}") from error

    def settle(self, key: TopicPartition, topic_id: bytes | None) -> DataDirectory | None:
        """Sets aside the logs of a partition, open or not, that belong to another topic of the same name (KAFKA-14616).

        Without a topic id this node has no replica, and no log is current. Returns the directory of the current log,
        which need not be open; None without one. Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        self.futures.settle(key, topic_id)
        there = self._having(key)
        current = max(there, key=lambda one: self._claim(one, key, topic_id), default=None)
        if current is not None and not self._claim(current, key, topic_id):
            current = None
        for directory in there:
            if directory is not current:
                self._set_aside(directory, key)
        self._rivals.pop(key, None)
        return current

    def _claim(self, directory: DataDirectory, key: TopicPartition, topic_id: bytes | None) -> int:
        """As `directory_scan.claim`, but raises KafkaError in place of OSError."""
        try:
            return claim(self.context.disk, directory, key, topic_id)
        except OSError as error:
            self.failures.offline(directory, error)
            raise KafkaStorageError(f"the topic id of {directory.path}/{key} cannot be read: {error}") from error

    @property
    def unsettled(self) -> list[TopicPartition]:
        """The partitions with several logs; `settle` removes a partition from the list."""
        return list(self._rivals)

    def directory_id(self, key: TopicPartition) -> bytes | None:
        """The id of the directory that has the open log of a partition; None without an open log."""
        return next((one.id for one in self.directories if key in one.logs and one.failure is None), None)

    def _assign_topic_id(self, log: Log, topic_id: bytes) -> None:
        path = f"{log.directory}/{checkpoint_files.PARTITION_METADATA}"
        try:
            checkpoint_files.write_topic_id(self.context.disk, path, topic_id, sync=False)
        except OSError as error:
            raise log.fail(error) from error
        log.state.unflushed.paths.append(path)
        log.topic_id = topic_id
        log.has_lost_id = False

    def _has(self, directory: DataDirectory, key: TopicPartition) -> bool:
        """Whether a directory has a log; False if the directory fails. Raises KafkaError for a passing error."""
        try:
            return self.context.disk.exists(f"{directory.path}/{key}")
        except OSError as error:
            self.failures.offline(directory, error)
            if directory.failure is None:
                raise KafkaStorageError(f"{directory.path} cannot be read: {error}") from error
            return False

    def _having(self, key: TopicPartition) -> list[DataDirectory]:
        """The directories with a log of this partition, open or not. Raises KafkaError."""
        return [one for one in self.healthy if self._has(one, key) and not self.futures.is_at(one, key)]

    def delete(self, key: TopicPartition, topic_id: bytes | None = None) -> None:
        """Deletes a log, if it exists: renames its directory now and removes it after `file.delete.delay.ms`.

        Only the log of the topic with this id, open or not, is deleted; None deletes all. Raises KafkaError.
        """
        log = self.logs.get(key)
        config = log.config if log is not None else self.config_of(key.topic)
        if topic_id is None or self.futures.is_of(key, topic_id):
            self.futures.discard(key, config.file_delete_delay_ms)
        for directory in self.directories:
            if directory.failure is None and self._has(directory, key):
                if topic_id is not None and not self._claim(directory, key, topic_id):
                    continue
                renamed = self._rename(directory, key, DELETED)
                self._gone.remove_later(renamed, config.file_delete_delay_ms)
            self._forget(directory, key)

    def set_aside(self, key: TopicPartition) -> None:
        """Renames a log that belongs to no partition of this node. The renamed log is never removed.

        Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        self.futures.discard(key, 0, STRAY)
        for directory in self.directories:
            if directory.failure is None and (key in directory.logs or key in directory.corrupt):
                self._set_aside(directory, key)

    def _set_aside(self, directory: DataDirectory, key: TopicPartition) -> None:
        log = directory.logs.get(key)
        if log is not None:
            log.flush()
        renamed = self._rename(directory, key, STRAY)
        _logger.warning("stray log set aside", partition=str(key), path=renamed)
        self._forget(directory, key)

    def _forget(self, directory: DataDirectory, key: TopicPartition) -> None:
        """Forgets the log of a partition in a directory, and closes the log."""
        directory.unopened.discard(key)
        log = directory.logs.pop(key, None)
        if log is not None:
            log.close(clean=False)
        if log is not None and self.logs.get(key) is log:
            del self.logs[key]
        self.failures.forget_corrupt(directory, key)

    def _rename(self, directory: DataDirectory, key: TopicPartition, suffix: str) -> str:
        try:
            return self._gone.rename(directory, key, suffix, directory.logs.get(key))
        except OSError as error:
            self.failures.offline(directory, error)
            raise KafkaStorageError(f"cannot rename {directory.path}/{key}: {error}") from error

    def high_watermark(self, key: TopicPartition) -> int:
        """Returns the initial high watermark of a partition: the checkpointed one, limited to the range of the log, or
        without a checkpoint the log start offset."""
        log = self.logs[key]
        for directory in self.directories:
            if key in directory.logs:
                found = directory.checkpoints.high_watermarks.offsets.get(key, 0)
                return min(max(found, log.start_offset), log.end_offset)
        return log.start_offset

    def _went_offline(self, directory: DataDirectory, error: Exception) -> None:
        self.futures.offline(directory, error)
        self._on_offline(directory.path, error)

    def set_producer_expiration(self, expiration_ms: int) -> None:
        """Changes `producer.id.expiration.ms` of all logs."""
        self.context.producer_expiration_ms = expiration_ms

    def close(self, high_watermarks: Mapping[TopicPartition, int], *, broker_epoch: int = -1) -> None:
        """Flushes and closes all logs, writes the checkpoints, and unlocks the directories. Blocking.

        Last, the clean-shutdown file is written in each directory without errors.
        """
        at_once(self.upkeep.closing(high_watermarks, broker_epoch))
        self.context.disk.unlock_all()

    async def close_async(self, high_watermarks: Mapping[TopicPartition, int], *, broker_epoch: int = -1) -> None:
        """As `close`, but with the fsyncs in worker threads, and without unlocking the directories.

        The logs must not be used meanwhile. After cancellation the shutdown is not clean.
        """
        await in_steps(self.upkeep.closing(high_watermarks, broker_epoch), self.context.disk)
