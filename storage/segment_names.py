"""What segments are described by: the names of their files, positions of batches, and errors."""

from typing import NamedTuple

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
DELETED = ".deleted"


class BatchPosition(NamedTuple):
    """The position of a batch."""

    position: int
    size_bytes: int


class CorruptSegment(ValueError):
    """A segment contains batches of other offsets, or no batch where one is expected."""


class CorruptIndex(CorruptSegment):
    """An index entry does not match the batch at its position."""


def offset_name(offset: int) -> str:
    """Returns the 20 digits at the start of a segment's file names."""
    return f"{offset:020d}"
