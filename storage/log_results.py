"""What a log answers with, and what it raises besides Kafka's errors."""

from typing import NamedTuple

from minikafka.protocol.errors import OffsetOutOfRangeError


class OffsetOutOfRange(OffsetOutOfRangeError):
    """An offset before the log's start or behind its end; both are attributes."""

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside the log, which goes from {start_offset} to {end_offset}")
        self.start_offset = start_offset
        self.end_offset = end_offset


class UnexpectedOffset(ValueError):
    """A replicated batch begins before the end of the log (Kafka's `UnexpectedAppendOffsetException`)."""


class Appended(NamedTuple):
    """What an append did.

    Attributes:
        max_timestamp: of all records (ms).
        flush_due: `flush.messages` says that the log must be flushed before this is acknowledged.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    flush_due: bool
