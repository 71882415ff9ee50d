"""`LogFailures`: takes failed data directories and their logs offline, and remembers damaged logs."""

from collections.abc import Callable, Iterable

import structlog

from minikafka.protocol.errors import without_frames
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.disks.disk_errors import is_passing
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.recovery import CorruptLog


class LogFailures:
    """The failures of the data directories of a node, and of their logs.

    Args:
        logs: the open logs by partition, from which those of a failed directory are removed.
        on_offline: called after a directory has failed and its logs are offline.

    Attributes:
        corrupt: partitions whose flushed data is corrupt; their files are unchanged.
        clean: whether the last shutdown was clean in all directories, and none of them has failed since.
        previous_broker_epoch: the broker epoch at the last clean shutdown, -1 if unknown (KIP-966).
    """

    def __init__(
        self,
        logs: dict[TopicPartition, Log],
        now_ms: Callable[[], int],
        on_offline: Callable[[DataDirectory, Exception], None],
    ) -> None:
        self.corrupt: dict[TopicPartition, CorruptLog] = {}
        self.clean = False
        self.previous_broker_epoch = -1
        self._logs = logs
        self._now_ms = now_ms
        self._on_offline = on_offline
        self._damaged: set[TopicPartition] = set()
        self._gaps: set[tuple[str, int]] = set()
        self._logger = structlog.get_logger("minikafka.storage")

    def loaded(self, directories: Iterable[DataDirectory]) -> None:
        """Called after the logs of all directories have been opened."""
        self.clean = all(directory.failure is None and directory.shutdown.was_clean for directory in directories)
        epochs = {directory.shutdown.broker_epoch for directory in directories}
        self.previous_broker_epoch = epochs.pop() if self.clean and len(epochs) == 1 else -1

    def attempt(self, directory: DataDirectory, action: Callable[[], None]) -> bool:
        """Runs an action on a directory; returns whether it succeeded. An OSError may take the directory offline."""
        if directory.failure is None:
            try:
                action()
            except OSError as error:
                self.offline(directory, error)
            else:
                return True
        return False

    def found_corrupt(self, directory: DataDirectory, key: TopicPartition, error: CorruptLog) -> None:
        """Called when a log cannot be opened, since its flushed data is corrupt."""
        self.corrupt[key] = without_frames(error)
        directory.corrupt.add(key)
        self._logger.critical("log corrupt", partition=str(key), error=str(error))

    def forget_corrupt(self, directory: DataDirectory, key: TopicPartition) -> None:
        """Called when a log was deleted or set aside."""
        if key in directory.corrupt:
            directory.corrupt.discard(key)
            self.corrupt.pop(key, None)

    def found_damage(self, key: TopicPartition, error: Exception) -> None:
        """Logs the first corrupt batch of an open log. The readers receive each error."""
        if key not in self._damaged:
            self._damaged.add(key)
            self._logger.critical("corrupt batch in log", partition=str(key), error=str(error))

    def found_gap(self, key: TopicPartition, path: str, end: int, base: int) -> None:
        """Logs the first read that passes the gap from `end` to `base` between two segments."""
        if (path, end) not in self._gaps:
            self._gaps.add((path, end))
            missing = f"{end}-{base - 1}"
            self._logger.error("records missing between segments", partition=str(key), after=path, offsets=missing)

    def offline(self, directory: DataDirectory, error: Exception) -> None:
        """Takes a failed directory and all its logs offline, unless the error is passing."""
        if directory.failure is not None:
            return
        if is_passing(error):
            directory.room.refused(error, self._now_ms())
            return
        directory.failure = without_frames(error)
        self.clean, self.previous_broker_epoch = False, -1
        self._logger.critical("log directory offline", directory=directory.path, error=str(error))
        for key in directory.corrupt:
            self.corrupt.pop(key, None)
        for key, log in directory.logs.items():
            self._logs.pop(key, None)
            log.fail(error)
        self._on_offline(directory, error)
