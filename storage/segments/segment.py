"""`Segment`: one segment of a log: a file of batches, the offset index, the time index and the transaction index.

A segment is named after its base offset (20 digits) and contains the offsets up to the next segment. A `Segment` opens
its files on first use; only the active (last) segment is written to. An index that is missing or contradicts the log
file is rebuilt from the log file. Each index entry is verified against the batch header that it points to, so that lost
or wrong indexes do no harm.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from struct import Struct

from minikafka.protocol.records.batch import Batch, parse_header
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.disks.disk import Buffer, Disk, File
from minikafka.storage.log_config import LogConfig
from minikafka.storage.segments.batch_scan import Header, headers
from minikafka.storage.segments.deleted_files import remove_left, rename_deleted
from minikafka.storage.segments.index import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset, last_entry
from minikafka.storage.segments.segment_names import SUFFIXES, BatchPosition, CorruptIndex, CorruptSegment, offset_name
from minikafka.storage.segments.transaction_index import TransactionIndex

OFFSET_DELTA_MAX = (1 << 31) - 1
"""The largest offset relative to the base offset: index entries hold 31 bits."""
_RECENT_MAX = 64
_PROBE_SIZE = 8192
_PROBE = Struct(">qiibIhi")


class Segment:
    """One segment. All methods may raise OSError.

    Attributes:
        next_base: the base offset of the next segment, -1 for the last.
        size_bytes: the size of the batches; valid once `log` is open, as for the active segment.
        latest_timestamp, latest_offset: the largest timestamp (ms) and the last offset of its batch, for a segment that
            was written or recovered; `latest` is valid for all segments.
        first_timestamp: the largest timestamp (ms) of the first batch, for `segment.ms`; None if not read yet.
        bytes_since_entry: the size of the batches since the last index entry.
        is_full: whether an index has reached `segment.index.bytes`.
    """

    __slots__ = (
        "_disk", "_indexes", "_is_damaged", "_latest_known", "_log", "_recent", "base_offset",
        "bytes_since_entry", "config", "created_ms", "first_timestamp", "is_deleted", "is_full", "jitter_ms",
        "latest_offset", "latest_timestamp", "next_base", "prefix", "size_bytes", "transactions",
    )  # fmt: skip

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: LogConfig, *, next_base: int = -1) -> None:
        self._disk = disk
        self._log: File | None = None
        self._indexes: tuple[OffsetIndex, TimeIndex] | None = None
        self._latest_known = self._is_damaged = self.is_deleted = False
        self._recent: dict[int, BatchPosition] = {}
        self.prefix = f"{directory}/{offset_name(base_offset)}"
        self.base_offset = base_offset
        self.next_base = next_base
        self.config = config
        self.created_ms = 0
        self.jitter_ms = 0
        self.latest_timestamp = -1
        self.latest_offset = base_offset
        self.first_timestamp: int | None = None
        self.bytes_since_entry = 0
        self.is_full = False
        self.size_bytes = 0
        self.transactions = TransactionIndex(disk, self.prefix + ".txnindex")

    @classmethod
    def create(
        cls, disk: Disk, directory: str, base_offset: int, config: LogConfig, *, now_ms: int, in_new: bool = False
    ) -> "Segment":
        """Creates the files of a new active segment; existing files of that name are emptied (skipped for `in_new`).

        Raises OSError, with none of the files left: an empty segment before others would look like damage.
        """
        segment = cls(disk, directory, base_offset, config)
        if not in_new and disk.exists(segment.transactions.path):
            disk.remove(segment.transactions.path)
        segment._log = disk.open(segment.prefix + ".log", create=True)
        try:
            if segment._log.size_bytes:
                segment._log.truncate(0)
            segment.clear_indexes()
            segment.activate(now_ms=now_ms)
        except OSError:
            segment.close()
            remove_left(disk, [segment.prefix + suffix for suffix in SUFFIXES])
            raise
        return segment

    def activate(self, *, now_ms: int) -> None:
        """Makes this the active segment: preallocates the indexes."""
        self.created_ms = now_ms
        self.next_base = -1
        for index in self.indexes:
            index.reserve()
        self._update_is_full()

    def _update_is_full(self) -> None:
        offsets, times = self.indexes
        self.is_full = offsets.room <= 0 or times.room <= 0

    @property
    def path(self) -> str:
        """The path of the log file."""
        return self.prefix + ".log"

    @property
    def log(self) -> File:
        """The log file. Raises CorruptSegment."""
        if self._log is None:
            log = self.open_unchecked()
            first = next(headers(log, 0, log.size_bytes), None)
            if first is not None and not (self.contains(first.base_offset) and self.contains(first.last_offset)):
                log.close()
                self._log = None
                raise CorruptSegment(f"{log.path} starts with offset {first.base_offset}")
        return self._log or self.open_unchecked()

    def open_unchecked(self) -> File:
        """Opens the log file without checking its first batch; for recovery, which checks all batches."""
        if self._log is None:
            self._log = self._disk.open(self.prefix + ".log")
            self.size_bytes = self._log.size_bytes
        return self._log

    def contains(self, offset: int) -> bool:
        """Whether an offset belongs to this segment."""
        return self.base_offset <= offset and (self.next_base < 0 or offset < self.next_base)

    @property
    def size(self) -> int:
        """The size of the batches in bytes, which is read from the file system if the log file is not open."""
        return self.size_bytes if self._log is not None else self._disk.file_size(self.prefix + ".log")

    @property
    def offsets(self) -> OffsetIndex:
        return self.indexes[0]

    @property
    def times(self) -> TimeIndex:
        return self.indexes[1]

    @property
    def indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        if self._indexes is None:
            self._indexes = self._trimmed_indexes() or self.rebuild_indexes()
        return self._indexes

    @property
    def latest(self) -> TimestampOffset:
        """The largest timestamp (ms; -1 without timestamps) and the last offset of its batch."""
        if not self._latest_known:
            self.set_latest(self._read_latest() or self.times.last)
        return TimestampOffset(self.latest_timestamp, self.latest_offset)

    def _read_latest(self) -> TimestampOffset | None:
        """Reads the last time index entry of an inactive segment without opening its other files."""
        if self.next_base < 0 or self._indexes is not None:
            return None
        try:
            file = self._disk.open(self.prefix + ".timeindex")
        except FileNotFoundError:
            return None
        entry = last_entry(file, self.base_offset)
        file.close()
        return entry if entry is not None and self.contains(entry.offset) else None

    def set_latest(self, latest: TimestampOffset) -> None:
        self.latest_timestamp, self.latest_offset = latest
        self._latest_known = True

    def _trimmed_indexes(self) -> tuple[OffsetIndex, TimeIndex] | None:
        """Opens the indexes of a cleanly closed segment; None if they are inconsistent."""
        try:
            found = self._index_files(create=False)
        except FileNotFoundError:
            return None
        right = False
        try:
            right = self._trim(*found)
        finally:
            if not right:
                for index in found:
                    index.file.close()
        return found if right else None

    def _trim(self, offsets: OffsetIndex, times: TimeIndex) -> bool:
        """Trims both indexes to whole entries; returns whether they are consistent."""
        size = self.log.size_bytes
        if offsets.file.size_bytes % 8 or times.file.size_bytes % 12:
            return False
        offsets.truncate_to_count(offsets.file.size_bytes // 8)
        times.truncate_to_count(times.file.size_bytes // 12)
        if times.count and not size:  # A flush of an empty segment leaves its indexes out.
            return False
        if offsets.count and not (0 < offsets.last.position < size and self.contains(offsets.last.offset)):
            return False
        if times.count and not (self.contains(times.last.offset) and times.last.timestamp >= times.entry(0).timestamp):
            return False
        first = None if times.count else next(headers(self.log, 0, size), None)
        if first is not None and first.max_timestamp >= 0:
            return False
        self.is_full = offsets.room <= 0 or times.room <= 0
        return True

    def _index_files(self, *, create: bool = True) -> tuple[OffsetIndex, TimeIndex]:
        """Opens the index files without using their entries. After an OSError both files are closed."""
        files: list[File] = []
        try:
            for suffix in (".index", ".timeindex"):
                files.append(self._disk.open(self.prefix + suffix, create=create))
        except OSError:
            for file in files:
                file.close()
            raise
        capacity = self.config.segment_index_bytes
        return (
            OffsetIndex(files[0], self.base_offset, count=0, capacity_bytes=capacity),
            TimeIndex(files[1], self.base_offset, count=0, capacity_bytes=capacity),
        )

    def clear_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Empties both indexes."""
        self._indexes = self._indexes or self._index_files()
        for index in self._indexes:
            index.clear()
        self.set_latest(TimestampOffset(-1, self.base_offset))
        self.bytes_since_entry = 0
        return self._indexes

    def keep_flushed_entries(self, recovery_point: int) -> int:
        """Keeps, after a crash, the index entries before the recovery point, which were flushed; drops the others.

        Returns the position of the last entry, from which the log must be scanned.
        """
        for index in self._indexes or ():
            index.file.close()
        offsets, times = self._indexes = self._index_files()
        offsets.truncate_to_count(offsets.trusted_count(recovery_point))
        last = offsets.last
        at = next(headers(self.log, last.position, self.log.size_bytes), None)
        if not offsets.count or at is None or at.last_offset != last.offset:
            self.clear_indexes()
            return 0
        times.truncate_to_count(times.trusted_count(last.offset))
        while times.count and not self._is_consistent(times.last):
            times.truncate_to_count(times.count - 1)  # A torn write: entries cross sector boundaries.
        self.set_latest(times.last)
        self.bytes_since_entry = 0
        return last.position

    def rebuild_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Rebuilds both indexes from the batch headers."""
        indexes = self.clear_indexes()
        self.index_batches(headers(self.log, 0, self.log.size_bytes))
        self.seal()
        return indexes

    def reseal(self, recovery_point: int) -> None:
        """Seals, after a crash, the segment that ends at the recovery point, where the next segment starts.

        Its batches were flushed. But its seal, or a truncation to the recovery point, may be lost, so that other
        batches may follow; they are removed.
        """
        end = self.keep_flushed_entries(recovery_point)
        last_offset = self.base_offset - 1
        for header in headers(self.log, end, self.log.size_bytes):
            if header.base_offset <= last_offset or header.last_offset >= recovery_point:
                break
            self.index_batches([header])
            end, last_offset = header.position + header.size_bytes, header.last_offset
        if last_offset == recovery_point - 1:  # Otherwise flushed batches are damaged, and kept for a reader to find.
            self.truncate_at(end)
        self.seal()

    def index_batches(self, batch_headers: Iterable[Header]) -> None:
        """Adds existing batches to the indexes, in order."""
        entries: list[tuple[int, int]] = []
        times: list[tuple[int, int]] = []
        for header in batch_headers:
            if header.max_timestamp > self.latest_timestamp:
                self.latest_timestamp, self.latest_offset = header.max_timestamp, header.last_offset
            if self.bytes_since_entry > self.config.index_interval_bytes:
                entries.append((header.last_offset, header.position))
                times.append((self.latest_timestamp, self.latest_offset))
                self.bytes_since_entry = 0
            self.bytes_since_entry += header.size_bytes
        if entries:
            self._write_entries(entries, times)

    def _write_entries(self, entries: list[tuple[int, int]], times: list[tuple[int, int]]) -> None:
        offset_index, time_index = self.indexes
        if len(entries) <= min(offset_index.room, time_index.room):
            offset_index.append(entries)
            time_index.append(times)
        else:
            # If one index is full, neither gets more entries: the next append rolls the segment, and batches without
            # an entry are found by scanning.
            for entry, time in zip(entries, times, strict=True):
                if offset_index.room <= 0 or time_index.room <= 0:
                    break
                offset_index.append([entry])
                time_index.append([time])
        self._update_is_full()

    def append(self, data: Buffer, batches: list[Batch]) -> None:
        """Appends batches, whose offsets and epochs are set, and indexes them."""
        log = self._log or self.log
        position = log.append(data)
        self.size_bytes = log.size_bytes
        recent = self._recent
        if len(recent) >= _RECENT_MAX:
            del recent[next(iter(recent))]
        recent[batches[0].base_offset] = BatchPosition(position, len(batches[0].data))
        if position == 0:
            self.first_timestamp = batches[0].max_timestamp
        entries: list[tuple[int, int]] | None = None
        times: list[tuple[int, int]] = []
        since, interval = self.bytes_since_entry, self.config.index_interval_bytes
        for batch in batches:
            if batch.max_timestamp > self.latest_timestamp:
                self.latest_timestamp = batch.max_timestamp
                self.latest_offset = batch.base_offset + batch.last_offset_delta
            if since > interval:
                entries = entries or []
                entries.append((batch.base_offset + batch.last_offset_delta, position))
                times.append((self.latest_timestamp, self.latest_offset))
                since = 0
            size = len(batch.data)
            since += size
            position += size
        self.bytes_since_entry = since
        if entries is not None:
            self._write_entries(entries, times)

    def age_ms(self, timestamp: int, now_ms: Callable[[], int]) -> int:
        """Returns the age of the segment in ms, for `segment.ms`: the time from the first batch's timestamp to
        `timestamp`, or by the clock if records have no timestamps (Kafka's `timeWaitedForRoll`)."""
        if self.first_timestamp is None:
            first = next(headers(self.log, 0, self.size_bytes), None)
            if first is None:
                return now_ms() - self.created_ms
            self.first_timestamp = first.max_timestamp
        if self.first_timestamp >= 0:
            return timestamp - self.first_timestamp
        return now_ms() - self.created_ms

    def find(self, offset: int) -> BatchPosition | None:
        """Returns the first batch that ends at or after `offset`; None if this segment has none.

        Raises CorruptSegment if the batches cannot be read.
        """
        found = self._recent.get(offset)
        if found is not None:
            return found
        entry = self.offsets.lookup(offset)
        try:
            return self._search(offset, entry)
        except CorruptIndex:
            last = () if self._is_damaged else deque(headers(self.log, 0, self.size_bytes), maxlen=1)
            self._is_damaged = [one.position + one.size_bytes for one in last] != [self.size_bytes]
            if self._is_damaged:  # The log is corrupt, not the index.
                raise
            self._indexes = self.rebuild_indexes()
            return self._search(offset, self.offsets.lookup(offset))

    def _search(self, offset: int, entry: OffsetPosition) -> BatchPosition | None:
        """Scans from an index entry for the batch that contains `offset`. Raises CorruptIndex, CorruptSegment."""
        log, end, start = self.log, self.size_bytes, entry.position
        expected, error_class = (entry.offset, CorruptIndex) if start else (-1, CorruptSegment)
        while start < end:
            chunk = log.pread(start, min(_PROBE_SIZE, end - start))
            at, last = 0, len(chunk) - _PROBE.size
            while at <= last:
                base, length, _, magic, _, _, delta = _PROBE.unpack_from(chunk, at)
                beyond = start + at + length + 12 > end
                if magic != 2 or length < 49 or beyond or (expected >= 0 and base + delta != expected):
                    raise error_class(f"{log.path} has no valid batch at byte {start + at}")
                if base + delta >= offset:
                    return BatchPosition(start + at, length + 12)
                at += length + 12
                expected, error_class = -1, CorruptSegment
            if at == 0:
                raise error_class(f"{log.path} ends within a batch at byte {start}")
            start += at
        return None

    def scan(self, offset: int) -> Iterator[Header]:
        """Yields the batch headers from the one that contains `offset`."""
        place = self.find(offset)
        return headers(self.log, place.position, self.size_bytes) if place is not None else iter(())

    def batch(self, header: Header) -> Batch:
        """Reads a batch. Raises CorruptSegment if it is invalid."""
        try:
            return parse_header(self.log.pread(header.position, header.size_bytes))
        except CorruptRecords as error:
            raise CorruptSegment(f"{self.log.path}: {error}") from error

    def first_batch_since(self, timestamp: int, from_offset: int, headers_max: int) -> Batch | int | None:
        """Returns the first batch with offsets from `from_offset` on whose latest record is at or after `timestamp`
        (ms); None if there is no such batch; the offset at which to go on if none of `headers_max` batches is it."""
        entry = self.times.lookup(timestamp)
        start = self.find(max(entry.offset, from_offset) if self._is_consistent(entry) else from_offset)
        if start is not None:
            for number, header in enumerate(headers(self.log, start.position, self.size_bytes)):
                if number == headers_max:
                    return header.base_offset
                if header.max_timestamp >= timestamp:
                    return self.batch(header)
        return None

    def _is_consistent(self, entry: TimestampOffset) -> bool:
        """Whether a time index entry matches its batch."""
        try:
            place = self._search(entry.offset, self.offsets.lookup(entry.offset))
        except CorruptSegment:
            return False
        header = None if place is None else next(headers(self.log, place.position, self.size_bytes), None)
        if header is None or header.last_offset != entry.offset:
            return False
        return header.max_timestamp == entry.timestamp

    def seal(self) -> None:
        """Completes the indexes when the segment is rolled: adds the last time index entry and trims both files."""
        offsets, times = self.indexes
        times.append([self.latest])
        offsets.trim()
        times.trim()

    def truncate_to(self, offset: int) -> None:
        """Removes the batch that contains `offset` and all following ones; call `activate` before appending."""
        place = self.find(offset)
        self._recent.clear()
        if place is None:
            return
        self._cut(offset, place.position)
        for index in self.indexes:
            index.trim()

    def undo_append(self, offset: int) -> None:
        """Removes the bytes that a failed append has written, from the log end offset `offset` on. Raises OSError."""
        found = self._recent.get(offset)
        if found is not None or self.log.size_bytes != self.size_bytes:
            self._cut(offset, self.size_bytes if found is None else found.position)
            self._update_is_full()

    def _cut(self, offset: int, position: int) -> None:
        offsets, times = self.indexes
        offsets.truncate_to(offset)
        times.truncate_to(min(offset, offsets.last.offset + 1) if offsets.count else self.base_offset)
        self.transactions.truncate_to(offset)
        self.truncate_at(position)
        self.bytes_since_entry = 0
        self.set_latest(times.last)
        self.index_batches(headers(self.log, offsets.last.position, position))

    def truncate_at(self, position: int) -> None:
        """Truncates the log file at `position`; the caller updates the indexes."""
        self._recent.clear()
        self.log.truncate(position)
        self.size_bytes = position
        if position == 0:
            self.first_timestamp = None

    @property
    def files(self) -> list[File]:
        """The open files to flush: the log, then its indexes."""
        found: list[File] = [self.log]
        if self._indexes is not None:
            found += [index.file for index in self._indexes]
        return found + [file for file in (self.transactions.file,) if file is not None]

    def close(self) -> None:
        """Closes all files."""
        for file in self.files if self._log is not None else []:
            file.close()

    def mark_deleted(self) -> list[str]:
        """Marks the segment as deleted by renaming its files; returns the new paths."""
        self.is_deleted = True
        self.close()
        marked: dict[str, str] = {}
        for suffix in SUFFIXES:
            path = self.prefix + suffix
            if self._disk.exists(path):
                marked[path] = rename_deleted(self._disk, path)
        for file in self.files if self._log is not None else []:
            file.path = marked.get(file.path, file.path)
        return list(marked.values())

    def move(self, directory: str) -> None:
        """Sets the new path of the log's directory, which was renamed."""
        name = self.prefix.rpartition("/")[2]
        self.prefix = f"{directory}/{name}"
        self.transactions.path = self.prefix + ".txnindex"
        for file in self.files if self._log is not None else []:
            file.path = f"{directory}/{file.path.rpartition('/')[2]}"
