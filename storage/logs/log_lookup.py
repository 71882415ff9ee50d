"""Looks up data across the segments of a log: batches by offset, aborted transactions, batches of producers."""

from minikafka.protocol.records.batch import CONTROL
from minikafka.storage.disks.disk import FileSlice
from minikafka.storage.logs.log_state import LogState
from minikafka.storage.logs.producer_state import BATCHES_KEPT, BatchMetadata, Histories
from minikafka.storage.segments.batch_scan import Header, headers
from minikafka.storage.segments.segment import Segment
from minikafka.storage.segments.segments import Segments
from minikafka.storage.segments.transaction_index import AbortedTransaction

_HISTORY_BATCHES = 2_000
"""The number of batches that `find_histories` examines; reading their headers takes 4 ms."""
_HISTORY_SIZE = 16 << 20
"""About the number of bytes that `find_histories` examines: each batch may have to be read from the disk."""
_BLOCK_SIZE = 32 << 10


def find_slice(state: LogState, offset: int, max_bytes: int, limit: int, min_one_batch: bool) -> FileSlice | None:
    """Finds the batches that `Log.read` returns, or None. Requires `offset` < `limit` <= the log end offset."""
    segments, end_offset = state.segments, state.end_offset
    segment = segments[-1]
    index = len(segments.bases) - 1
    if offset < segment.base_offset:
        index = max(0, segments.floor(offset))
        segment = segments[index]
    place = segment.find(offset)
    while place is None:  # Compaction removed the rest of this segment.
        _report_gap(state, index)
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


def _report_gap(state: LogState, index: int) -> None:
    """Reports records that lack at the end of the segment at `index`, unless the cleaner may have removed them."""
    segment = state.segments[index]
    if segment.next_base < 0 or state.config.compacts:
        return
    end = segment.base_offset
    for header in headers(segment.log, segment.offsets.last.position, segment.size_bytes):
        end = header.last_offset + 1
    if end < segment.next_base:
        state.owner.on_gap(segment.path, end, segment.next_base)


def find_upper_bound(segments: Segments, offset: int, size_bytes: int, end_offset: int) -> int:
    """Returns an upper bound of the offsets in a read, as `Log.upper_bound_offset` says."""
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


def find_histories(segments: Segments, end_offset: int) -> Histories:
    """Returns the last `BATCHES_KEPT` batches of each producer, by producer id and epoch, oldest first.

    Only about the last `_HISTORY_BATCHES` batches before `end_offset` are examined.
    """
    found: Histories = {}
    left, left_bytes = _HISTORY_BATCHES, _HISTORY_SIZE
    for index in range(max(0, segments.floor(end_offset)), -1, -1):
        segment = segments[index]
        place = segment.find(end_offset)
        end = segment.log.size_bytes if place is None else place.position
        while end > 0 and left > 0 and left_bytes > 0:
            start = _block_before(segment, end)
            block = list(headers(segment.log, start, end))[-left:]
            for one in reversed(block):
                if one.producer_id >= 0 and one.base_sequence >= 0 and not one.attributes & CONTROL:
                    batches = found.setdefault((one.producer_id, one.producer_epoch), [])
                    if len(batches) < BATCHES_KEPT:
                        batches.append(_metadata(one))
            left, left_bytes, end = left - len(block), left_bytes - (end - start), start
        if left <= 0 or left_bytes <= 0:
            break
    for batches in found.values():
        batches.reverse()
    return found


def _block_before(segment: Segment, end: int) -> int:
    """The position of an indexed batch about `_BLOCK_SIZE` bytes before `end`; 0 if there is no such batch."""
    size = _BLOCK_SIZE
    while size < end:
        entry = segment.offsets.first_at_position(end - size)
        if entry is not None and entry.position < end:
            return entry.position
        size *= 2
    return 0


def _metadata(header: Header) -> BatchMetadata:
    delta = header.last_offset_delta
    last_sequence = (header.base_sequence + delta) & 0x7FFFFFFF
    return BatchMetadata(last_sequence, header.last_offset, delta, header.max_timestamp)
