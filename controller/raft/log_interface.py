"""What Raft asks of the log: the seam to the disk. Nothing here waits; `effects.Sync` says what must be durable when.

Offsets count records. Data is whole record batches of format v2, which Raft never looks into.
"""

from typing import NamedTuple, Protocol


class EpochEnd(NamedTuple):
    """An epoch, and the offset at which it ends."""

    epoch: int
    end_offset: int


class SnapshotId(NamedTuple):
    """A snapshot stands for all records before `offset`, the last of which is of `epoch`."""

    offset: int
    epoch: int


class RaftLog(Protocol):
    """A log whose changes show at once and last once a Sync that follows them is done.

    After a crash what had been synced is there, and of what came later any part that was done first.
    """

    @property
    def start_offset(self) -> int:
        """The first record's offset. *Invariant:* where it is not 0 a snapshot of exactly this offset is kept, or the
        latest snapshot is of a later one and `start_epoch` is remembered."""
        ...

    @property
    def start_epoch(self) -> int:
        """The epoch of the last record before `start_offset`, which is the snapshot's that begins the log; 0 if
        `start_offset` is 0."""
        ...

    @property
    def end_offset(self) -> int:
        """The next record's offset."""
        ...

    @property
    def last_epoch(self) -> int:
        """The last record's epoch; `start_epoch` of an empty log."""
        ...

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The greatest epoch in the log that is not above `epoch`, and where it ends: at the next epoch's first record
        or at the log's end. Where all are above: (`start_epoch`, `start_offset`)."""
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from `offset` on, which is a batch's first: as many as fit, but at least one. Empty only at
        the end. What is not synced is read as well."""
        ...

    def append_as_leader(self, batches: bytes, epoch: int) -> int:
        """Give the batches offsets and this epoch, append them, and return the new end."""
        ...

    def append_as_follower(self, batches: bytes) -> int:
        """Append batches as the leader has them; returns the new end.

        Raises:
            ValueError: they do not begin at the end, or are damaged. The log has not changed.
        """
        ...

    def truncate_to(self, offset: int) -> None:
        """Drop all records from `offset` on."""
        ...

    def latest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot, which never reaches beyond what is committed."""
        ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, size_max: int) -> tuple[int, bytes] | None:
        """The snapshot's whole size and at most `size_max` of its bytes from `position` on; None if it is gone."""
        ...

    def start_at(self, snapshot: SnapshotId, data: bytes) -> None:
        """Install a snapshot in place of everything: the log is empty and begins at the snapshot's offset.

        A crash may leave the snapshot beside the old log: a log that ends before its latest snapshot, or has another
        epoch there, must be opened as an empty one that begins at the snapshot.
        """
        ...
