"""`StandaloneLog`, the metadata log of a standalone node: a record is committed once it is synced to the device.

A node of a cluster has a `StoredRaftLog` (`quorum/raft_log.py`) instead, with the same layout, and commits through the
quorum.

    <metadata.log.dir>/__cluster_metadata-0/
        00000000000000000000.log …            a `storage.Log`: batches of msgpack records, one batch per decision
        00000000000000000123-0000000002.checkpoint   a snapshot: all records below offset 123, leader epoch 2
"""

from collections.abc import Callable, Generator, Iterator, Sequence

from minikafka.controller.metadata.metadata_log import (
    NO_SNAPSHOT,
    claim_directory,
    delete_before,
    encoding_decisions,
    open_log,
    records_in,
)
from minikafka.controller.metadata.records import Record
from minikafka.controller.metadata.snapshot_encoding import decode_snapshot
from minikafka.controller.metadata.snapshot_files import SnapshotFiles
from minikafka.controller.metadata.synced_offset import SyncedOffset
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.controller.steps import at_once
from minikafka.protocol.records.batch import batches
from minikafka.storage.disks.disk import Disk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log

__all__ = ["StandaloneLog"]

READ_SIZE = 1 << 20


class StandaloneLog:
    """A metadata log without replication. Created by `open`. Methods raise KafkaError and OSError."""

    def __init__(self, disk: Disk, log: Log, snapshots: SnapshotFiles, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._snapshots = snapshots
        self._now_ms = now_ms
        self._size_at_snapshot = 0
        self._synced = SyncedOffset(disk, log.directory)
        self._synced.note(log.recovery_point)
        newest = snapshots.newest or NO_SNAPSHOT
        self.leader_epoch = 1 + max(log.epochs.latest or 0, newest.epoch)

    @classmethod
    def open(cls, disk: Disk, directory: str, config: LogConfig, *, now_ms: Callable[[], int]) -> "StandaloneLog":
        """Open the log in a data directory, or create it.

        Raises:
            UnreadableRecord: the log is damaged beyond a torn end.
            BlockingIOError: another process has the log open.
            CorruptLog, OSError: see `Log.open`.
        """
        path = claim_directory(disk, directory)
        snapshots = SnapshotFiles(disk, path)
        start = (snapshots.newest or NO_SNAPSHOT).offset
        log = open_log(disk, path, config, now_ms=now_ms, start_offset=start)
        log.flush()  # records that are read from now on must survive a power failure
        return cls(disk, log, snapshots, now_ms)

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def start_offset(self) -> int:
        """The first offset in the segments; earlier records are in a snapshot only."""
        return self._log.start_offset

    @property
    def bytes_since_snapshot(self) -> int:
        return self._log.size_bytes - self._size_at_snapshot

    def replay(self) -> Iterator[Sequence[Record]]:
        """All committed records, the snapshot's first. Call once, before the first append.

        Raises:
            UnreadableRecord: a record or the snapshot cannot be read.
        """
        snapshot = self._snapshots.read_newest()
        if snapshot is not None:
            yield decode_snapshot(snapshot)
        offset = self._log.start_offset
        while offset < self._log.end_offset:
            part = self._log.read(offset, max_bytes=READ_SIZE)
            assert part is not None, "the offset is below the end"
            for batch in batches(part.read()):
                if batch.next_offset > offset:
                    batch.check_crc()
                    yield records_in(batch)
                    offset = batch.next_offset

    def append(self, decisions: Sequence[Sequence[Record]]) -> int:
        """Append the records of each decision as one batch, at once; see `encoding` and `append_batches`."""
        return self.append_batches(at_once(self.encoding(decisions)))

    def encoding(self, decisions: Sequence[Sequence[Record]]) -> Generator[None, None, bytes]:
        """The batches to append, one for each decision with records, in steps."""
        return encoding_decisions(decisions, self._now_ms())

    def append_batches(self, encoded: bytes) -> int:
        """Append the batches that `encoding` has made; returns the new end offset.

        Raises:
            KafkaStorageError: nothing was appended. The append may be tried again unless the log `is_offline`.
        """
        if encoded:
            data = bytearray(encoded)
            self._log.append(data, list(batches(data)), leader_epoch=self.leader_epoch)
        return self._log.end_offset

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed."""
        return self._log.failure is not None

    async def commit(self, offset: int) -> None:
        """Wait until everything before `offset` is on the device.

        After any exception it is unknown whether the records are durable: the caller must stop.
        """
        if self._log.recovery_point < offset:
            await self._log.flush_async()
            self._synced.note(self._log.recovery_point)
        assert self._log.recovery_point >= offset, "the flush covers the offset"

    def commit_now(self) -> None:
        """Like `commit`, for the whole log, blocking: for use before the event loop has other work."""
        self._log.flush()
        self._synced.note(self._log.recovery_point)

    async def write_snapshot(self, data: bytes, offset: int) -> None:
        """Write a snapshot that replaces all records before `offset`, which must be committed.

        Deletes the segments and older snapshots that it replaces.
        """
        assert self._log.start_offset <= offset <= self._log.recovery_point, "a snapshot has committed records only"
        await self._snapshots.write(SnapshotId(offset, self.leader_epoch), data)
        self._log.roll()
        delete_before(self._log, offset)
        self._size_at_snapshot = self._log.size_bytes
        self._snapshots.remove_old()

    def close(self) -> None:
        """Close the files."""
        self._log.close(clean=True)
        self._synced.note(self._log.recovery_point)
        self._synced.close()
