"""Where records become facts, of a node alone: append, then commit, which is: on the device.

A node of several has a `raft_log.StoredLog` instead, which lies in the same place in the same form, and commits through
the quorum.

    <metadata.log.dir>/__cluster_metadata-0/
        00000000000000000000.log …            a `storage.Log`: batches of msgpack records, one batch a decision
        00000000000000000123-0000000002.checkpoint   an image: all records below offset 123, of leader epoch 2
"""

import posixpath
from collections.abc import Callable, Iterator, Sequence

from minikafka.controller.metadata.records import Record, UnreadableRecord, decode_record, encode_record
from minikafka.controller.metadata.snapshot_encoding import decode_snapshot
from minikafka.controller.metadata.snapshot_files import SnapshotFiles
from minikafka.controller.raft.log import SnapshotId
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, batches, encode_batch
from minikafka.protocol.records.record import Record as LogRecord
from minikafka.storage.disk import Disk
from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig

__all__ = [
    "LocalLog",
    "claim_directory",
    "encode_decision",
    "forget_before",
    "metadata_log_config",
    "open_log",
    "records_in",
]

METADATA = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""As in Kafka."""

READ_SIZE = 1 << 20
NOTHING = SnapshotId(0, 0)
"""What there is before the first snapshot."""


class LocalLog:
    """A quorum of one voter on its own disk. Made by `open`; methods raise KafkaError and OSError."""

    def __init__(self, log: Log, snapshots: SnapshotFiles, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._snapshots = snapshots
        self._now_ms = now_ms
        self._size_at_snapshot = 0
        newest = snapshots.newest or NOTHING
        self.leader_epoch = 1 + max(log.epochs.latest or 0, newest.epoch)

    @classmethod
    def open(cls, disk: Disk, directory: str, config: LogConfig, *, now_ms: Callable[[], int]) -> "LocalLog":
        """Open the log under a data directory, or make a new one there.

        Raises:
            UnreadableRecord: what is there is damaged beyond a torn end.
            BlockingIOError: another process has it open.
            CorruptLog, OSError: as `Log.open`.
        """
        path = claim_directory(disk, directory)
        snapshots = SnapshotFiles(disk, path)
        start = (snapshots.newest or NOTHING).offset
        log = open_log(disk, path, config, now_ms=now_ms, start_offset=start)
        log.flush()  # what is seen from now on must not vanish with the power
        return cls(log, snapshots, now_ms)

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def start_offset(self) -> int:
        """The first offset that is not only in a snapshot."""
        return self._log.start_offset

    @property
    def bytes_since_snapshot(self) -> int:
        return self._log.size_bytes - self._size_at_snapshot

    def replay(self) -> Iterator[Sequence[Record]]:
        """Everything committed so far, snapshot first; once, before the first append.

        Raises:
            UnreadableRecord: a record or the snapshot cannot be read.
        """
        snapshot = self._snapshots.read_newest()
        if snapshot is not None:
            yield decode_snapshot(snapshot)
        offset = self._log.start_offset
        while offset < self._log.end_offset:
            part = self._log.read(offset, max_bytes=READ_SIZE)
            assert part is not None, "there is something before the end"
            for batch in batches(part.read()):
                if batch.next_offset > offset:
                    batch.check_crc()
                    yield records_in(batch)
                    offset = batch.next_offset

    def append(self, decisions: Sequence[Sequence[Record]]) -> int:
        """Put the records of decisions into the log, each decision whole or not at all; returns the new end."""
        now = self._now_ms()
        data = bytearray().join(encode_decision(records, now) for records in decisions if records)
        if data:
            self._log.append(data, list(batches(data)), leader_epoch=self.leader_epoch)
        return self._log.end_offset

    async def commit(self, offset: int) -> None:
        """Wait until everything before `offset` can no longer be lost: one voter's device has it.

        Whatever this raises, it is not known whether the records will last: the caller must not go on.
        """
        if self._log.recovery_point < offset:
            await self._log.flush_async()
        assert self._log.recovery_point >= offset, "the device has it"

    def commit_now(self) -> None:
        """As `commit`, of everything, where there is nothing else to do meanwhile."""
        self._log.flush()

    async def write_snapshot(self, data: bytes, offset: int) -> None:
        """Keep `data` in place of all records before `offset`, which is committed.

        Segments that it makes superfluous go, and old snapshots.
        """
        assert self._log.start_offset <= offset <= self._log.recovery_point, "only what is committed"
        await self._snapshots.write(SnapshotId(offset, self.leader_epoch), data)
        self._log.roll()
        forget_before(self._log, offset)
        self._size_at_snapshot = self._log.size_bytes
        self._snapshots.remove_old()

    def close(self) -> None:
        """Close the files."""
        self._log.close(clean=True)


def claim_directory(disk: Disk, directory: str) -> str:
    """The metadata log's place in a data directory, made where it is missing and this process's own from now on.

    Raises:
        BlockingIOError: another process has it open.
        OSError: it cannot be made.
    """
    path = f"{directory}/{METADATA}"
    missing = [path]
    while (parent := posixpath.dirname(missing[-1])) and not disk.exists(parent):
        missing.append(parent)
    disk.make_directory(path)
    for made in missing:  # their names must outlive the power
        disk.sync_directory(posixpath.dirname(made) or ".")
    disk.lock(f"{path}/.lock")
    return path


def open_log(
    disk: Disk, path: str, config: LogConfig, *, now_ms: Callable[[], int], start_offset: int = 0
) -> Log:
    """The segments, without a torn end; what was before `start_offset` is passed over.

    Raises:
        UnreadableRecord: what was synced is damaged.
        CorruptLog, OSError: as `Log.open`.
    """
    log = Log.open(
        disk,
        path,
        METADATA,
        config,
        now_ms=now_ms,
        clean=False,
        recovery_point=start_offset,
        log_start_offset=start_offset,
        topic_id=METADATA_TOPIC_ID,
    )
    if log.report.damage:
        raise UnreadableRecord(f"the metadata log in {path} is damaged: {log.report.damage}")
    return log


def forget_before(log: Log, offset: int) -> None:
    """Let go of segments that a snapshot stands for."""
    log.advance_start_offset(offset)
    log.delete_old_segments(offset)
    log.remove_doomed()


def metadata_log_config(static: StaticSettings) -> LogConfig:
    """The settings of the metadata log. What snapshots stand for goes; nothing else does."""
    return LogConfig(
        segment_bytes=static.number("metadata.log.segment.bytes"),
        segment_ms=static.number("metadata.log.segment.ms"),
        retention_ms=-1,
        retention_bytes=-1,
        file_delete_delay_ms=0,
    )


def encode_decision(records: Sequence[Record], now_ms: int) -> bytes:
    """The batch of one decision, which lasts whole or not at all."""
    return encode_batch(
        [
            LogRecord(offset=index, timestamp=now_ms, key=None, value=encode_record(record), headers=())
            for index, record in enumerate(records)
        ]
    )


def records_in(batch: Batch) -> list[Record]:
    """What a batch says; nothing for one of Raft's own. Raises UnreadableRecord."""
    if batch.is_control:
        return []
    try:
        return [decode_record(record.value or b"") for record in batch.records()]
    except UnreadableRecord as error:
        hint = " (metadata of Apache Kafka cannot be taken over)" if batch.base_offset <= 1 else ""
        raise UnreadableRecord(f"metadata log at offset {batch.base_offset}: {error}{hint}") from None
