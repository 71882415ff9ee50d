"""`CleanedSegment`: writes the files of a cleaned segment, named `.cleaned` until they replace old segments."""

from collections.abc import Iterable

from minikafka.storage.compaction.batch_filter import Kept
from minikafka.storage.disks.disk import Disk, File
from minikafka.storage.log_config import LogConfig
from minikafka.storage.segments.index import OffsetIndex, TimeIndex, TimestampOffset
from minikafka.storage.segments.segment_names import SUFFIXES, offset_name
from minikafka.storage.segments.transaction_index import AbortedTransaction, TransactionIndex

CLEANED = ".cleaned"


class CleanedSegment:
    """A segment that the cleaner is writing. All methods raise OSError.

    Attributes:
        size_bytes: the size of its batches so far.
    """

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: LogConfig) -> None:
        self._disk = disk
        self._prefix = f"{directory}/{offset_name(base_offset)}"
        self._interval = config.index_interval_bytes
        self._since_entry = 0
        self._latest = TimestampOffset(-1, base_offset)
        remove_cleaned(disk, self._prefix)
        self._log = self._create(".log")
        capacity = config.segment_index_bytes
        self._offsets = OffsetIndex(self._create(".index"), base_offset, count=0, capacity_bytes=capacity)
        self._times = TimeIndex(self._create(".timeindex"), base_offset, count=0, capacity_bytes=capacity)
        self._transactions = TransactionIndex(disk, f"{self._prefix}.txnindex{CLEANED}")

    def _create(self, suffix: str) -> File:
        return self._disk.open(f"{self._prefix}{suffix}{CLEANED}", create=True)

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    def append(self, batches: Iterable[Kept]) -> None:
        """Appends batches and indexes them, as `Segment.append` does."""
        parts, position = [], self._log.size_bytes
        entries: list[tuple[int, int]] = []
        times: list[tuple[int, int]] = []
        for data, last_offset, max_timestamp in batches:
            if max_timestamp > self._latest.timestamp:
                self._latest = TimestampOffset(max_timestamp, last_offset)
            if self._since_entry > self._interval:
                entries.append((last_offset, position))
                times.append(self._latest)
                self._since_entry = 0
            self._since_entry += len(data)
            position += len(data)
            parts.append(data)
        if parts:
            self._log.append(b"".join(parts))
        room = max(0, min(self._offsets.room, self._times.room))
        self._offsets.append(entries[:room])
        self._times.append(times[:room])

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        self._transactions.append(transaction)

    def finish(self) -> None:
        """Completes the indexes, and flushes and closes all files."""
        self._times.append([self._latest])
        for index in (self._offsets, self._times):
            index.trim()
        transactions = self._transactions.file
        for file in (self._log, self._offsets.file, self._times.file, *([transactions] if transactions else [])):
            file.sync()
            file.close()

    def abandon(self) -> None:
        """Closes and removes the files of an incomplete segment."""
        for file in (self._log, self._offsets.file, self._times.file):
            file.close()
        self._transactions.close()
        remove_cleaned(self._disk, self._prefix)


def remove_unfinished(disk: Disk, directory: str) -> None:
    """Removes all `.cleaned` files in the directory of a log. Raises OSError."""
    for name in disk.list(directory):
        if name.endswith(CLEANED):
            disk.remove(f"{directory}/{name}")


def remove_cleaned(disk: Disk, prefix: str) -> None:
    """Removes the `.cleaned` files of a segment. Raises OSError."""
    for suffix in SUFFIXES:
        path = f"{prefix}{suffix}{CLEANED}"
        if disk.exists(path):
            disk.remove(path)
