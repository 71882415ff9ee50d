"""What a follower does with what its leader answers: append, take over the marks, cut off what is not the leader's.

Nothing is decoded: of each batch the header and the checksum are looked at, and the bytes go into the log as they
came, offsets and epochs included. A follower cuts its log only where the leader's answer says that the two part
(KIP-101, 279, 595), never to its own high watermark, which lags behind what is committed.

Source: Kafka's `Partition.appendRecordsToFollowerOrFutureReplica`, `AbstractFetcherThread.getOffsetTruncationState`.
"""

from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.log import Log

UNDEFINED = -1


def append_fetched(log: Log, data: memoryview, *, leader_epoch: int) -> tuple[int, bool]:
    """Append what was fetched at the log's end; a cut batch at the end is left for the next fetch.

    Batches of a leader epoch above `leader_epoch`, in which they were asked for, are left too: the follower has not
    become a follower of that leader yet (KAFKA-18723).

    Returns:
        How many bytes were appended, and whether `flush.messages` wants them on the device.

    Raises:
        CorruptRecords: A checksum or an offset is wrong. What came before it is appended.
        KafkaError: The log is offline.
    """
    appended_bytes, flush_due = 0, False
    chunk: list[Batch] = []
    chunk_bytes, end_offset = 0, log.end_offset
    problem: CorruptRecords | None = None
    try:
        for batch in batches(data):
            if batch.leader_epoch > leader_epoch:
                break
            end_offset = _check(log, batch, end_offset)
            if chunk and chunk_bytes + batch.size_bytes > log.config.segment_bytes:
                flush_due |= _append(log, data, chunk, appended_bytes, chunk_bytes)
                appended_bytes += chunk_bytes
                chunk, chunk_bytes = [], 0
            chunk.append(batch)
            chunk_bytes += batch.size_bytes
    except CorruptRecords as error:
        problem = error
    if chunk:
        flush_due |= _append(log, data, chunk, appended_bytes, chunk_bytes)
        appended_bytes += chunk_bytes
    if problem is not None:
        raise problem
    return appended_bytes, flush_due


def _check(log: Log, batch: Batch, end_offset: int) -> int:
    """What a leader would never send is refused; returns where the log will end."""
    batch.check_crc()
    if batch.last_offset_delta < 0:
        raise CorruptRecords(f"the batch at offset {batch.base_offset} ends before it begins")
    if batch.base_offset < end_offset:
        if not _covers_an_empty_logs_start(log, batch, end_offset):
            raise CorruptRecords(f"a batch begins at offset {batch.base_offset}, where {end_offset} was due")
        log.truncate_fully_and_start_at(batch.base_offset)
    return batch.next_offset


def _covers_an_empty_logs_start(log: Log, batch: Batch, end_offset: int) -> bool:
    """DeleteRecords may have put the leader's log start within a batch: the first one that a new follower gets."""
    empty = log.start_offset == log.end_offset == end_offset
    return empty and batch.base_offset < end_offset < batch.next_offset


def _append(log: Log, data: memoryview, chunk: list[Batch], position: int, size_bytes: int) -> bool:
    return log.append(data[position : position + size_bytes], chunk, assign_offsets=False).flush_due


def point_of_divergence(log: Log, epoch: int, end_offset: int) -> int:
    """Where to cut, given the leader's (epoch, end offset); never behind this log's end.

    Where this log does not know the leader's epoch, it is cut at the end of the largest one before, and the next fetch
    asks again: two logs with interleaved epochs find together step by step (KIP-279).
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
