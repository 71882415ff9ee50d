"""Searches a log for the first record at or after a timestamp: finds the batch by the indexes, then the record.

A batch may decompress to megabytes with hundreds of thousands of records, and headers may promise a timestamp that no
record has. So a search is a generator that pauses, and yields its long calls, which then run in a thread (`in_steps`).
The log may change between two steps; each next batch is looked up in the log as it is then.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from minikafka.protocol.errors import again, without_frames
from minikafka.protocol.records.batch import Batch
from minikafka.protocol.records.column_codec import decode_columns
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.segments.segment import Segment
from minikafka.storage.segments.segments import Segments
from minikafka.storage.steps import Pauses, Steps

__all__ = ["Found", "search_max_timestamp", "search_timestamp"]

Found = tuple[int, int, int] | None
"""Timestamp (ms), offset and leader epoch of a record."""
Reading = Callable[..., Any]
"""Calls a function that reads the log, if the log is open. Raises KafkaError."""

RECORDS_AT_ONCE, SIZE_BYTES_AT_ONCE = 100, 16 << 10
"""The limits up to which a batch is searched at once. A batch with more records or more bytes is searched in a thread;
many records are decoded with numpy, once numpy is imported."""
HEADERS_AT_ONCE = 4_000
"""The number of batch headers that are read between two pauses, which takes about 4 ms."""
RECORDS_BETWEEN_PAUSES, BATCH_COST = 2_000, 10
"""The number of records of batches searched at once that are decoded between two pauses. A batch counts as ten more."""


def search_timestamp(reading: Reading, segments: Segments, timestamp: int, from_offset: int) -> Steps[Found]:
    """Returns the first record at or after `timestamp` (ms), from `from_offset` on. Raises the errors of `reading`."""
    pauses = Pauses(RECORDS_BETWEEN_PAUSES)
    while (batch := reading(_first_batch, segments, timestamp, from_offset)) is not None:
        if isinstance(batch, int):
            from_offset = batch
            yield None
            continue
        if pauses.is_due(items=batch.record_count + BATCH_COST):
            yield None
        search = partial(_attempt, batch, timestamp, from_offset)
        is_long = batch.record_count > RECORDS_AT_ONCE or batch.size_bytes > SIZE_BYTES_AT_ONCE
        found = reading(_outcome, (yield search) if is_long else search())
        if found is not None:
            return found
        from_offset = batch.next_offset
    return None


def search_max_timestamp(reading: Reading, segments: Segments, start_offset: int) -> Steps[Found]:
    """Returns the first record with the latest timestamp, which is -1 if no record has a timestamp (KIP-734)."""
    timestamp, from_offset = reading(_latest, segments, start_offset)
    return (yield from search_timestamp(reading, segments, timestamp, from_offset))


def _latest(segments: Segments, start_offset: int) -> tuple[int, int]:
    """The latest timestamp of the log, and the base offset of a batch with it, in the first segment that has one."""
    latest: Segment = segments[max(0, segments.floor(start_offset))]
    for index in range(max(0, segments.floor(start_offset)) + 1, len(segments)):
        if segments[index].latest.timestamp > latest.latest.timestamp:
            latest = segments[index]
    timestamp, offset = latest.latest
    header = next(latest.scan(offset), None) if timestamp >= 0 else None
    return timestamp, start_offset if header is None else header.base_offset


def _first_batch(segments: Segments, timestamp: int, from_offset: int) -> Batch | int | None:
    """The first batch with offsets from `from_offset` on whose header shows a record at or after `timestamp`.

    Returns the offset at which to go on if there is none among the first `HEADERS_AT_ONCE` headers of a segment.
    """
    index = segments.first_since(timestamp, max(0, segments.floor(from_offset)))
    while index < len(segments):
        batch = segments[index].first_batch_since(timestamp, from_offset, HEADERS_AT_ONCE)
        if batch is not None:
            return batch
        index = segments.first_since(timestamp, index + 1)
    return None


def _attempt(batch: Batch, timestamp: int, from_offset: int) -> Found | CorruptRecords:
    """Searches one batch. Returns the record, None, or the exception, which the event loop reports as a damaged log."""
    try:
        columns = decode_columns([batch])
    except CorruptRecords as error:
        return without_frames(error)
    for found, offset in zip(columns.timestamps, columns.offsets, strict=True):
        if found >= timestamp and offset >= from_offset:
            return found, offset, batch.leader_epoch
    return None


def _outcome(found: Found | CorruptRecords) -> Found:
    if isinstance(found, CorruptRecords):
        raise again(found)
    return found
