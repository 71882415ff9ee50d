"""`Cleaning`: one cleaning of one log, in steps: reads the keys of the dirty part, then writes new segments.

The steps change none of the log's own files: they read segments that no longer change, and write `.cleaned` files. So
the steps can run in another thread or process. `segment_replacement.py` replaces the old segments by the new ones.

Source: Kafka's `Cleaner`.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.column_codec import load_numpy_codec
from minikafka.storage.compaction.batch_filter import BatchFilter, FilterRules
from minikafka.storage.compaction.cleaned_segment import CleanedSegment
from minikafka.storage.compaction.cleaned_transactions import CleanedTransactions
from minikafka.storage.compaction.keyed_records import read_digests
from minikafka.storage.compaction.offset_map import DIGEST_SIZE_BYTES, OffsetMap, PlainOffsetMap
from minikafka.storage.disks.disk import Disk, File
from minikafka.storage.disks.worker import Worker
from minikafka.storage.log_config import LogConfig
from minikafka.storage.segments.segment import OFFSET_DELTA_MAX
from minikafka.storage.segments.segment_names import CorruptSegment, offset_name
from minikafka.storage.segments.transaction_index import AbortedTransaction

_CHUNK_SIZE_MIN = 64 << 10


@dataclass(frozen=True, slots=True)
class OldSegment:
    """A segment to clean.

    Attributes:
        next_base: the base offset of the next segment.
        indexes_bytes: the sizes of the offset index and of the time index.
        aborted: the aborted transactions that overlap the segment.
    """

    base_offset: int
    next_base: int
    size_bytes: int
    indexes_bytes: tuple[int, int]
    aborted: Sequence[AbortedTransaction]


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The input of one cleaning: the segments to clean, the rules and the limits.

    Attributes:
        directory: the path of the log's directory.
        segments: all segments before `rules.upper_bound`, in order.
        first_dirty_offset: the offset up to which earlier cleanings have cleaned the log.
        map_size_bytes, load_factor: the limits of the offset map, as of `PlainOffsetMap`.
        chunk_size_bytes: the number of bytes to read at a time while segments are written; twice as many while keys
            are read. A larger batch is read alone.
    """

    directory: str
    segments: Sequence[OldSegment]
    first_dirty_offset: int
    config: LogConfig
    rules: FilterRules
    map_size_bytes: int
    load_factor: float
    chunk_size_bytes: int


class Step(NamedTuple):
    """The progress of a cleaning.

    Attributes:
        io_bytes: the number of bytes read and written in this step.
        finished: the base offsets of the segments that a finished new segment may replace now; empty if no new segment
            is finished.
        written_bytes: the size of the finished segment.
        end_offset: in the last step, the offset up to which the log is clean; -1 in the others.
    """

    io_bytes: int
    finished: tuple[int, ...] = ()
    written_bytes: int = 0
    end_offset: int = -1


