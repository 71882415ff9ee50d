"""The metadata log of a quorum on disk: a `storage.Log`, its snapshots, and the file of the election state.

Implements `RaftLog` (`raft/log_interface.py`). `Log.open` truncates a torn end; damaged synced data is an error.

    <metadata.log.dir>/__cluster_metadata-0/
        00000000000000000000.log …                   a `storage.Log`: batches of msgpack records, one batch per decision
        00000000000000000123-0000000002.checkpoint   a snapshot: all records below offset 123, leader epoch 2
        quorum-state                                 the election state: epoch and vote
"""

from collections.abc import Callable, Iterator, Sequence

from minikafka.controller.metadata.metadata_log import (
    NO_SNAPSHOT,
    claim_directory,
    decoded_records,
    delete_before,
    open_log,
)
from minikafka.controller.metadata.records import Record, UnreadableRecord
from minikafka.controller.metadata.snapshot_encoding import snapshot_membership
from minikafka.controller.metadata.snapshot_files import SnapshotFiles
from minikafka.controller.metadata.synced_offset import SyncedOffset
from minikafka.controller.quorum.bootstrap_checkpoint import read_bootstrap_checkpoint
from minikafka.controller.raft.election_state import (
    FILE_NAME,
    ElectionState,
    UnreadableElectionState,
    decode_election_state,
    encode_election_state,
    what_to_do,
)
from minikafka.controller.raft.log_interface import EpochEnd, SnapshotId
from minikafka.controller.raft.membership_records import MembershipRecord, UnreadableMembership, membership_in
from minikafka.controller.raft.voter_history import Membership, VoterHistory
from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.disks.checkpoint_files import EPOCHS
from minikafka.storage.disks.disk import Disk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.steps import at_once

__all__ = ["StoredRaftLog"]

READ_SIZE = 1 << 20


