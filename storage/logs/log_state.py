"""`LogState`: the part of a log's state that flush, retention and truncation read and change (a Protocol)."""

from collections.abc import Callable
from typing import Protocol

from minikafka.protocol.errors import KafkaError
from minikafka.storage.disks.disk import Disk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.leader_epochs import LeaderEpochs
from minikafka.storage.logs.producer_snapshots import ProducerSnapshots
from minikafka.storage.logs.producer_state import ProducerStates
from minikafka.storage.segments.segment import Segment
from minikafka.storage.segments.segments import Segments


class LogState(Protocol):
    """An open log, as flush, retention and truncation use it. `log.Log` implements this protocol.

    Attributes:
        start_offset, end_offset: the first offset that can be read, and the offset of the next append.
        recovery_point: everything before this offset has been flushed.
        active: the last segment, to which records are appended.
        touched: rolled or truncated segments, ascending. The next flush includes them, even below the recovery point.
        unsynced_paths: the paths of small files that the next flush includes.
        directory_unsynced: whether the directory has entries that have not been flushed.
        unsettled: a function, called by each flush, that makes durable that this log has replaced another log; None
            if there is nothing to make durable.
        truncations: the number of truncations since the log was opened.
        deleted_files: (the time in ms at which to remove it, path) of each deleted file.
    """

    disk: Disk
    directory: str
    config: LogConfig
    now_ms: Callable[[], int]
    start_offset: int
    end_offset: int
    recovery_point: int
    segments: Segments
    active: Segment
    epochs: LeaderEpochs
    producers: ProducerStates
    snapshots: ProducerSnapshots
    touched: dict[Segment, None]
    unsynced_paths: list[str]
    directory_unsynced: bool
    unsettled: Callable[[], None] | None
    truncations: int
    failure: Exception | None
    deleted_files: list[tuple[int, str]]

    @property
    def size_bytes(self) -> int: ...

    def roll(self, first_offset: int | None = None) -> None:
        """Starts a new segment."""
        ...

    def drop(self, segments: list[Segment], *, size_bytes: int | None = None) -> None:
        """Deletes segments that have been removed from `segments`, the last segment first.

        Args:
            size_bytes: the size of the segments, if they were sealed and no segment replaces them; None otherwise.
        """
        ...

    def delete_later(self, paths: list[str]) -> None:
        """Deletes files after `file.delete.delay.ms`."""
        ...

    def fail(self, error: Exception) -> KafkaError:
        """Takes the log offline, unless the error is passing; returns the error to raise."""
        ...

    def lower_recovery_point(self, offset: int) -> None:
        """Lowers the recovery point to `offset`. Must be called before flushed data from `offset` on is truncated."""
        ...
