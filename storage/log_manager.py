"""All logs of a node, in one or more data directories (`log.dirs`), as Kafka's `LogManager` keeps them.

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
from minikafka.storage.data_directory import DataDirectory
from minikafka.storage.disk import Disk
from minikafka.storage.flush import Flush
from minikafka.storage.log import Log
from minikafka.storage.log_config import PRODUCER_EXPIRATION_MS, LogConfig
from minikafka.storage.recovery import CorruptLog
from minikafka.storage.segment import MisplacedBatches

METADATA_TOPIC = "__cluster_metadata"
_NAME_LENGTH_MAX = 255
_CLOSED_AT_ONCE = 100


class LogManager:
    """See above.

    Args:
        directories: the data directories; made where they are absent.
        config_of: the settings of a topic's logs.
        node_id, cluster_id: must be those in `meta.properties`; None is not compared, and not written.
        on_offline: called with a directory's path and the error when it fails.

    Attributes:
        logs: the open ones, except those in directories that failed.
        corrupt: partitions whose synced data is damaged: their files are as they were found.
        clean: whether all directories had been shut down cleanly.
        previous_broker_epoch: the broker epoch of that shutdown, -1 where it is not known (KIP-966).
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
        self._doomed: list[tuple[int, str]] = []
        self._logger = structlog.get_logger("minikafka.storage")

    def load(self) -> None:
        """Open every log. The clean-shutdown markers go first, so that a crash while loading leads to
        recovery again (KAFKA-10471).

        Raises:
            WrongDirectory: a directory belongs to another node or cluster.
            BlockingIOError: another process uses one.
        """
        for directory in self.directories:
            try:
                directory.open(*self._identity, random=self._random)
                directory.take_marker()
                for warning in directory.read_checkpoints():
                    self._logger.warning("checkpoint cannot be read, and is not trusted", problem=warning)
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
                self._doomed.append((self._now_ms(), path))
                continue
            key = parse_directory_name(name)
            if key is None or key.topic == METADATA_TOPIC or not self._disk.is_directory(path):
                continue
            try:
                self._open(directory, key, None)
            except CorruptLog as error:
                self.corrupt[key] = error
                directory.corrupt.add(key)
                self._logger.critical("log is corrupt and stays closed", partition=str(key), problem=str(error))

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
            on_damage=self._tell_damage,
            on_truncation=lambda log: directory.write_recovery_points(),
        )
        directory.logs[key] = self.logs[key] = log
        if log.report.damage:
            self._logger.error("data is gone from a log", partition=str(key), problem=log.report.damage)
        elif not log.report.clean:
            self._logger.info("log recovered", partition=str(key), cut_bytes=log.report.cut_bytes)
        return log

    def get(self, key: TopicPartition) -> Log | None:
        return self.logs.get(key)

    def create(
        self, key: TopicPartition, *, topic_id: bytes | None = None, config: LogConfig | None = None
    ) -> Log:
        """The log of a partition: the one that is open, the one on disk that `load` passed over (that of
        `__cluster_metadata`), or a new one, in the directory with the fewest.

        Raises:
            CorruptLog: it is there, and damaged.
            KafkaError: KAFKA_STORAGE_ERROR, where no directory works.
        """
        log = self.logs.get(key)
        if log is not None:
            return log
        if key in self.corrupt:
            raise self.corrupt[key]
        healthy = [directory for directory in self.directories if directory.failure is None]
        if not healthy:
            raise KafkaStorageError("all data directories are offline")
        found = [one for one in healthy if self._disk.exists(f"{one.path}/{key}")]
        directory = found[0] if found else min(healthy, key=lambda one: len(one.logs))
        try:
            if not found:
                directory.forget(key)
            return self._open(directory, key, topic_id, config)
        except (OSError, MisplacedBatches) as error:
            self._offline(directory, error)
            raise KafkaStorageError(f"{directory.path} is offline: {error}") from error

    def delete(self, key: TopicPartition) -> None:
        """Take a log away: its directory is renamed now and removed after `file.delete.delay.ms`.

        A partition that is not there is passed over. Raises KafkaError: KAFKA_STORAGE_ERROR.
        """
        log = self.logs.pop(key, None)
        self.corrupt.pop(key, None)
        for directory in self.directories:
            directory.logs.pop(key, None)
            directory.corrupt.discard(key)
            path = f"{directory.path}/{key}"
            if directory.failure is None and self._disk.exists(path):
                doomed = f"{directory.path}/{self._deleted_name(key)}"
                try:
                    self._disk.rename(path, doomed)
                except OSError as error:
                    self._offline(directory, error)
                    raise KafkaStorageError(f"{path} could not be renamed: {error}") from error
                config = log.config if log is not None else self.config_of(key.topic)
                self._doomed.append((self._now_ms() + config.file_delete_delay_ms, doomed))
                if log is not None:
                    log.move(doomed)
                    log.close(clean=False)

    def _deleted_name(self, key: TopicPartition) -> str:
        suffix = f"-{key.partition}.{self._random.getrandbits(128):032x}-delete"
        return key.topic[: _NAME_LENGTH_MAX - len(suffix)] + suffix

    def high_watermark(self, key: TopicPartition) -> int:
        """The high watermark that was last checkpointed, within the bounds of the log; its start where none
        was. For a partition that begins."""
        log = self.logs[key]
        for directory in self.directories:
            if key in directory.logs:
                found = directory.high_watermarks.get(key, 0)
                return min(max(found, log.start_offset), log.end_offset)
        return log.start_offset

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Write recovery points, start offsets and, where given, high watermarks, as far as they changed."""
        for directory in self.directories:
            self._on(directory, directory.write_recovery_points)
            self._on(directory, directory.write_start_offsets)
            if high_watermarks is not None:
                self._on(directory, directory.prepare_high_watermarks(high_watermarks))

    async def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks, in a worker thread. One such call at a time."""
        for directory in self.directories:
            write = directory.prepare_high_watermarks(high_watermarks)
            if directory.failure is None:
                try:
                    await self._disk.run(write)
                except OSError as error:
                    self._offline(directory, error)

    def _on(self, directory: DataDirectory, action: Callable[[], None]) -> None:
        if directory.failure is None:
            try:
                action()
            except OSError as error:
                self._offline(directory, error)

    async def flush_due(self) -> int:
        """Flush the logs that have a rolled segment not yet on the device, or whose `flush.ms` has passed;
        how many."""
        due = [log for log in self.logs.values() if log.flush_wanted]
        for log in due:
            try:
                await log.flush_async(all_segments=False)
            except KafkaError:
                pass  # The log is offline now, and its directory with it: `_offline` has told.
        return len(due)

    def run_retention(self, high_watermark_of: Callable[[TopicPartition], int | None]) -> int:
        """Delete old segments, and remove files deleted earlier; how many segments went.

        Args:
            high_watermark_of: None leaves a partition alone.
        """
        deleted = 0
        for key, log in list(self.logs.items()):
            high_watermark = high_watermark_of(key)
            if high_watermark is not None and log.failure is None:
                try:
                    deleted += log.delete_old_segments(high_watermark)
                except KafkaError:
                    continue  # As above, or `_tell_damage` has.
        self.remove_deleted()
        return deleted

    def remove_deleted(self) -> None:
        """Remove the logs and segments whose `file.delete.delay.ms` is over."""
        now_ms = self._now_ms()
        due = [path for due_ms, path in self._doomed if due_ms <= now_ms]
        self._doomed = [one for one in self._doomed if one[0] > now_ms]
        for path in due:
            try:
                if self._disk.exists(path):
                    self._disk.remove_tree(path)
            except OSError as error:
                self._logger.warning("deleted log could not be removed", path=path, problem=str(error))
        for log in list(self.logs.values()):
            try:
                log.remove_doomed()
            except KafkaError:
                continue

    def expire_producers(self) -> None:
        """Forget producers that were silent for `producer.id.expiration.ms`."""
        for log in self.logs.values():
            log.expire_producers()

    def update_config(self, topic: str) -> None:
        """The settings of a topic changed: take them over."""
        config = self.config_of(topic)
        for key, log in self.logs.items():
            if key.topic == topic:
                log.update_config(config)

    def close(self, high_watermarks: Mapping[TopicPartition, int], *, broker_epoch: int = -1) -> None:
        """Flush and close every log, write the checkpoints and, last, in each directory where all went well,
        the marker of a clean shutdown."""
        for directory in self.directories:
            # With a marker the next start would believe a log that this one found corrupt.
            well = directory.failure is None and not directory.corrupt
            for logs in batched(list(directory.logs.values()), _CLOSED_AT_ONCE):
                well &= self._close_logs(logs)
            self._on(directory, directory.write_recovery_points)
            self._on(directory, directory.write_start_offsets)
            self._on(directory, directory.prepare_high_watermarks(high_watermarks))
            if well:
                self._on(directory, partial(directory.write_marker, broker_epoch))
            directory.logs.clear()
        self.logs.clear()
        self._disk.unlock_all()

    def _close_logs(self, logs: Sequence[Log]) -> bool:
        """Close a few at once, because syncing is all waiting; whether all went well."""
        well = True
        begun: list[tuple[Log, Flush | None]] = []
        for log in logs:
            try:
                begun.append((log, log.begin_close()))
            except KafkaError:
                well = False
        outcomes = self._disk.run_all([flush.sync for _, flush in begun if flush is not None])
        errors = iter(outcomes)
        for log, flush in begun:
            try:
                log.end_close(flush, None if flush is None else next(errors))
            except KafkaError:
                well = False
        return well and all(log.failure is None for log in logs)

    def _tell_damage(self, log: Log, error: Exception) -> None:
        """Once; whoever asks is told each time."""
        if log.topic_partition not in self._damaged:
            self._damaged.add(log.topic_partition)
            self._logger.critical("a log is damaged", partition=str(log.topic_partition), problem=str(error))

    def _offline(self, directory: DataDirectory, error: Exception) -> None:
        """A directory failed: none of its logs is used again."""
        if directory.failure is not None:
            return
        directory.failure = error
        self._logger.critical("data directory is offline", path=directory.path, problem=str(error))
        for key, log in directory.logs.items():
            self.logs.pop(key, None)
            log.fail(error)
        self._on_offline(directory.path, error)


def batched(logs: list[Log], size: int) -> Iterator[list[Log]]:
    for start in range(0, len(logs), size):
        yield logs[start : start + size]


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition whose log lies in a directory of this name, None where it is none."""
    topic, found, partition = name.rpartition("-")
    if not found or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))