class StoredRaftLog:
    """A `RaftLog` on disk, created by `open`. If a method raises KafkaError or OSError, the node must stop."""

    def __init__(self, disk: Disk, log: Log, snapshots: SnapshotFiles) -> None:
        self._disk = disk
        self._log = log
        self._snapshots = snapshots
        self._size_at_snapshot = 0
        self._prepared: SnapshotId | None = None
        self.history = VoterHistory()
        self._one_writer = disk.mutex()
        self._synced = SyncedOffset(disk, log.directory)

    @classmethod
    def open(cls, disk: Disk, directory: str, config: LogConfig, *, now_ms: Callable[[], int]) -> "StoredRaftLog":
        """Open the log in a data directory, or create it.

        Raises:
            UnreadableRecord: the log is damaged beyond a torn end.
            BlockingIOError: another process has the log open.
            CorruptLog, OSError: see `Log.open`.
        """
        path = claim_directory(disk, directory)
        if disk.exists(f"{path}/{EPOCHS}"):
            disk.remove(f"{path}/{EPOCHS}")  # possibly of a log replaced by a snapshot; the batches are read anyway
        snapshots = SnapshotFiles(disk, path)
        covered_offset = (snapshots.newest or NO_SNAPSHOT).offset
        opened = cls(disk, open_log(disk, path, config, now_ms=now_ms, covered_offset=covered_offset), snapshots)
        opened._begin_at_snapshot()
        opened._read_voters(read_bootstrap_checkpoint(disk, directory))
        opened._log.flush()  # records that are read from now on must survive a power failure
        opened._synced.note(opened._log.recovery_point)
        return opened

    def _begin_at_snapshot(self) -> None:
        """Drop the records that the newest snapshot covers. If a crash interrupted the installation of the snapshot,
        replace the log now."""
        snapshot, log = self._snapshots.newest or NO_SNAPSHOT, self._log
        if log.start_offset > snapshot.offset:
            raise UnreadableRecord(
                f"the metadata log in {log.directory} starts at offset {log.start_offset}, but the newest snapshot "
                f"ends at {snapshot.offset}: the records between are missing"
            )
        if log.end_offset < snapshot.offset or self._disagrees_with(snapshot):
            log.truncate_fully_and_start_at(snapshot.offset)
        elif log.start_offset < snapshot.offset:
            delete_before(log, snapshot.offset)

    def _read_voters(self, bootstrap: Membership | None) -> None:
        """Read the history of the voters: from the newest snapshot or else the bootstrap checkpoint, then the log."""
        snapshot, data = self._snapshots.newest, self._snapshots.read_newest()
        try:
            named = bootstrap if snapshot is None or data is None else snapshot_membership(data, snapshot.offset)
        except UnreadableRecord as error:
            assert snapshot is not None, "it was decoded"
            directory = self._log.directory
            raise UnreadableRecord(
                f"{self._snapshots.path(snapshot)}: {error}. The metadata before it is in no other file: restore a "
                f"backup of {directory}, or, if there are other voters, move it away while they run: it is fetched"
            ) from error
        self.history.start_at(named or Membership())
        offset = self.start_offset
        while data := self.read(offset, READ_SIZE):
            for batch in batches(data):
                self._note_voters(batch)
                offset = batch.next_offset

    def _note_voters(self, batch: Batch) -> None:
        try:
            self.history.append(membership_in(batch))
        except UnreadableMembership as error:
            raise UnreadableRecord(f"the metadata log in {self._log.directory}: {error}") from error

    def _disagrees_with(self, snapshot: SnapshotId) -> bool:
        """Whether the last record before the snapshot's offset has another epoch in this log."""
        if snapshot.offset <= self._log.start_offset:
            return False
        return self._log.epochs.epoch_of(snapshot.offset - 1) != snapshot.epoch

    # -- RaftLog -------------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def start_epoch(self) -> int:
        return (self._snapshots.newest or NO_SNAPSHOT).epoch

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def last_epoch(self) -> int:
        latest = self._log.epochs.latest
        return self.start_epoch if latest is None else latest

    def end_offset_for(self, epoch: int) -> EpochEnd:
        """The greatest epoch in the log up to `epoch`, and its end offset; see `RaftLog.end_offset_for`."""
        found, end = EpochEnd(self.start_epoch, self.start_offset), self.end_offset
        for known, start in reversed(self._log.epochs.entries):
            if known <= epoch:
                return EpochEnd(known, end)
            end = start
        return found

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Read whole batches from `offset` on; see `RaftLog.read`."""
        part = self._log.read(offset, max_bytes=max_bytes)
        if part is None:
            return b""
        data = part.read()
        return data[: sum(len(batch.data) for batch in batches(data))]

    def append_as_leader(self, data: bytes, epoch: int) -> int:
        """Assign offsets and `epoch` to batches, append them, and return the new end offset; see `RaftLog`."""
        writable = bytearray(data)
        found = list(batches(writable))
        self._log.append(writable, found, leader_epoch=epoch)
        if any(batch.is_control for batch in found):
            for batch in batches(writable):  # with their offsets
                self._note_voters(batch)
        return self._log.end_offset

    def append_as_follower(self, data: bytes) -> int:
        """Append the leader's batches unchanged and return the new end offset; see `RaftLog.append_as_follower`.
        Nothing is appended if any batch is invalid."""
        found: list[Batch] = []
        memberships: list[tuple[int, MembershipRecord]] = []
        size, end = 0, self._log.end_offset
        try:
            for batch in batches(data):
                batch.check_crc()
                if batch.base_offset != end:
                    raise ValueError(f"batch of the metadata log with base offset {batch.base_offset}, expected {end}")
                found.append(batch)
                memberships += membership_in(batch)
                size, end = size + len(batch.data), batch.next_offset
        except (CorruptRecords, UnreadableMembership) as error:
            raise ValueError(f"damaged batch of the metadata log: {error}") from error
        if size != len(data):
            raise ValueError(f"{len(data) - size} bytes after the last batch of the metadata log")
        if found:
            self._log.append(memoryview(data), found, assign_offsets=False)
            self.history.append(memberships)
        return self._log.end_offset

    def truncate_to(self, offset: int) -> None:
        """Remove all records from `offset` on."""
        self._synced.lower(offset)
        self._log.truncate_to(offset)
        self.history.truncate_to(offset)

    def latest_snapshot(self) -> SnapshotId | None:
        """The id of the newest snapshot; None if there is no snapshot."""
        return self._snapshots.newest

    def read_snapshot(self, snapshot: SnapshotId, position: int, size_max: int) -> tuple[int, bytes] | None:
        """The whole size of a snapshot and a part of its bytes; None if it was deleted. See `RaftLog.read_snapshot`."""
        return self._snapshots.read(snapshot, position, size_max)

    def start_at(self, snapshot: SnapshotId, data: bytes) -> None:
        """Install a snapshot that replaces the whole log; see `RaftLog.start_at`. Raises UnreadableRecord for an
        invalid snapshot, before anything has changed.

        Blocking, unless the snapshot was prepared.
        """
        membership = snapshot_membership(data, snapshot.offset)
        self._write(snapshot, data)
        self._snapshots.installed(snapshot)
        self._synced.lower(snapshot.offset)
        self._log.truncate_fully_and_start_at(snapshot.offset)
        self.history.start_at(membership)
        at_once(self._log.removing_deleted())
        self._size_at_snapshot = self._log.size_bytes
        self._snapshots.remove_old()

    def _write(self, snapshot: SnapshotId, data: bytes) -> None:
        """Write a snapshot, once. Worker threads may call this twice for the same snapshot, since a response that waits
        for the disk is requested again."""
        with self._one_writer:
            if self._prepared != snapshot:
                snapshot_membership(data, snapshot.offset)  # Check that it can be read: else the next start would fail.
                self._snapshots.install(snapshot, data)
                self._prepared = snapshot

    def first_records(self) -> list[Record]:
        """The records of the first decision in the log, which may not be committed; none if there is no decision.

        Raises:
            UnreadableRecord: a record was not written by this version of minikafka or an earlier one.
        """
        found = (batch for batch in batches(self.read(self.start_offset, READ_SIZE)) if not batch.is_control)
        first = next(found, None)
        return [] if first is None else at_once(decoded_records(first))

    # -- for the driver and the applier --------------------------------------------------------------------------

    async def prepare(self, snapshot: SnapshotId, data: bytes) -> None:
        """Write a snapshot that `start_at` is to install, in a worker thread. If `start_at` is not called, the next
        start of the node may install the snapshot, since all its content is committed.

        A snapshot that has been written already is not written again. On a slow disk the leader is asked for it again
        during the write, and the last response must not wait for the disk once more.

        Raises:
            UnreadableRecord: the snapshot is damaged; nothing has changed.
        """
        if self._prepared != snapshot:
            await self._disk.run(self._write, snapshot, data)

    async def sync(self) -> None:
        """Flush the current content to the device."""
        await self._log.flush_async()
        self._synced.note(self._log.recovery_point)

    def committed(self, start: int, end: int, max_bytes: int) -> Iterator[Batch]:
        """The batches from `start` on that end at or before `end`: as many as fit into `max_bytes`, at least one."""
        for batch in batches(self.read(start, max_bytes)):
            if batch.next_offset > end:
                return
            batch.check_crc()
            yield batch

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed. Otherwise an append that has failed may be tried again."""
        return self._log.failure is not None

    @property
    def bytes_since_snapshot(self) -> int:
        return self._log.size_bytes - self._size_at_snapshot

    def snapshot_data(self) -> bytes | None:
        """The content of the newest snapshot; None if there is none."""
        return self._snapshots.read_newest()

    async def write_snapshot(self, snapshot: SnapshotId, data: bytes) -> None:
        """Write a snapshot that replaces all records before its offset; no effect if there is a newer one."""
        if not await self._snapshots.write(snapshot, data):
            return
        self._log.roll()
        delete_before(self._log, snapshot.offset)
        self.history.forget_before(snapshot.offset)
        self._size_at_snapshot = self._log.size_bytes
        self._snapshots.remove_old()

    def election_state(self) -> ElectionState:
        """The election state that was persisted last. Without a file of it, or with one that is older than the log, as
        after a lone node of version 0.1, which wrote none: the last epoch of the log.

        Raises:
            UnreadableRecord: the file is damaged or written by a newer minikafka.
        """
        path = f"{self._log.directory}/{FILE_NAME}"
        if self._disk.exists(path):
            try:
                found = decode_election_state(self._disk.read_bytes(path))
            except UnreadableElectionState as error:
                raise UnreadableRecord(f"{path}: {error}. {what_to_do(self._log.directory)}") from error
            return found if found.epoch >= self.last_epoch else ElectionState(self.last_epoch)
        return ElectionState(self.last_epoch)

    async def persist(self, state: ElectionState, voters: Sequence[int]) -> None:
        """Write the election state durably."""
        data = encode_election_state(state, voters, kraft_version=self.history.latest.kraft_version)
        await self._disk.run(self._disk.write_atomically, f"{self._log.directory}/{FILE_NAME}", data)

    def close(self) -> None:
        """Close the files."""
        self._log.close(clean=True)
        self._synced.note(self._log.recovery_point)
        self._synced.close()
