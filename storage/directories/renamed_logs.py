"""`RenamedLogs`: renames log directories that are deleted or set aside as strays, and removes the deleted ones."""

from collections.abc import Callable
from functools import partial
from random import Random

import structlog

from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.directory_scan import FUTURE
from minikafka.storage.disks.disk import Disk
from minikafka.storage.logs.log import Log
from minikafka.storage.steps import Steps, at_once

__all__ = ["RenamedLogs", "future_name"]

NAME_LENGTH_MAX = 255


def future_name(key: TopicPartition, unique_id: str) -> str:
    """The name of the directory of a future log. Long names are not cut: Kafka refuses to move such a partition."""
    return f"{key}.{unique_id}{FUTURE}"


class RenamedLogs:
    """Renames log directories. Methods raise OSError, after which the directory must go offline.

    Args:
        random: the source of the unique parts of names.
    """

    def __init__(self, disk: Disk, now_ms: Callable[[], int], random: Random) -> None:
        self._disk = disk
        self._now_ms = now_ms
        self._random = random
        self._unsynced: dict[TopicPartition, tuple[DataDirectory, str]] = {}
        self._deleted: list[tuple[int, str]] = []
        self._logger = structlog.get_logger("minikafka.storage")

    def new_id(self) -> str:
        """A new random id: 32 hexadecimal digits."""
        return f"{self._random.getrandbits(128):032x}"

    def rename(
        self, directory: DataDirectory, key: TopicPartition, suffix: str, log: Log | None = None, path: str = ""
    ) -> str:
        """Renames the directory of a log, and moves the log if it is open; returns the new path.

        Args:
            suffix: the end of the new name, for example `-delete`.
            log: the log, if it is open.
            path: the path of a log that is not open; by default the usual path of the partition.
        """
        suffix = f"-{key.partition}.{self.new_id()}{suffix}"
        renamed = f"{directory.path}/{key.topic[: NAME_LENGTH_MAX - len(suffix)]}{suffix}"
        self._disk.rename(path or (f"{directory.path}/{key}" if log is None else log.directory), renamed)
        self._unsynced[key] = (directory, renamed)
        if log is not None:
            log.move(renamed)
        return renamed

    def unsynced_directory(self, key: TopicPartition) -> DataDirectory | None:
        """The directory in which a power failure could bring back a renamed log of this partition; None without one.

        Such a log would be a duplicate once another directory has a new log of the partition.
        """
        found = self._unsynced.get(key)
        return None if found is None else found[0]

    @property
    def unsynced(self) -> bool:
        """Whether there are new names that are not durable yet."""
        return bool(self._unsynced)

    def sync(self, directory: DataDirectory) -> None:
        """Makes the new names in a directory durable. Blocking."""
        at_once(self.syncing(directory))

    def syncing(self, directory: DataDirectory) -> Steps[None]:
        """As `sync`, but yields the blocking call."""
        known = {key: one for key, one in self._unsynced.items() if one[0] is directory}
        if known:
            yield partial(self._disk.sync_directory, directory.path)
        for key, one in known.items():
            if self._unsynced.get(key) == one:  # It was not renamed again meanwhile.
                del self._unsynced[key]

    def remove_later(self, path: str, delay_ms: int = 0) -> None:
        """Registers a log directory for removal: `take_due` returns its path after the delay."""
        self._deleted.append((self._now_ms() + delay_ms, path))

    def take_due(self) -> list[str]:
        """Returns the log directories whose delay has passed, once. The caller must remove them."""
        now_ms = self._now_ms()
        due = [path for due_ms, path in self._deleted if due_ms <= now_ms]
        self._deleted = [one for one in self._deleted if one[0] > now_ms]
        return due

    def remove(self, path: str) -> None:
        """Removes a log directory. An error is logged, and the next start tries again. May run in a thread."""
        try:
            if self._disk.exists(path):
                self._disk.remove_tree(path)
        except OSError as error:
            self._logger.warning("removal of deleted log failed", path=path, error=str(error))
