"""The metadata log on disk: its directory, opening its segments, and decisions as record batches.

Shared by the log of a standalone node (`standalone_log.py`) and that of a quorum (`quorum/raft_log.py`), which have the
same layout, so that a standalone node can become part of a cluster.
"""

from collections.abc import Callable, Generator, Iterable, Sequence

from minikafka.controller.metadata.records import Record, UnreadableRecord, decode_record, encode_record
from minikafka.controller.metadata.steps import RECORDS_IN_A_STEP
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.controller.steps import at_once
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, encode_batch
from minikafka.protocol.records.record import Record as LogRecord
from minikafka.storage.data_directory import make_durable_directory
from minikafka.storage.disk import Disk
from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig
from minikafka.storage.off_loop import in_line

__all__ = [
    "NO_SNAPSHOT",
    "claim_directory",
    "decoded_records",
    "delete_before",
    "encode_decision",
    "encoding_decisions",
    "open_log",
    "records_in",
]

METADATA = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""As in Kafka."""
NO_SNAPSHOT = SnapshotId(0, 0)
"""The id that stands for the absence of a snapshot."""


def claim_directory(disk: Disk, directory: str) -> str:
    """Create the metadata log's directory if it is missing, and lock it for this process; returns its path.

    Raises:
        BlockingIOError: another process has it open.
        OSError: it cannot be created.
    """
    path = f"{directory}/{METADATA}"
    make_durable_directory(disk, path)
    disk.sync_directory(directory)  # it may have been made just before a crash
    disk.lock(f"{path}/.lock")
    return path


def open_log(
    disk: Disk, path: str, config: LogConfig, *, now_ms: Callable[[], int], start_offset: int = 0
) -> Log:
    """Open the segments, truncate a torn end, and skip everything before `start_offset`.

    Raises:
        UnreadableRecord: synced data is damaged.
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


def delete_before(log: Log, offset: int) -> None:
    """Delete the segments that a snapshot at `offset` replaces."""
    log.advance_start_offset(offset)
    log.delete_old_segments(offset)
    in_line(log.removing_deleted())


def encode_decision(records: Sequence[Record], now_ms: int) -> bytes:
    """The batch of one decision. A batch survives a crash as a whole or not at all."""
    return at_once(encoding_decisions([records], now_ms))


def encoding_decisions(decisions: Iterable[Sequence[Record]], now_ms: int) -> Generator[None, None, bytes]:
    """The batches of decisions, in steps; of those without records none."""
    parts: list[bytes] = []
    count = 0
    for records in decisions:
        encoded: list[LogRecord] = []
        for index, record in enumerate(records):
            encoded.append(LogRecord(index, now_ms, None, encode_record(record)))
            count += 1
            if count % RECORDS_IN_A_STEP == 0:
                yield
        if encoded:
            parts.append(encode_batch(encoded))
    return b"".join(parts)


def records_in(batch: Batch) -> list[Record]:
    """The metadata records of a batch; none for Raft's control batches. Raises UnreadableRecord."""
    return at_once(decoded_records(batch))


def decoded_records(batch: Batch) -> Generator[None, None, list[Record]]:
    """As `records_in`, in steps."""
    if batch.is_control:
        return []
    records: list[Record] = []
    try:
        for record in batch.records():
            records.append(decode_record(record.value or b""))
            if len(records) % RECORDS_IN_A_STEP == 0:
                yield
        return records
    except UnreadableRecord as error:
        hint = " (metadata written by Apache Kafka is not supported)" if batch.base_offset <= 1 else ""
        raise UnreadableRecord(f"metadata log at offset {batch.base_offset}: {error}{hint}") from None
