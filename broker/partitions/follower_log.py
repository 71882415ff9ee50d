"""How a follower appends fetched batches to its log, and where it truncates when the leader reports a diverging epoch.

Whether it begins anew at the leader's first offset is decided in `replication/replica_fetcher.py`.

Records are not decoded: the header and the checksum of each batch are checked, and the bytes are appended as they are,
with offsets and epochs. A follower truncates its log only where the leader reports a diverging epoch (KIP-101, KIP-279,
KIP-595), never to its own high watermark, which lags behind what is committed.

Source: Kafka's `Partition.appendRecordsToFollowerOrFutureReplica`, `AbstractFetcherThread.getOffsetTruncationState`.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from minikafka.protocol.errors import again, without_frames
from minikafka.protocol.records.batch import LENGTH_MIN, Batch, batches
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.logs.log import Log

UNDEFINED = -1
BATCHES_AT_ONCE, BYTES_AT_ONCE = 250, 1 << 20
"""The most batches, and bytes, that are appended between two pauses; each takes 1 to 2 ms. A larger single batch is
appended as a whole."""
_LENGTH = Struct(">i")
_BEFORE_LENGTH, _LENGTH_END = 8, 12


class Part(NamedTuple):
    """A part of fetched bytes: its size, and the number of complete batches in it."""

    size_bytes: int
    batch_count: int


def first_batches(data: memoryview) -> Part:
    """Find the first complete batches of `data`, as many as are appended between two pauses."""
    position, size = 0, len(data)
    for count in range(BATCHES_AT_ONCE):
        if size - position < _LENGTH_END:
            return Part(position, count)
        (length,) = _LENGTH.unpack_from(data, position + _BEFORE_LENGTH)
        end = position + _LENGTH_END + int(length)
        if length < LENGTH_MIN or end > size or (count and end > BYTES_AT_ONCE):
            return Part(position, count)
        position = end
    return Part(position, BATCHES_AT_ONCE)


def parts(data: memoryview) -> Iterator[tuple[memoryview, int]]:
    """Divide fetched bytes into parts to append between two pauses; yields each part and the number of its batches.

    There is at least one part. The last part may end with an incomplete or malformed batch.
    """
    while True:
        found = first_batches(data)
        if not 0 < found.size_bytes < len(data):
            yield data, found.batch_count
            return
        yield data[: found.size_bytes], found.batch_count
        data = data[found.size_bytes :]


def append_fetched(log: Log, data: memoryview, *, leader_epoch: int, leader_start_offset: int = UNDEFINED) -> int:
    """Append fetched batches; an incomplete batch at the end is skipped and fetched again.

    Batches above `leader_epoch`, the epoch of the request, are skipped too: this node does not follow that leader yet
    (KAFKA-18723).

    Args:
        leader_start_offset: The leader's log start offset.

    Returns:
        The number of appended bytes.

    Raises:
        CorruptRecords: A checksum or an offset is wrong. The batches before it are appended.
        KafkaError: The log is offline.
    """
    appended_bytes = 0
    chunk: list[Batch] = []
    chunk_bytes, end_offset = 0, log.end_offset
    problem: CorruptRecords | None = None
    try:
        for batch in batches(data):
            if batch.leader_epoch > leader_epoch:
                break
            end_offset = _check(log, batch, end_offset, leader_start_offset)
            if chunk and chunk_bytes + batch.size_bytes > log.config.segment_bytes:
                _append(log, data, chunk, appended_bytes, chunk_bytes)
                appended_bytes += chunk_bytes
                chunk, chunk_bytes = [], 0
            chunk.append(batch)
            chunk_bytes += batch.size_bytes
    except CorruptRecords as error:
        problem = without_frames(error)
    if chunk:
        _append(log, data, chunk, appended_bytes, chunk_bytes)
        appended_bytes += chunk_bytes
    if problem is not None:
        raise again(problem)
    return appended_bytes


def _check(log: Log, batch: Batch, end_offset: int, leader_start_offset: int) -> int:
    """Check a batch; returns the log end offset after it."""
    batch.check_crc()
    if batch.last_offset_delta < 0:
        raise CorruptRecords(f"the batch at offset {batch.base_offset} has a negative last offset delta")
    if batch.base_offset < end_offset:
        if not _covers_start_of_log(log, batch, end_offset, leader_start_offset):
            raise CorruptRecords(f"a batch starts at offset {batch.base_offset}, expected {end_offset}")
        log.truncate_fully_and_start_at(batch.base_offset)
    return batch.next_offset


def _covers_start_of_log(log: Log, batch: Batch, end_offset: int, leader_start_offset: int) -> bool:
    """Whether the leader's log starts within this batch, and this log has nothing that the leader still has.

    After DeleteRecords the leader's log may start within a batch, which is the first batch that a new follower fetches
    (KAFKA-6975). A follower that was truncated to that offset, since the leader knows no older epoch, has records
    before the offset, which were deleted on the leader, or were never committed.
    """
    if not (log.end_offset == end_offset and batch.base_offset < end_offset < batch.next_offset):
        return False
    return log.start_offset == end_offset or leader_start_offset >= end_offset


def _append(log: Log, data: memoryview, chunk: list[Batch], position: int, size_bytes: int) -> None:
    log.append(data[position : position + size_bytes], chunk, assign_offsets=False)


def truncation_offset(log: Log, epoch: int, end_offset: int) -> int:
    """Return where to truncate, given the leader's diverging (epoch, end offset); at most the log end offset.

    If this log does not have the leader's epoch, the result is the end of the largest earlier epoch, and the next fetch
    checks again: logs with interleaved epochs converge step by step (KIP-279).
    """
    if end_offset == UNDEFINED:
        return log.end_offset
    if epoch == UNDEFINED:
        return min(end_offset, log.end_offset)
    own_epoch, own_end = log.epochs.end_offset_for(epoch, log.end_offset)
    if own_end == UNDEFINED:
        return min(end_offset, log.end_offset)
    if own_epoch != epoch:
        return min(own_end, log.end_offset)
    return min(own_end, end_offset, log.end_offset)
