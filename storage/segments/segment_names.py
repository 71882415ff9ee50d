"""Names of a segment's files, the position of a batch in a segment, and the errors of corrupt segments."""

from typing import NamedTuple

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
DELETED = ".deleted"


class BatchPosition(NamedTuple):
    """The byte position and the size of a batch in the log file of a segment."""

    position: int
    size_bytes: int


class CorruptSegment(ValueError):
    """A segment contains batches of other offsets, or no batch where one is expected."""


class CorruptIndex(CorruptSegment):
    """An index entry does not match the batch at its position."""


_OFFSET_DIGITS, _OFFSET_MAX = 20, (1 << 63) - 1


def offset_of(name: str) -> int:
    """Returns the offset at the start of a file's name; -1 if there is none: the file is not one of a segment."""
    text = name[:_OFFSET_DIGITS]
    is_number = len(text) == _OFFSET_DIGITS and text.isascii() and text.isdigit()
    return int(text) if is_number and int(text) <= _OFFSET_MAX else -1


def offset_name(offset: int) -> str:
    """Returns the 20 digits at the start of a segment's file names."""
    return f"{offset:020d}"
