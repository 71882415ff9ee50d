"""One segment of a log: a file of batches and the three indexes beside it.

A segment is named by its base offset (20 digits) and holds offsets from there up to the next segment's. Behind
the active one (the last) segments lie untouched: a `Segment` opens its files when it is read. An index that is
missing or contradicts the log is rebuilt from it, and an index entry is checked against the header that it
points to whenever it is used; so the indexes can be lost, or lie, without harm.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from minikafka.protocol.records.batch import Batch, parse_header
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.batch_scan import Header, headers
from minikafka.storage.disk import Buffer, Disk, File
from minikafka.storage.index import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset, last_entry
from minikafka.storage.log_config import LogConfig
from minikafka.storage.transaction_index import TransactionIndex

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
DELETED = ".deleted"
OFFSET_DELTA_MAX = (1 << 31) - 1
"""How far a segment's offsets may lie from its base: the indexes keep 31 bits."""
_RECENT_MAX = 64
_PROBE_SIZE = 8192
_PROBE = Struct(">qiibIhi")


class Place(NamedTuple):
    """Where a batch lies."""

    position: int
    size_bytes: int


class MisplacedBatches(ValueError):
    """A segment holds batches that do not belong under its name, or none where some should be."""


class LyingIndex(MisplacedBatches):
    """No such batch lies where an index entry says."""


def offset_name(offset: int) -> str:
    """The 20 digits that begin the names of a segment's files."""
    return f"{offset:020d}"


