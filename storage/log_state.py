"""The part of a log's state that flush, retention and truncation read and change. `log.Log` implements it."""

from collections.abc import Callable
from typing import Protocol

from minikafka.protocol.errors import KafkaError
from minikafka.storage.disk import Disk
from minikafka.storage.leader_epochs import LeaderEpochs
from minikafka.storage.log_config import LogConfig
from minikafka.storage.producer_snapshots import ProducerSnapshots
from minikafka.storage.producer_state import ProducerStates
from minikafka.storage.segment import Segment
from minikafka.storage.segments import Segments


class LogState(Protocol):
    """An open log.

    Attributes:
        start_offset, end_offset: the first offset that can be read, and the offset of the next append.
        recovery_point: everything before this offset has been flushed.
        active: the last segment, which is appended to.
        touched: segments to flush although they may lie below the recovery point: rolled or truncated. Ascending.
        unsynced_paths: small files to flush.
        directory_unsynced: the directory has entries that have not been flushed.
        unsettled: makes durable that this log has taken the place of another one; called by each flush. None if it is.
        truncations: the number of truncations since the log was opened.
        deleted_files: when they are to be removed (ms), and their paths.
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
        """Deletes segments that have been removed from `segments`, the last one first; `size_bytes` is theirs, if they
        were sealed and nothing takes their place."""
        ...

    def delete_later(self, paths: list[str]) -> None:
        """Deletes files after `file.delete.delay.ms`."""
        ...

    def fail(self, error: Exception) -> KafkaError:
        """Takes the log offline, unless the error is passing; returns the error to raise."""
        ...

    def lower_recovery_point(self, offset: int) -> None:
        """Must be called before flushed data from `offset` on is truncated."""
        ...
