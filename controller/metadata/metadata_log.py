"""The metadata log on disk: locks its directory, opens its segments, and encodes decisions as record batches.

`quorum/raft_log.py` is the log that Raft uses.
"""

from collections.abc import Callable, Generator, Sequence

from minikafka.controller.metadata.records import Record, UnreadableRecord, decode_record, encode_record
from minikafka.controller.metadata.steps import RECORDS_IN_A_STEP, record_weight
from minikafka.controller.metadata.synced_offset import FILE_NAME, read_synced_offset
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.protocol.errors import UnknownServerError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, encode_batch, parse_header
from minikafka.protocol.records.large_batch import record_slices
from minikafka.protocol.records.record import CorruptRecords
from minikafka.protocol.records.record import Record as LogRecord
from minikafka.storage.directories.directory_identity import make_durable_directory
from minikafka.storage.disks.disk import Disk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import Checkpointed, LogContext
from minikafka.storage.logs.recovery import DAMAGED, is_valid
from minikafka.storage.segments.batch_scan import headers
from minikafka.storage.steps import Pauses, at_once

__all__ = [
    "NO_SNAPSHOT",
    "claim_directory",
    "decoded_records",
    "delete_before",
    "encode_decision",
    "encoding_decision",
    "open_log",
]

METADATA = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The topic id of the metadata topic, as in Kafka."""
KAFKA_FRAME_VERSION = b"\x01"
"""The first byte of each metadata record of Kafka (`MetadataRecordSerde`). One of minikafka is a map of msgpack."""
NO_SNAPSHOT = SnapshotId(0, 0)
"""The id that stands for the absence of a snapshot."""


def claim_directory(disk: Disk, directory: str) -> str:
    """Create the metadata log's directory if it is missing, and lock it for this process; returns its path.

    Raises:
        UnreadableRecord: Apache Kafka has written the log.
        BlockingIOError: another process has locked the directory.
        OSError: the directory cannot be created.
    """
    path = f"{directory}/{METADATA}"
    make_durable_directory(disk, path)
    disk.sync_directory(directory)  # it may have been made just before a crash
    disk.lock(f"{path}/.lock")
    _refuse_log_of_kafka(disk, path)
    return path


def open_log(
    disk: Disk,
    path: str,
    config: LogConfig,
    *,
    now_ms: Callable[[], int],
    covered_offset: int = 0,
) -> Log:
    """Open the segments, and truncate a torn end.

    Args:
        disk: the disk.
        path: the directory of the log.
        config: the settings of the log.
        now_ms: returns the time of the wall clock in milliseconds.
        covered_offset: the end offset of the newest snapshot; the log need not have the records before it.

    Raises:
        UnreadableRecord: synced data is damaged now, or was damaged at an earlier start and nobody has repaired it. A
            voter that went on without records that it has acknowledged could make the quorum lose them.
        CorruptLog, OSError: see `Log.open`.
    """
    synced_offset = read_synced_offset(disk, path)
    for name in sorted(disk.list(path)):
        if name.endswith(DAMAGED) and synced_offset is None:
            raise _damaged(path, f"{name} has what followed the damage, and the log ends before it", f"*{DAMAGED}")
        if name.endswith(".log"):
            _check_order(disk, path, name)
    log = Log.open(LogContext(disk, now_ms), path, METADATA, config, Checkpointed(), topic_id=METADATA_TOPIC_ID)
    if synced_offset is None and log.report.damage:
        raise _damaged(path, log.report.damage, f"*{DAMAGED}")
    if synced_offset is not None and max(log.end_offset, covered_offset) < synced_offset:
        ends = f"it ends at offset {log.end_offset}, and its records up to {synced_offset} were on the device"
        damage = f"; {log.report.damage}" if log.report.damage else ""
        raise _damaged(path, f"{ends}{damage}", f"{FILE_NAME} and *{DAMAGED}")
    return log


def _refuse_log_of_kafka(disk: Disk, path: str) -> None:
    """Look at the first record of metadata in the log.

    Raises:
        UnreadableRecord: Apache Kafka has written it.
    """
    for name in sorted(name for name in disk.list(path) if name.endswith(".log")):
        file = disk.open(f"{path}/{name}")
        try:
            for header in headers(file, 0, file.size_bytes):
                batch = parse_header(file.pread(header.position, header.size_bytes))
                if batch.is_control or not is_valid(batch):
                    continue
                value = next(iter(batch.records())).value or b""
                if value[:1] == KAFKA_FRAME_VERSION:
                    raise UnreadableRecord(
                        f"Apache Kafka has written the metadata log in {path}, which minikafka cannot read: set another"
                        " log.dirs (and metadata.log.dir), and copy the topics with a consumer and a producer"
                    )
                return
        except CorruptRecords:
            return  # `Log.open` finds the damage.
        finally:
            file.close()


def _check_order(disk: Disk, path: str, name: str) -> None:
    """Check that no offset is missing in a segment: the log is never compacted, and a batch's checksum does not cover
    its base offset.

    A batch of an earlier epoch than the batch before it is no damage: a power failure may leave it of a truncated log.

    Raises:
        UnreadableRecord: a valid batch does not begin at the offset at which the batch before it ends.
    """
    file = disk.open(f"{path}/{name}")
    try:
        end_offset, epoch = int(name.removesuffix(".log")), -1
        for header in headers(file, 0, file.size_bytes):
            if header.base_offset != end_offset and header.leader_epoch >= epoch:
                if is_valid(parse_header(file.pread(header.position, header.size_bytes))):
                    reason = f"has offset {header.base_offset} at byte {header.position}, expected {end_offset}"
                    raise _damaged(path, f"{name} {reason}", "")
                return
            end_offset, epoch = header.last_offset + 1, header.leader_epoch
    finally:
        file.close()


def _damaged(path: str, damage: str, to_delete: str) -> UnreadableRecord:
    """The error for a damaged log, with what to do. `to_delete` names the files to delete to go on without the rest."""
    go_on = f", or delete {to_delete} in it to go on without the records that are missing" if to_delete else ""
    return UnreadableRecord(
        f"the metadata log in {path} is damaged: {damage}. If the other voters run, move {path} away, and "
        f"remove meta.properties of each data directory: this node then fetches the log from them. If not, restore a "
        f"backup{go_on}"
    )


def delete_before(log: Log, offset: int) -> None:
    """Delete the segments that a snapshot at `offset` replaces."""
    log.advance_start_offset(offset)
    log.delete_old_segments(offset)
    at_once(log.removing_deleted())


def encode_decision(records: Sequence[Record], now_ms: int) -> bytes:
    """Encode one decision as a batch, which survives a crash as a whole or not at all."""
    return at_once(encoding_decision(records, now_ms, None))


def encoding_decision(
    records: Sequence[Record], now_ms: int, size_bytes_max: int | None
) -> Generator[None, None, bytes]:
    """Encode one decision as a batch, in steps; b"" if it has no records.

    Args:
        now_ms: the time of the records.
        size_bytes_max: the most bytes of the records together; None for no limit.

    Raises:
        UnknownServerError: there are more bytes, as Kafka's controller answers then.
    """
    encoded: list[LogRecord] = []
    size_bytes, pauses = 0, Pauses(RECORDS_IN_A_STEP)
    for index, record in enumerate(records):
        value = encode_record(record)
        size_bytes += len(value)
        if size_bytes_max is not None and size_bytes > size_bytes_max:
            raise UnknownServerError(f"the records of this request have more than {size_bytes_max} bytes together")
        encoded.append(LogRecord(index, now_ms, None, value))
        if pauses.is_due(items=record_weight(len(value))):
            yield
    return encode_batch(encoded) if encoded else b""


def decoded_records(batch: Batch) -> Generator[None, None, list[Record]]:
    """Decode the metadata records of a batch in steps; none of Raft's control batches. Raises UnreadableRecord."""
    if batch.is_control:
        return []
    records: list[Record] = []
    pauses = Pauses(RECORDS_IN_A_STEP)
    try:
        for part in record_slices(batch, RECORDS_IN_A_STEP):
            for record in part:
                value = record.value or b""
                records.append(decode_record(value))
                if pauses.is_due(items=record_weight(len(value))):
                    yield
        return records
    except UnreadableRecord as error:
        raise UnreadableRecord(f"metadata log at offset {batch.base_offset}: {error}") from None
