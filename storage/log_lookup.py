"""Lookups across the segments of a log: by offset, by timestamp, aborted transactions, batches of a producer."""

from minikafka.storage.batch_scan import Header, headers
from minikafka.storage.disk import FileSlice
from minikafka.storage.producer_state import BATCHES_KEPT, BatchMetadata, Producer
from minikafka.storage.segments import Segments
from minikafka.storage.transaction_index import AbortedTransaction

_HISTORY_SIZE = 16 << 20
"""Bytes to search backwards for the batches of a producer."""


def find_slice(
    segments: Segments, offset: int, max_bytes: int, limit: int, end_offset: int, min_one_batch: bool
) -> FileSlice | None:
    """See `Log.read`; `offset` < `limit` <= `end_offset`."""
    segment = segments[-1]
    index = len(segments.bases) - 1
    if offset < segment.base_offset:
        index = max(0, segments.floor(offset))
        segment = segments[index]
    place = segment.find(offset)
    while place is None:  # Compaction removed the rest of this segment.
        index += 1
        if index >= len(segments) or segments.bases[index] >= limit:
            return None
        segment = segments[index]
        place = segment.find(offset)
    stop = segment.size_bytes
    if limit < end_offset and (segment.next_base < 0 or limit < segment.next_base):
        last = segment.find(limit)
        stop = stop if last is None else last.position
    size = max_bytes
    if place.size_bytes > max_bytes:
        if not min_one_batch:
            return None
        size = place.size_bytes
    size = min(size, stop - place.position)
    return FileSlice(segment.log, place.position, size) if size > 0 else None


def find_upper_bound(segments: Segments, offset: int, size_bytes: int, end_offset: int) -> int:
    """See `Log.upper_bound_offset`."""
    segment = segments[max(0, segments.floor(offset))]
    place = segment.find(offset)
    if place is not None:
        entry = segment.offsets.first_at_position(place.position + size_bytes)
        if entry is not None:
            return entry.offset
    return end_offset if segment.next_base < 0 else segment.next_base


def find_aborted(segments: Segments, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
    """Returns the aborted transactions that overlap a range, in the order of their markers."""
    found: list[AbortedTransaction] = []
    for index in range(max(0, segments.floor(from_offset)), len(segments)):
        if segments[index].transactions.collect(from_offset, to_offset, found):
            break
    return found


def find_batches(segments: Segments, producer: Producer) -> list[BatchMetadata]:
    """Returns the last batches of a producer's epoch up to its last known one, oldest first, within the last
    `_HISTORY_SIZE` bytes."""
    found: list[BatchMetadata] = []
    room = _HISTORY_SIZE
    for index in range(max(0, segments.floor(producer.last_offset)), -1, -1):
        segment = segments[index]
        place = segment.find(producer.last_offset)
        end = segment.log.size_bytes if place is None else place.position
        start = segment.offsets.first_at_position(end - room) if end > room else None
        position = 0 if start is None else start.position
        here = [_metadata(one) for one in headers(segment.log, position, end) if _is_of(one, producer)]
        found = here[-BATCHES_KEPT:] + found
        room -= end - position
        if len(found) >= BATCHES_KEPT or room <= 0 or start is not None:
            break
    return found[-BATCHES_KEPT:]


def _is_of(header: Header, producer: Producer) -> bool:
    return (
        header.producer_id == producer.producer_id
        and header.producer_epoch == producer.epoch
        and header.base_sequence >= 0
        and not header.attributes & 0x20
    )


def _metadata(header: Header) -> BatchMetadata:
    delta = header.last_offset_delta
    last_sequence = (header.base_sequence + delta) & 0x7FFFFFFF
    return BatchMetadata(last_sequence, header.last_offset, delta, header.max_timestamp)
