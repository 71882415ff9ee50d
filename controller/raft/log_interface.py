"""`RaftLog`, the interface between Raft and the log on disk. No method waits: `effects.Sync` requests durability.

The implementation is `controller/quorum/raft_log.py`. Offsets count records. Data is whole record batches of format v2,
which Raft does not parse: the log keeps the `VoterHistory` of its records.
"""

from typing import NamedTuple, Protocol

from minikafka.controller.raft.voter_history import VoterHistory


class EpochEnd(NamedTuple):
    """An epoch, and the offset at which it ends."""

    epoch: int
    end_offset: int


class SnapshotId(NamedTuple):
    """A snapshot that replaces all records before `offset`, the last of which is of `epoch`."""

    offset: int
    epoch: int


class RaftLog(Protocol):
    """A log whose changes are visible at once, and durable once a later Sync is done.

    After a crash the log has all synced changes, and any prefix of the later ones.
    """

    @property
    def history(self) -> VoterHistory:
        """The voters at each offset, from records in the log and in its snapshot. Each change of the log updates it."""
        ...

    @property
    def start_offset(self) -> int:
        """The first record's offset. *Invariant:* if not 0, there is a snapshot of exactly this offset, or the latest
        snapshot has a later offset and `start_epoch` is known."""
        ...

    @property
    def start_epoch(self) -> int:
        """The epoch of the last record before `start_offset`, from the snapshot; 0 if `start_offset` is 0."""
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
        """The greatest epoch in the log up to `epoch`, and its end: the next epoch's first record or the log end. If
        all epochs are greater: (`start_epoch`, `start_offset`)."""
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Read whole batches from `offset` on, which must be a batch's base offset: as many as fit into `max_bytes`, at
        least one. Empty only at the log end. Includes records that are not synced."""
        ...

    def append_as_leader(self, batches: bytes, epoch: int) -> int:
        """Assign offsets and this epoch to the batches, append them, and return the new end offset."""
        ...

    def append_as_follower(self, batches: bytes) -> int:
        """Append the leader's batches unchanged; returns the new end offset.

        Raises:
            ValueError: the batches do not start at the log end, or are damaged. The log has not changed.
        """
        ...

    def truncate_to(self, offset: int) -> None:
        """Remove all records from `offset` on."""
        ...

    def latest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot, which contains committed records only."""
        ...

    def read_snapshot(self, snapshot: SnapshotId, position: int, size_max: int) -> tuple[int, bytes] | None:
        """The snapshot's whole size and at most `size_max` of its bytes from `position` on; None if it was deleted."""
        ...

    def start_at(self, snapshot: SnapshotId, data: bytes) -> None:
        """Install a snapshot that replaces the whole log: the log is then empty and starts at the snapshot's offset.

        A crash may leave the snapshot beside the old log: a log that ends before its latest snapshot, or has another
        epoch there, must be opened as an empty log that starts at the snapshot.
        """
        ...
