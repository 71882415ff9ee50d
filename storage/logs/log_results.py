"""Defines the result of an append (Kafka's `LogAppendInfo`), and the exceptions of reads and appends."""

from typing import NamedTuple

from minikafka.protocol.errors import OffsetOutOfRangeError


class OffsetOutOfRange(OffsetOutOfRangeError):
    """An offset is below the log start offset or above the log end offset.

    Attributes:
        start_offset, end_offset: the log start offset and the log end offset.
    """

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is not in the range {start_offset} to {end_offset} of the log")
        self.start_offset = start_offset
        self.end_offset = end_offset


class UnexpectedOffset(ValueError):
    """A replicated batch starts before the log end offset (Kafka's `UnexpectedAppendOffsetException`)."""


class Appended(NamedTuple):
    """The result of an append.

    Attributes:
        first_offset, last_offset: the offsets of the first and the last record.
        max_timestamp: the largest timestamp of the records (ms).
        flush_due: whether `flush.messages` requires a flush before the append is acknowledged.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    flush_due: bool
