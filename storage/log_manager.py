"""Opens, creates, deletes, flushes and closes all logs of a node, in its data directories (Kafka's `LogManager`).

    manager = LogManager(disk, ["/data"], now_ms=…, random=…, node_id=1, cluster_id=…)
    manager.load()
    log = manager.create(TopicPartition("flights", 0), topic_id=…)
    …
    await manager.flush_due(); manager.run_retention(high_watermark_of); manager.write_checkpoints(…)
    manager.close(high_watermarks, broker_epoch=…)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random

import structlog

from minikafka.protocol.errors import KafkaError, KafkaStorageError
from minikafka.protocol.names import TopicPartition
from minikafka.storage import checkpoint_files
from minikafka.storage.data_directory import DataDirectory, DuplicateLog
from minikafka.storage.disk import Disk
from minikafka.storage.disk_errors import is_passing
from minikafka.storage.flush import Flush
from minikafka.storage.log import Log
from minikafka.storage.log_config import PRODUCER_EXPIRATION_MS, LogConfig
from minikafka.storage.recovery import CorruptLog
from minikafka.storage.segment import CorruptSegment

METADATA_TOPIC = "__cluster_metadata"
_NAME_LENGTH_MAX = 255
_CLOSED_AT_ONCE = 100


class LogManager:
    """All logs of a node.

    Args:
        directories: the data directories, created if they do not exist.
        config_of: returns the config of a topic's logs.
        node_id, cluster_id: must match `meta.properties`; None is neither compared nor written.
        on_offline: called with a directory's path and the error when the directory fails.

    Attributes:
        logs: the open logs, except those in failed directories.
        corrupt: partitions whose flushed data is corrupt; their files are unchanged.
        clean: whether the last shutdown was clean in all directories.
        previous_broker_epoch: the broker epoch at the last clean shutdown, -1 if unknown (KIP-966).
    """

    def __init__(
        self,
        disk: Disk,
        directories: list[str],
        *,
        now_ms: Callable[[], int],
        random: Random,
        config_of: Callable[[str], LogConfig] = lambda topic: LogConfig(),
        node_id: int | None = None,
        cluster_id: str | None = None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        on_offline: Callable[[str, Exception], None] = lambda path, error: None,
    ) -> None:
        self.directories = [DataDirectory(disk, path) for path in directories]
        self.logs: dict[TopicPartition, Log] = {}
        self.corrupt: dict[TopicPartition, CorruptLog] = {}
        self.config_of = config_of
        self.producer_expiration_ms = producer_expiration_ms
        self.previous_broker_epoch = -1
        self.clean = False
        self._disk = disk
        self._now_ms = now_ms
        self._random = random
        self._identity = (node_id, cluster_id)
        self._on_offline = on_offline
        self._damaged: set[TopicPartition] = set()
        self._renamed: dict[TopicPartition, DataDirectory] = {}
        self._deleted: list[tuple[int, str]] = []
        self._logger = structlog.get_logger("minikafka.storage")

    def load(self) -> None:
        """Opens all logs. The clean-shutdown files are deleted first, so that a crash during loading leads to recovery
        again (KAFKA-10471).

        Raises:
            WrongDirectory: a directory belongs to another node or cluster.
            DuplicateLog: two directories have a log of the same partition.
            BlockingIOError: a directory is in use by another process.
        """
        for directory in self.directories:
            try:
                directory.open(*self._identity, random=self._random)
                directory.take_marker()
                for warning in directory.read_checkpoints():
                    self._logger.warning("checkpoint invalid", error=warning)
                self._load_logs(directory)
            except BlockingIOError:
                raise
            except OSError as error:
                self._offline(directory, error)
        healthy = [directory for directory in self.directories if directory.failure is None]
        self.clean = bool(healthy) and all(directory.clean for directory in healthy)
        epochs = {directory.broker_epoch for directory in healthy}
        self.previous_broker_epoch = epochs.pop() if self.clean and len(epochs) == 1 else -1

    def _load_logs(self, directory: DataDirectory) -> None:
        for name in self._disk.list(directory.path):
            path = f"{directory.path}/{name}"
            if name.endswith("-delete") and self._disk.is_directory(path):
                self._deleted.append((self._now_ms(), path))
                continue
            key = parse_directory_name(name)
            if key is None or key.topic == METADATA_TOPIC or not self._disk.is_directory(path):
                continue
            self._refuse_duplicate(directory, key)
            try:
                self._open(directory, key, None)
            except CorruptLog as error:
                self.corrupt[key] = error
                directory.corrupt.add(key)
                self._logger.critical("log corrupt", partition=str(key), error=str(error))
            except OSError as error:
                if not is_passing(error):
                    raise
                self._offline(directory, error)  # `create` opens it when that is possible.

    def _refuse_duplicate(self, directory: DataDirectory, key: TopicPartition) -> None:
        for other in self.directories:
            if other is not directory and (key in other.logs or key in other.corrupt):
                raise DuplicateLog(
                    f"Duplicate log directories for {key} are found in both {directory.path}/{key} and "
                    f"{other.path}/{key}. One directory was probably missing while the broker ran: remove one of the "
                    "two logs, usually that in the directory that was missing or has failed"
                )

    def _open(
        self,
        directory: DataDirectory,
        key: TopicPartition,
        topic_id: bytes | None,
        config: LogConfig | None = None,
    ) -> Log:
        log = Log.open(
            self._disk,
            f"{directory.path}/{key}",
            key,
            config or self.config_of(key.topic),
            now_ms=self._now_ms,
            clean=directory.clean,
            recovery_point=directory.recovery_points.get(key, 0),
            log_start_offset=directory.start_offsets.get(key, 0),
            topic_id=topic_id,
            random=self._random,
            producer_expiration_ms=self.producer_expiration_ms,
            on_failure=lambda log, error: self._offline(directory, error),
            on_damage=self._log_damage,
            on_truncation=directory.truncated,
        )
        directory.logs[key] = self.logs[key] = log
        directory.lower_cleaner_offset(key, log.end_offset)  # What recovery truncated will be appended anew.
        if log.report.damage:
            self._logger.error("records lost in log recovery", partition=str(key), error=log.report.damage)
        elif not log.report.clean:
            self._logger.info("log recovered", partition=str(key), truncated_bytes=log.report.truncated_bytes)
        return log

    def get(self, key: TopicPartition) -> Log | None:
        return self.logs.get(key)

    def create(
        self, key: TopicPartition, *, topic_id: bytes | None = None, config: LogConfig | None = None
    ) -> Log:
        """Returns the log of a partition: the open one, the existing one that `load` skipped (`__cluster_metadata`), or
        a new one in the directory with the fewest logs.

        Raises:
            CorruptLog: the log exists and is corrupt.
            KafkaError: KAFKA_STORAGE_ERROR if all directories are offline.
        """
        log = self.logs.get(key)
        if log is not None:
            if log.topic_id is None and topic_id is not None:
                self._assign_topic_id(log, topic_id)
            return log
        if key in self.corrupt:
            raise self.corrupt[key]
        healthy = [directory for directory in self.directories if directory.failure is None]
        if not healthy:
            raise KafkaStorageError("all data directories are offline")
        found = [one for one in healthy if self._has(one, key)]
        directory = found[0] if found else min(healthy, key=lambda one: (one.room.is_full, len(one.logs)))
        try:
            self._sync_deletion(key, directory)
            if not found:
                directory.forget(key)
            return self._open(directory, key, topic_id, config)
        except (OSError, CorruptSegment) as error:
            self._offline(directory, error)
            state = "is offline" if directory.failure is not None else "cannot be written"
            raise KafkaStorageError(f"{directory.path} {state}: {error}") from error

    def _assign_topic_id(self, log: Log, topic_id: bytes) -> None:
        path = f"{log.directory}/{checkpoint_files.PARTITION_METADATA}"
        try:
            checkpoint_files.write_topic_id(self._disk, path, topic_id, sync=False)
        except OSError as error:
            raise log.fail(error) from error
        log.unsynced_paths.append(path)
        log.topic_id = topic_id

    def _sync_deletion(self, key: TopicPartition, directory: DataDirectory) -> None:
        """Called before a log is made: a deleted one that a power failure brings back would be a duplicate."""
        earlier = self._renamed.pop(key, None)
        if earlier is not None and earlier is not directory and earlier.failure is None:
            self._on(earlier, partial(self._disk.sync_directory, earlier.path))

    def _has(self, directory: DataDirectory, key: TopicPartition) -> bool:
        try:
            return self._disk.exists(f"{directory.path}/{key}")
        except OSError as error:
            self._offline(directory, error)
            raise KafkaStorageError(f"{directory.path} is offline: {error}") from error

    def delete(self, key: TopicPartition) -> None:
        """Deletes a log, if it exists: renames its directory now and removes it after `file.delete.delay.ms`.

        Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        log = self.logs.pop(key, None)
        self.corrupt.pop(key, None)
        for directory in self.directories:
            directory.logs.pop(key, None)
            directory.corrupt.discard(key)
            path = f"{directory.path}/{key}"
            if directory.failure is None and self._has(directory, key):
                renamed = f"{directory.path}/{self._deleted_name(key)}"
                try:
                    self._disk.rename(path, renamed)
                except OSError as error:
                    self._offline(directory, error)
                    raise KafkaStorageError(f"cannot rename {path}: {error}") from error
                self._renamed[key] = directory
                config = log.config if log is not None else self.config_of(key.topic)
                self._deleted.append((self._now_ms() + config.file_delete_delay_ms, renamed))
                if log is not None:
                    log.move(renamed)
                    log.close(clean=False)

    def _deleted_name(self, key: TopicPartition) -> str:
        suffix = f"-{key.partition}.{self._random.getrandbits(128):032x}-delete"
        return key.topic[: _NAME_LENGTH_MAX - len(suffix)] + suffix

    def high_watermark(self, key: TopicPartition) -> int:
        """Returns the checkpointed high watermark, limited to the range of the log; without a checkpoint the log start
        offset. The initial high watermark of a partition."""
        log = self.logs[key]
        for directory in self.directories:
            if key in directory.logs:
                found = directory.high_watermarks.get(key, 0)
                return min(max(found, log.start_offset), log.end_offset)
        return log.start_offset

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Writes recovery points, log start offsets and, if given, high watermarks, as far as they changed."""
        for directory in self.directories:
            self._on(directory, directory.write_recovery_points)
            self._on(directory, directory.write_start_offsets)
            if directory in self._renamed.values():
                self._on(directory, partial(self._disk.sync_directory, directory.path))
            if high_watermarks is not None:
                self._on(directory, partial(directory.write_high_watermarks, high_watermarks))
        self._renamed.clear()

    async def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Writes the high watermarks in a worker thread. Calls must not overlap."""
        for directory in self.directories:
            if directory.failure is None:
                try:
                    await self._disk.run(directory.prepare_high_watermarks(high_watermarks))
                except OSError as error:
                    self._offline(directory, error)

    def _on(self, directory: DataDirectory, action: Callable[[], None]) -> bool:
        """Returns whether it succeeded."""
        if directory.failure is None:
            try:
                action()
            except OSError as error:
                self._offline(directory, error)
            else:
                return True
        return False

    async def flush_due(self) -> int:
        """Flushes the logs with a rolled segment that is not flushed, or whose `flush.ms` has passed; returns their
        number."""
        due = [log for log in self.logs.values() if log.flush_wanted]
        for log in due:
            try:
                await log.flush_async(all_segments=False)
            except KafkaError:
                pass  # The log and its directory are offline now, which `_offline` has logged.
        return len(due)

    def run_retention(self, high_watermark_of: Callable[[TopicPartition], int | None]) -> int:
        """Deletes old segments and removes files deleted earlier; returns the number of segments.

        Args:
            high_watermark_of: returns None for partitions to skip.
        """
        deleted = 0
        for key, log in list(self.logs.items()):
            high_watermark = high_watermark_of(key)
            if high_watermark is not None and log.failure is None:
                try:
                    deleted += log.delete_old_segments(high_watermark)
                except KafkaError:
                    continue  # Logged by `_offline` or `_log_damage`.
        self.remove_deleted()
        return deleted

    def remove_deleted(self) -> None:
        """Removes the deleted logs and segments whose `file.delete.delay.ms` has passed."""
        now_ms = self._now_ms()
        due = [path for due_ms, path in self._deleted if due_ms <= now_ms]
        self._deleted = [one for one in self._deleted if one[0] > now_ms]
        for path in due:
            try:
                if self._disk.exists(path):
                    self._disk.remove_tree(path)
            except OSError as error:
                self._logger.warning("removal of deleted log failed", path=path, error=str(error))
        for log in list(self.logs.values()):
            try:
                log.remove_deleted()
            except KafkaError:
                continue

    def check_room(self) -> bool:
        """Tries to write where a disk was full; returns whether a directory has room again."""
        found = [one.room.check(self._disk, one.path) for one in self.directories if one.room.is_full]
        return any(found)

    def expire_producers(self) -> None:
        """Removes producers without appends for `producer.id.expiration.ms`."""
        for log in self.logs.values():
            log.expire_producers()

    def update_config(self, topic: str) -> None:
        """Applies changed configs of a topic."""
        config = self.config_of(topic)
        for key, log in self.logs.items():
            if key.topic == topic:
                log.update_config(config)

    def close(self, high_watermarks: Mapping[TopicPartition, int], *, broker_epoch: int = -1) -> None:
        """Flushes and closes all logs and writes the checkpoints; last, in directories without errors, the
        clean-shutdown file."""
        for directory in self.directories:
            # A clean-shutdown file would make the next start trust a corrupt log.
            succeeded = directory.failure is None and not directory.corrupt
            for logs in batched(list(directory.logs.values()), _CLOSED_AT_ONCE):
                succeeded &= self._close_logs(logs)
            succeeded &= self._on(directory, directory.write_recovery_points)
            succeeded &= self._on(directory, directory.write_start_offsets)
            succeeded &= self._on(directory, partial(directory.write_high_watermarks, high_watermarks))
            if succeeded:
                self._on(directory, partial(directory.write_marker, broker_epoch))
            directory.logs.clear()
        self.logs.clear()
        self._disk.unlock_all()

    def _close_logs(self, logs: Sequence[Log]) -> bool:
        """Closes several logs, with concurrent fsyncs; returns whether all succeeded."""
        succeeded = True
        begun: list[tuple[Log, Flush | None]] = []
        for log in logs:
            try:
                begun.append((log, log.begin_close()))
            except KafkaError:
                succeeded = False
        outcomes = self._disk.run_all([flush.sync for _, flush in begun if flush is not None])
        errors = iter(outcomes)
        for log, flush in begun:
            try:
                log.end_close(flush, None if flush is None else next(errors))
            except KafkaError:
                succeeded = False
        return succeeded and all(log.failure is None for log in logs)

    def _log_damage(self, log: Log, error: Exception) -> None:
        """Logs the first error of a log; readers get each error."""
        if log.topic_partition not in self._damaged:
            self._damaged.add(log.topic_partition)
            self._logger.critical("corrupt batch in log", partition=str(log.topic_partition), error=str(error))

    def _offline(self, directory: DataDirectory, error: Exception) -> None:
        """Takes a failed directory and all its logs offline, unless the error is passing."""
        if directory.failure is not None:
            return
        if is_passing(error):
            directory.room.refused(error, self._now_ms())
            return
        directory.failure = error
        self._logger.critical("log directory offline", directory=directory.path, error=str(error))
        for key, log in directory.logs.items():
            self.logs.pop(key, None)
            log.fail(error)
        self._on_offline(directory.path, error)


def batched(logs: list[Log], size: int) -> Iterator[list[Log]]:
    for start in range(0, len(logs), size):
        yield logs[start : start + size]


def parse_directory_name(name: str) -> TopicPartition | None:
    """Returns the partition of a log directory with this name, None for other names."""
    topic, found, partition = name.rpartition("-")
    if not found or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))