class Cleaning:
    """One cleaning of one log. `advance` raises OSError, CorruptRecords and CorruptSegment."""

    def __init__(self, disk: Disk, plan: CleaningPlan) -> None:
        self._disk = disk
        self._plan = plan
        self._offsets = _offset_map(plan.map_size_bytes, plan.load_factor)
        self._writing: CleanedSegment | None = None
        self._steps = self._run()

    def advance(self, io_bytes_max: int) -> Step:
        """Reads and writes about `io_bytes_max` bytes, but at most up to the end of a new segment."""
        io_bytes = 0
        for step in self._steps:
            io_bytes += step.io_bytes
            if step.finished or step.end_offset >= 0 or io_bytes >= io_bytes_max:
                return step._replace(io_bytes=io_bytes)
        raise RuntimeError("the cleaning has ended")

    def abandon(self) -> None:
        """Removes the files of an unfinished new segment. Raises OSError."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.abandon()

    def _run(self) -> Iterator[Step]:
        yield from self._read_keys()
        self._offsets.finish()
        end_offset = self._offsets.latest_offset + 1
        transactions = CleanedTransactions()
        keep = BatchFilter(self._plan.rules, self._offsets, self._plan.first_dirty_offset, transactions)
        segments = [one for one in self._plan.segments if one.base_offset < end_offset]
        for group in groups_of(segments, self._plan.config, self._plan.rules.upper_bound):
            yield from self._clean(group, keep, transactions)
        yield Step(0, end_offset=end_offset)

    def _read_keys(self) -> Iterator[Step]:
        transactions = CleanedTransactions()
        for segment in self._plan.segments:
            if segment.next_base <= self._plan.first_dirty_offset:
                continue
            transactions.expect(segment.aborted)
            for chunk, size_bytes in self._chunks(segment, 2 * self._plan.chunk_size_bytes):
                if not self._add_keys(chunk, transactions):
                    return
                yield Step(size_bytes)
            self._offsets.latest_offset = max(self._offsets.latest_offset, segment.next_base - 1)

    def _add_keys(self, chunk: Sequence[Batch], transactions: CleanedTransactions) -> bool:
        """Adds the keys of a chunk to the offset map; returns False if the map has no more room."""
        offsets, first_dirty = self._offsets, self._plan.first_dirty_offset
        discarded = [transactions.may_discard(batch) for batch in chunk]
        data = [
            batch
            for batch, discard in zip(chunk, discarded, strict=True)
            if batch.record_count and batch.last_offset >= first_dirty and not (batch.is_control or discard)
        ]
        if data:
            digests, numbers = read_digests(data)
            clean = bisect_left(numbers, first_dirty)
            digests, numbers = digests[clean * DIGEST_SIZE_BYTES :], numbers[clean:]
            added = offsets.put(digests, numbers)
            if added < len(numbers):
                offsets.latest_offset = max(offsets.latest_offset, int(numbers[added]) - 1)
                return False
        offsets.latest_offset = max(offsets.latest_offset, chunk[-1].last_offset)
        return True

    def _clean(
        self, group: Sequence[OldSegment], keep: BatchFilter, transactions: CleanedTransactions
    ) -> Iterator[Step]:
        plan = self._plan
        cleaned = CleanedSegment(self._disk, plan.directory, group[0].base_offset, plan.config)
        self._writing = cleaned
        transactions.retained = cleaned.add_aborted
        for segment in group:
            transactions.expect(segment.aborted)
            for chunk, size_bytes in self._chunks(segment, self._plan.chunk_size_bytes):
                before = cleaned.size_bytes
                cleaned.append(keep.filter(chunk))
                yield Step(size_bytes + cleaned.size_bytes - before)
        cleaned.finish()
        self._writing = None
        yield Step(0, finished=tuple(segment.base_offset for segment in group), written_bytes=cleaned.size_bytes)

    def _chunks(self, segment: OldSegment, chunk_size_bytes: int) -> Iterator[tuple[list[Batch], int]]:
        """Yields the batches of a segment in chunks, each with its size in bytes, after checking their checksums."""
        path = f"{self._plan.directory}/{offset_name(segment.base_offset)}.log"
        file = self._disk.open(path)
        try:
            position = 0
            while position < segment.size_bytes:
                found = _read_chunk(file, position, segment.size_bytes, chunk_size_bytes)
                for batch in found:
                    batch.check_crc()
                size_bytes = sum([len(batch.data) for batch in found])
                position += size_bytes
                yield found, size_bytes
        finally:
            file.close()


def _offset_map(size_bytes: int, load_factor: float) -> OffsetMap:
    if load_numpy_codec() is None:
        return PlainOffsetMap(size_bytes, load_factor)
    from minikafka.storage.compaction.numpy_offset_map import NumpyOffsetMap

    return NumpyOffsetMap(size_bytes, load_factor)


def _read_chunk(file: File, position: int, end: int, size_bytes: int) -> list[Batch]:
    size_bytes = max(size_bytes, _CHUNK_SIZE_MIN)
    data = file.pread(position, min(size_bytes, end - position))
    found = list(batches(data))
    if not found and len(data) >= 12:
        length = int.from_bytes(data[8:12], "big", signed=True) + 12
        if size_bytes < length <= end - position:
            found = list(batches(file.pread(position, length)))
    if not found:
        raise CorruptSegment(f"{file.path} has no valid batch at byte {position}")
    return found


def groups_of(segments: Sequence[OldSegment], config: LogConfig, upper_bound: int) -> list[list[OldSegment]]:
    """Divides segments into groups that are to become one segment each.

    A group is limited by `segment.bytes`, by `segment.index.bytes`, and by the offsets that an index can hold.
    """
    groups: list[list[OldSegment]] = []
    size_bytes, indexes = 0, (0, 0)
    ends = [*(after.base_offset for _, after in pairwise(segments)), upper_bound]
    for segment, end in zip(segments, ends, strict=True):
        larger = (indexes[0] + segment.indexes_bytes[0], indexes[1] + segment.indexes_bytes[1])
        fits = size_bytes + segment.size_bytes <= config.segment_bytes and max(larger) <= config.segment_index_bytes
        near = not segment.size_bytes or (groups and end - 1 - groups[-1][0].base_offset <= OFFSET_DELTA_MAX)
        if groups and fits and near:
            groups[-1].append(segment)
            size_bytes, indexes = size_bytes + segment.size_bytes, larger
        else:
            groups.append([segment])
            size_bytes, indexes = segment.size_bytes, segment.indexes_bytes
    return groups


# -- in a worker -------------------------------------------------------------------------------------------------


def begin_cleaning(worker: Worker, directory: str, plan: CleaningPlan) -> None:
    """Begins the cleaning of the log in a directory, in a worker, which has one cleaning at a time."""
    worker.kept[directory] = Cleaning(worker.disk, plan)


def advance_cleaning(worker: Worker, directory: str, io_bytes_max: int) -> Step:
    """Continues the cleaning of the log in a directory, as `Cleaning.advance`."""
    return _cleaning(worker, directory).advance(io_bytes_max)


def end_cleaning(worker: Worker, directory: str) -> None:
    """Ends the cleaning of the log in a directory, finished or not, if the worker has it. Raises OSError."""
    if directory in worker.kept:
        found = _cleaning(worker, directory)
        del worker.kept[directory]
        found.abandon()


def _cleaning(worker: Worker, directory: str) -> Cleaning:
    found = worker.kept[directory]
    assert isinstance(found, Cleaning)
    return found
