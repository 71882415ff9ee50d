"""`Unflushed`: the segments, small files and names of a log that its next flush has to make durable."""

from collections.abc import Callable

from minikafka.storage.segments.segment import Segment


class Unflushed:
    """The parts of a log that its next flush has to make durable.

    Attributes:
        recovery_point: everything before this offset has been flushed.
        touched: rolled or truncated segments, ascending. The next flush includes them, even below the recovery point.
        paths: the paths of small files.
        names: whether the directory has entries that have not been flushed.
        settle: a function, called by each flush, that makes durable that this log has replaced another log; None if
            there is nothing to make durable.
        truncations: the number of truncations since the log was opened.
        has_changed: whether a clean shutdown has to flush the log.
        flushed_ms: the time of the last flush.
    """

    def __init__(self, recovery_point: int, flushed_ms: int) -> None:
        self.recovery_point = recovery_point
        self.touched: dict[Segment, None] = {}
        self.paths: list[str] = []
        self.names = False
        self.settle: Callable[[], None] | None = None
        self.truncations = 0
        self.has_changed = False
        self.flushed_ms = flushed_ms

    @property
    def has_files(self) -> bool:
        """Whether there is something to flush besides the batches beyond the recovery point."""
        return self.names or bool(self.paths) or bool(self.touched)
