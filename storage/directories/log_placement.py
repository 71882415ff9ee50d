"""`LogPlacement`: chooses the data directory in which a new log is created."""

from collections.abc import Sequence

from minikafka.protocol.errors import KafkaStorageError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.directory_ids import UNASSIGNED

PREFERRED_MAX = 10_000
"""The largest number of partitions with a preferred directory. Beyond it the oldest preference is forgotten."""


class LogPlacement:
    """Chooses the directories of new logs.

    Args:
        directories: the data directories of the node.
    """

    def __init__(self, directories: Sequence[DataDirectory]) -> None:
        self._directories = directories
        self._preferred: dict[TopicPartition, str] = {}

    def prefer(self, key: TopicPartition, path: str) -> None:
        """Chooses the directory in which a new log of a partition is created later (KIP-113)."""
        if len(self._preferred) >= PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[key] = path

    def places(self, key: TopicPartition, assigned: bytes, *, is_new: bool) -> list[DataDirectory]:
        """The directories for a new log, the best first; `assigned` and `is_new` as for `LogManager.create`.

        Raises:
            KafkaStorageError: the log may be in a directory that has failed.
        """
        healthy = [one for one in self._directories if one.failure is None]
        healthy.sort(key=lambda one: (one.cordoned, one.room.is_full, len(one.logs)))
        preferred = self._preferred.pop(key, None)
        wanted = [one for one in healthy if one.path == preferred]
        chosen = [one for one in healthy if one.id == assigned]
        if chosen:
            return wanted or chosen
        if len(healthy) < len(self._directories) and not (is_new and assigned == UNASSIGNED):
            failures = failures_of(self._directories)
            raise KafkaStorageError(f"no new log of {key} is made, since it may be in {failures}")
        if wanted:
            return wanted
        if assigned != UNASSIGNED:
            healthy.sort(key=lambda one: not one.identity.was_blank)
        return healthy


def failures_of(directories: Sequence[DataDirectory]) -> str:
    """The paths of the failed directories, each with its error."""
    return "; ".join(f"{one.path}: {one.failure}" for one in directories if one.failure is not None)