class Segment:
    """See above. All methods may raise OSError.

    Attributes:
        next_base: the base offset of the segment behind this one, -1 while it is the last.
        size_bytes: of the batches; known once `log` was opened, as it is for the active segment.
        latest_timestamp, latest_offset: the latest record (ms) and the last offset of its batch, of a segment
            that was written to or recovered; `latest` is right for all.
        first_timestamp: the latest time in the first batch, from which a segment ages; None: not yet looked.
        bytes_since_entry: batches since the last index entry.
        is_full: an index has no room left.
    """

    __slots__ = (
        "_disk", "_indexes", "_is_damaged", "_latest_known", "_log", "_recent", "base_offset",
        "bytes_since_entry", "config", "created_ms", "first_timestamp", "is_full", "jitter_ms", "latest_offset",
        "latest_timestamp", "next_base", "prefix", "size_bytes", "transactions",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, config: LogConfig, *, next_base: int = -1
    ) -> None:
        self._disk = disk
        self._log: File | None = None
        self._indexes: tuple[OffsetIndex, TimeIndex] | None = None
        self._latest_known = self._is_damaged = False
        self._recent: dict[int, Place] = {}
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
        """Make the files of a new active segment; left-overs of that name go first, where there can be any."""
        segment = cls(disk, directory, base_offset, config)
        if not in_new and disk.exists(segment.transactions.path):
            disk.remove(segment.transactions.path)
        segment._log = disk.open(segment.prefix + ".log", create=True)
        if segment._log.size_bytes:
            segment._log.truncate(0)
        segment.clear_indexes()
        segment.activate(now_ms=now_ms)
        return segment

    def activate(self, *, now_ms: int) -> None:
        """Lengthen the indexes, so that the segment can be written to."""
        self.created_ms = now_ms
        self.next_base = -1
        for index in self.indexes:
            index.reserve()
        self._look_whether_full()

    def _look_whether_full(self) -> None:
        offsets, times = self.indexes
        self.is_full = offsets.room <= 0 or times.room <= 0

    @property
    def path(self) -> str:
        """Of the log file."""
        return self.prefix + ".log"

    @property
    def log(self) -> File:
        """The batches. Raises MisplacedBatches."""
        if self._log is None:
            log = self.open_unchecked()
            first = next(headers(log, 0, log.size_bytes), None)
            if first is not None and not (self.holds(first.base_offset) and self.holds(first.last_offset)):
                log.close()
                self._log = None
                raise MisplacedBatches(f"{log.path} begins with offset {first.base_offset}")
        return self._log or self.open_unchecked()

    def open_unchecked(self) -> File:
        """The batches, whatever they are; for recovery, which looks at all of them."""
        if self._log is None:
            self._log = self._disk.open(self.prefix + ".log")
            self.size_bytes = self._log.size_bytes
        return self._log

    def holds(self, offset: int) -> bool:
        """Whether an offset belongs here."""
        return self.base_offset <= offset and (self.next_base < 0 or offset < self.next_base)

    @property
    def size(self) -> int:
        """`size_bytes`, asked of the disk where the log is not open."""
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
        """The latest record (ms; -1: none has a time) and the last offset of its batch."""
        if not self._latest_known:
            self.set_latest(self._peek_latest() or self.times.last)
        return TimestampOffset(self.latest_timestamp, self.latest_offset)

    def _peek_latest(self) -> TimestampOffset | None:
        """The last time index entry of a segment that is full, and perhaps never read: from that file alone."""
        if self.next_base < 0 or self._indexes is not None:
            return None
        try:
            file = self._disk.open(self.prefix + ".timeindex")
        except FileNotFoundError:
            return None
        entry = last_entry(file, self.base_offset)
        file.close()
        return entry if entry is not None and self.holds(entry.offset) else None

    def set_latest(self, latest: TimestampOffset) -> None:
        self.latest_timestamp, self.latest_offset = latest
        self._latest_known = True

    def _trimmed_indexes(self) -> tuple[OffsetIndex, TimeIndex] | None:
        """The indexes of a segment that was closed well, None where they cannot be right."""
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
        """Take all entries of both files; whether they can be right."""
        size = self.log.size_bytes
        if offsets.file.size_bytes % 8 or times.file.size_bytes % 12:
            return False
        offsets.truncate_to_count(offsets.file.size_bytes // 8)
        times.truncate_to_count(times.file.size_bytes // 12)
        if offsets.count and not (0 < offsets.last.position < size and self.holds(offsets.last.offset)):
            return False
        if times.count and not (
            self.holds(times.last.offset) and times.last.timestamp >= times.entry(0).timestamp
        ):
            return False
        first = None if times.count else next(headers(self.log, 0, size), None)
        if first is not None and first.max_timestamp >= 0:
            return False
        self.is_full = offsets.room <= 0 or times.room <= 0
        return True

    def _index_files(self, *, create: bool = True) -> tuple[OffsetIndex, TimeIndex]:
        """The index files, with no entry taken for granted. Raises OSError, and then has neither open."""
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
        """Start with empty indexes."""
        self._indexes = self._indexes or self._index_files()
        for index in self._indexes:
            index.clear()
        self.set_latest(TimestampOffset(-1, self.base_offset))
        self.bytes_since_entry = 0
        return self._indexes

    def trust_indexes(self, recovery_point: int) -> int:
        """After a crash: keep the index entries before the recovery point, which were synced, drop the rest.

        Returns the position up to which they speak; from there the log must be scanned again.
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
        while times.count and not self._agrees(times.last):
            times.truncate_to_count(times.count - 1)  # Torn: 512 is no multiple of an entry's size.
        self.set_latest(times.last)
        self.bytes_since_entry = 0
        return last.position

    def rebuild_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Make both indexes anew from the headers, as if the segment had just been written."""
        indexes = self.clear_indexes()
        self.enter(headers(self.log, 0, self.log.size_bytes))
        self.seal()
        return indexes

    def reseal(self, recovery_point: int) -> None:
        """After a crash: bring a segment in order that ends at the recovery point, where the next one begins.
        Its batches were synced; its sealing was perhaps not, nor its having been cut there."""
        start = self.trust_indexes(recovery_point)
        for header in headers(self.log, start, self.log.size_bytes):
            if header.last_offset >= recovery_point:
                self.cut(header.position)
                break
            self.enter([header])
        self.seal()

    def enter(self, found: Iterable[Header]) -> None:
        """Enter batches that already lie in the log into the indexes, in order."""
        entries: list[tuple[int, int]] = []
        times: list[tuple[int, int]] = []
        for header in found:
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
            # A full index stays as it is, and the other with it: the next append rolls, and what has no entry is
            # found by scanning.
            for entry, time in zip(entries, times, strict=True):
                if offset_index.room <= 0 or time_index.room <= 0:
                    break
                offset_index.append([entry])
                time_index.append([time])
        self._look_whether_full()

    def append(self, data: Buffer, batches: list[Batch]) -> None:
        """Write batches whose offsets and epochs are set, and index them."""
        log = self._log or self.log
        position = log.append(data)
        self.size_bytes = log.size_bytes
        recent = self._recent
        if len(recent) >= _RECENT_MAX:
            del recent[next(iter(recent))]
        recent[batches[0].base_offset] = Place(position, len(batches[0].data))
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
        """How long the segment has waited to be rolled: by its first batch's time and the new records', or by
        the clock where records have no times (Kafka's `timeWaitedForRoll`)."""
        if self.first_timestamp is None:
            first = next(headers(self.log, 0, self.size_bytes), None)
            if first is None:
                return now_ms() - self.created_ms
            self.first_timestamp = first.max_timestamp
        if self.first_timestamp >= 0:
            return timestamp - self.first_timestamp
        return now_ms() - self.created_ms

    def find(self, offset: int) -> Place | None:
        """The first batch that ends at `offset` or behind it; None where there is none in this segment.

        Raises MisplacedBatches where the log does not read as batches.
        """
        found = self._recent.get(offset)
        if found is not None:
            return found
        entry = self.offsets.lookup(offset)
        try:
            return self._search(offset, entry)
        except LyingIndex:
            last = () if self._is_damaged else deque(headers(self.log, 0, self.size_bytes), maxlen=1)
            self._is_damaged = [one.position + one.size_bytes for one in last] != [self.size_bytes]
            if self._is_damaged:  # It is the log that is wrong.
                raise
            self._indexes = self.rebuild_indexes()
            return self._search(offset, self.offsets.lookup(offset))

    def _search(self, offset: int, entry: OffsetPosition) -> Place | None:
        """Scan from an index entry for the batch that holds `offset`. Raises LyingIndex, MisplacedBatches."""
        log, end, start = self.log, self.size_bytes, entry.position
        expected, trouble = (entry.offset, LyingIndex) if start else (-1, MisplacedBatches)
        while start < end:
            chunk = log.pread(start, min(_PROBE_SIZE, end - start))
            at, last = 0, len(chunk) - _PROBE.size
            while at <= last:
                base, length, _, magic, _, _, delta = _PROBE.unpack_from(chunk, at)
                beyond = start + at + length + 12 > end
                if magic != 2 or length < 49 or beyond or (expected >= 0 and base + delta != expected):
                    raise trouble(f"{log.path} has no such batch at byte {start + at}")
                if base + delta >= offset:
                    return Place(start + at, length + 12)
                at += length + 12
                expected, trouble = -1, MisplacedBatches
            if at == 0:
                raise trouble(f"{log.path} is cut at byte {start}")
            start += at
        return None

    def scan(self, offset: int) -> Iterator[Header]:
        """The batches from the one that holds `offset` on."""
        place = self.find(offset)
        return headers(self.log, place.position, self.size_bytes) if place is not None else iter(())

    def batch(self, header: Header) -> Batch:
        """Read a whole batch. Raises MisplacedBatches where it is not one."""
        try:
            return parse_header(self.log.pread(header.position, header.size_bytes))
        except CorruptRecords as error:
            raise MisplacedBatches(f"{self.log.path}: {error}") from error

    def find_timestamp(self, timestamp: int, from_offset: int) -> tuple[int, int, int] | None:
        """(Time, offset, leader epoch) of the first record from `from_offset` on that is not before
        `timestamp`."""
        entry = self.times.lookup(timestamp)
        start = self.find(max(entry.offset, from_offset) if self._agrees(entry) else from_offset)
        if start is None:
            return None
        for header in headers(self.log, start.position, self.size_bytes):
            if header.max_timestamp >= timestamp:
                for record in self.batch(header).records():
                    if record.timestamp >= timestamp and record.offset >= from_offset:
                        return record.timestamp, record.offset, header.leader_epoch
        return None

    def _agrees(self, entry: TimestampOffset) -> bool:
        """Whether a time index entry names a batch that has its timestamp."""
        try:
            place = self._search(entry.offset, self.offsets.lookup(entry.offset))
        except MisplacedBatches:
            return False
        header = None if place is None else next(headers(self.log, place.position, self.size_bytes), None)
        if header is None or header.last_offset != entry.offset:
            return False
        return header.max_timestamp == entry.timestamp

    def seal(self) -> None:
        """Close the indexes off, as when the segment is rolled: a last time index entry, and no more room."""
        offsets, times = self.indexes
        times.append([self.latest])
        offsets.trim()
        times.trim()

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that holds `offset` and all behind it; `activate` makes room again."""
        place = self.find(offset)
        self._recent.clear()
        if place is None:
            return
        offsets, times = self.indexes
        offsets.truncate_to(offset)
        times.truncate_to(min(offset, offsets.last.offset + 1) if offsets.count else self.base_offset)
        self.transactions.truncate_to(offset)
        self.cut(place.position)
        self.bytes_since_entry = 0
        self.set_latest(times.last)
        self.enter(headers(self.log, offsets.last.position, place.position))
        for index in self.indexes:
            index.trim()

    def cut(self, position: int) -> None:
        """Drop the log's bytes from `position` on; the indexes are the caller's."""
        self._recent.clear()
        self.log.truncate(position)
        self.size_bytes = position
        if position == 0:
            self.first_timestamp = None

    @property
    def files(self) -> list[File]:
        """What must be synced for this segment to be durable: the log, then its indexes."""
        found: list[File] = [self.log]
        if self._indexes is not None:
            found += [index.file for index in self._indexes]
        return found + [file for file in (self.transactions.file,) if file is not None]

    def close(self) -> None:
        """Give all descriptors back."""
        for file in self.files if self._log is not None else []:
            file.close()

    def mark_deleted(self) -> list[str]:
        """Rename the files so that they count as gone; returns the new paths, to be removed later."""
        self.close()
        marked: list[str] = []
        for suffix in SUFFIXES:
            path = self.prefix + suffix
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED)
                marked.append(path + DELETED)
        for file in self.files if self._log is not None else []:
            file.path += DELETED
        return marked

    def move(self, directory: str) -> None:
        """The directory was renamed."""
        name = self.prefix.rpartition("/")[2]
        self.prefix = f"{directory}/{name}"
        self.transactions.path = self.prefix + ".txnindex"
        for file in self.files if self._log is not None else []:
            file.path = f"{directory}/{file.path.rpartition('/')[2]}"
