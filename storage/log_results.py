"""The result of an append (Kafka's `LogAppendInfo`), and the exceptions of reads and appends."""

from typing import NamedTuple

from minikafka.protocol.errors import OffsetOutOfRangeError


class OffsetOutOfRange(OffsetOutOfRangeError):
    """An offset below the log start offset or above the log end offset; both are attributes."""

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is not in the range {start_offset} to {end_offset} of the log")
        self.start_offset = start_offset
        self.end_offset = end_offset


class UnexpectedOffset(ValueError):
    """A replicated batch starts before the log end offset (Kafka's `UnexpectedAppendOffsetException`)."""


class Appended(NamedTuple):
    """The result of an append.

    Attributes:
        max_timestamp: the largest timestamp of the records (ms).
        flush_due: `flush.messages` requires a flush before the append is acknowledged.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    flush_due: bool
