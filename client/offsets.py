"""`OffsetAndMetadata`, a committed offset with its metadata; `OffsetAndTimestamp`, the result of an offset look-up."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.client.argument_kinds import Int32, Natural


class OffsetAndTimestamp(NamedTuple):
    """An offset and its record's timestamp (-1 unless looked up by time); `offset` is -1 if no record matches."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class OffsetAndMetadata(NamedTuple):
    """A group's committed offset of a partition, which is the next offset to read, with the committer's metadata."""

    offset: Natural
    metadata: str = ""
    leader_epoch: Int32 = -1
