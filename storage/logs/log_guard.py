"""`LogGuard`: takes a log offline after a failed write or fsync.

While the log is offline, each call raises KAFKA_STORAGE_ERROR, until the node has recovered the log from disk. A
passing error (`disk_errors.py`), or a corrupt batch found by a read, fails one call only.
"""

from collections.abc import Callable
from typing import TypeVar

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for, without_frames
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.disks.disk_errors import is_passing
from minikafka.storage.logs.log_context import LogOwner
from minikafka.storage.segments.segment_names import CorruptSegment

FAILURES = (OSError, CorruptSegment, CorruptRecords)
Result = TypeVar("Result")


class LogGuard:
    """The error handling of a log: decides which errors of its operations take the log offline.

    Attributes:
        failure: the error that took the log offline, or None.
        is_closed: whether the log's files are closed, because the node stops, or the log was deleted or moved.
    """

    def __init__(self, topic_partition: TopicPartition, owner: LogOwner) -> None:
        self.failure: Exception | None = None
        self.is_closed = False
        self._topic_partition = topic_partition
        self._owner = owner

    def offline(self) -> KafkaError:
        """Returns the error to raise while the log is offline."""
        return error_for(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._topic_partition} is offline: {self.failure}")

    def fail(self, error: Exception) -> KafkaError:
        """Takes the log offline permanently, unless the error is passing; returns the error to raise."""
        if self.failure is None:
            if not is_passing(error):
                self.failure = without_frames(error)
            self._owner.on_failure(error)
        if self.failure is None:
            return error_for(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._topic_partition} cannot be written: {error}")
        return self.offline()

    def run(self, function: Callable[..., Result], *args: object) -> Result:
        """Calls a function that changes the log. Raises KafkaError."""
        if self.failure is not None:
            raise self.offline()
        try:
            return function(*args)
        except FAILURES as error:
            raise self.fail(error) from error

    def read(self, function: Callable[..., Result], *args: object) -> Result:
        """Calls a function that reads the log, like `run`. A corrupt batch fails only this read, not the log."""
        return self.run(self._read_or_corrupt, function, *args)

    def run_if_open(self, function: Callable[..., Result], *args: object) -> Result:
        """Calls a function like `run`, after a wait: the log may have been deleted or moved meanwhile."""
        if self.is_closed:
            raise error_for(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._topic_partition} is closed")
        return self.run(function, *args)

    def read_if_open(self, function: Callable[..., Result], *args: object) -> Result:
        """Calls a function like `read`, after a wait: the log may have been deleted or moved meanwhile."""
        return self.run_if_open(self._read_or_corrupt, function, *args)

    def _read_or_corrupt(self, function: Callable[..., Result], *args: object) -> Result:
        try:
            return function(*args)
        except (CorruptSegment, CorruptRecords) as error:
            self._owner.on_damage(error)
            raise error_for(ErrorCode.CORRUPT_MESSAGE, f"{self._topic_partition}: {error}") from error
