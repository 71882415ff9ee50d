"""Where records become facts, of a node alone: append, then commit, which is: on the device.

`MetadataLog` is all that its controller asks for. A node of several has a `raft_log.StoredLog` instead, which lies in
the same place in the same form, and commits through the quorum.

    <metadata.log.dir>/__cluster_metadata-0/
        00000000000000000000.log …            a `storage.Log`: batches of msgpack records, one batch a decision
        00000000000000000123-0000000002.checkpoint   an image: all records below offset 123, of leader epoch 2
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from minikafka.controller.records import Record, UnreadableRecord, decode_record, encode_record
from minikafka.controller.snapshots import decode_snapshot
from minikafka.controller.static import StaticSettings
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, batches, encode_batch
from minikafka.protocol.records.record import Record as LogRecord
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk
from minikafka.storage.log import Log

__all__ = [
    "METADATA",
    "METADATA_TOPIC_ID",
    "SNAPSHOT",
    "LocalLog",
    "MetadataLog",
    "encode_decision",
    "make_durably",
    "metadata_log_config",
    "records_in",
    "snapshot_epoch",
    "snapshot_offset",
]

METADATA = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""As in Kafka."""

READ_SIZE = 1 << 20
SNAPSHOTS_KEPT = 2


class MetadataLog(Protocol):
    """The order of all decisions. Offsets count records.

    Attributes:
        leader_epoch: of this term; batches bear it.
        end_offset: the next record's offset.
    """

    leader_epoch: int

    @property
    def end_offset(self) -> int: ...

    def replay(self) -> Iterator[Sequence[Record]]:
        """Everything committed so far, snapshot first; once, before the first append."""
        ...

    def append(self, decisions: Sequence[Sequence[Record]]) -> int:
        """Put the records of decisions into the log, each decision whole or not at all; returns the new end."""
        ...

    async def commit(self, offset: int) -> None:
        """Wait until everything before `offset` can no longer be lost.

        Whatever this raises, it is not known whether the records will last: the caller must not go on.
        """
        ...

    @property
    def bytes_since_snapshot(self) -> int: ...

    async def write_snapshot(self, data: bytes, offset: int) -> None:
        """Keep `data` in place of all records before `offset`, which is committed."""
        ...

    def close(self) -> None: ...


class LocalLog:
    """A quorum of one voter on its own disk. Made by `open`; methods raise KafkaError and OSError."""

    def __init__(self, disk: Disk, log: Log, snapshots: list[str], now_ms: Callable[[], int]) -> None:
        self._disk = disk
        self._log = log
        self._snapshots = snapshots
        self._now_ms = now_ms
        self._size_at_snapshot = 0
        self.leader_epoch = 1 + max(log.epochs.latest or 0, snapshot_epoch(snapshots[-1]) if snapshots else 0)

    @classmethod
    def open(cls, disk: Disk, directory: str, config: LogConfig, *, now_ms: Callable[[], int]) -> "LocalLog":
        """Open the log under a data directory, or make a new one there.

        Raises:
            UnreadableRecord: what is there is damaged beyond a torn end.
            BlockingIOError: another process has it open.
            CorruptLog, OSError: as `Log.open`.
        """
        path = f"{directory}/{METADATA}"
        make_durably(disk, path)
        disk.lock(f"{path}/.lock")
        snapshots = sorted(name for name in disk.list(path) if SNAPSHOT.fullmatch(name))
        start = snapshot_offset(snapshots[-1]) if snapshots else 0
        log = Log.open(
            disk,
            path,
            METADATA,
            config,
            now_ms=now_ms,
            clean=False,
            recovery_point=start,
            log_start_offset=start,
            topic_id=METADATA_TOPIC_ID,
        )
        if log.report.damage:
            raise UnreadableRecord(f"the metadata log in {path} is damaged: {log.report.damage}")
        log.flush()  # what is seen from now on must not vanish with the power
        return cls(disk, log, snapshots, now_ms)

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
        """See `MetadataLog`.

        Raises:
            UnreadableRecord: a record or the snapshot cannot be read.
        """
        if self._snapshots:
            yield decode_snapshot(self._disk.read_bytes(f"{self._log.directory}/{self._snapshots[-1]}"))
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
        """See `MetadataLog`. One write for all."""
        now = self._now_ms()
        data = bytearray().join(encode_decision(records, now) for records in decisions if records)
        if data:
            self._log.append(data, list(batches(data)), leader_epoch=self.leader_epoch)
        return self._log.end_offset

    async def commit(self, offset: int) -> None:
        """See `MetadataLog`. One voter: committed is what its device has."""
        if self._log.recovery_point < offset:
            await self._log.flush_async()
        assert self._log.recovery_point >= offset, "the device has it"

    def commit_now(self) -> None:
        """As `commit`, of everything, where there is nothing else to do meanwhile."""
        self._log.flush()

    async def write_snapshot(self, data: bytes, offset: int) -> None:
        """See `MetadataLog`. Segments that it makes superfluous go, and all but the last two snapshots."""
        assert self._log.start_offset <= offset <= self._log.recovery_point, "only what is committed"
        name = f"{offset:020d}-{self.leader_epoch:010d}.checkpoint"
        await self._disk.run(self._disk.write_atomically, f"{self._log.directory}/{name}", data)
        self._snapshots.append(name)
        self._log.roll()
        self._log.advance_start_offset(offset)
        self._log.delete_old_segments(offset)
        self._log.remove_doomed()
        self._size_at_snapshot = self._log.size_bytes
        for old in self._snapshots[:-SNAPSHOTS_KEPT]:
            self._disk.remove(f"{self._log.directory}/{old}")
        del self._snapshots[:-SNAPSHOTS_KEPT]

    def close(self) -> None:
        """Close the files."""
        self._log.close(clean=True)


def make_durably(disk: Disk, path: str) -> None:
    """Make a directory and its parents so that their names outlive the power."""
    missing = [path]
    while (parent := posixpath.dirname(missing[-1])) and not disk.exists(parent):
        missing.append(parent)
    disk.make_directory(path)
    for made in missing:
        disk.sync_directory(posixpath.dirname(made) or ".")


def metadata_log_config(static: StaticSettings) -> LogConfig:
    """The settings of the metadata log. What snapshots stand for goes; nothing else does."""
    return LogConfig(
        segment_bytes=static.number("metadata.log.segment.bytes"),
        segment_ms=static.number("metadata.log.segment.ms"),
        retention_ms=-1,
        retention_bytes=-1,
        file_delete_delay_ms=0,
    )


SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint")
"""A snapshot's name: offset and epoch."""


def snapshot_offset(snapshot: str) -> int:
    """The offset in a snapshot's name."""
    return int(snapshot[:20])


def snapshot_epoch(snapshot: str) -> int:
    """The epoch in a snapshot's name."""
    return int(snapshot[21:31])


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
