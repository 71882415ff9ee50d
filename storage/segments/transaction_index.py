"""`TransactionIndex`: the aborted transactions of a segment, which read_committed consumers skip.

`.txnindex` exists only for segments with an abort marker. An entry has 34 bytes, big endian::

    version: int16 = 0   producer id: int64   first offset: int64   last offset: int64 (of the marker)
    last stable offset: int64 (when the marker was appended, ignoring the high watermark)
"""

import struct
from bisect import bisect_left
from typing import NamedTuple

from minikafka.storage.disks.disk import Disk, File
from minikafka.storage.disks.disk_errors import is_passing

_ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """An aborted transaction, as an entry of a transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions with markers in one segment, in order. The file is read on first use.

    Attributes:
        created: whether the file is new, and its name is not flushed yet.
    """

    __slots__ = ("_disk", "_entries", "_file", "_is_complete", "created", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._file: File | None = None
        self._entries: list[AbortedTransaction] | None = None
        self._is_complete = True
        self.created = False

    @property
    def file(self) -> File | None:
        """The open file; None if it is closed or does not exist."""
        return self._file

    @property
    def entries(self) -> list[AbortedTransaction]:
        """The entries. An entry of another version, or out of order, ends the list. Raises OSError."""
        if self._entries is None:
            self._entries = []
            if self._disk.exists(self.path):
                self._file = self._disk.open(self.path)
                data = self._file.pread(0, self._file.size_bytes)
                self._entries = _decode(data)
        return self._entries

    def append(self, transaction: AbortedTransaction) -> None:
        """Adds a transaction, unless it is known already, as when recovery finds it again.

        Raises OSError. After a passing error, as on a full disk, the entry is kept, and `complete` writes it later.
        """
        if self.entries and transaction.last_offset <= self.entries[-1].last_offset:
            return
        self.entries.append(transaction)
        self._is_complete = False
        try:
            self.complete()
        except OSError as error:
            if not is_passing(error):
                raise

    def complete(self) -> None:
        """Writes the entries that the file does not have yet; called by a flush. Raises OSError."""
        if self._is_complete:
            return
        entries = self.entries
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
            self.created = True
        whole = min(self._file.size_bytes // _ENTRY.size, len(entries) - 1)
        if self._file.size_bytes != whole * _ENTRY.size:
            self._file.truncate(whole * _ENTRY.size)
        self._file.append(b"".join(_ENTRY.pack(0, *one) for one in entries[whole:]))
        self._is_complete = True

    def truncate_to(self, offset: int) -> None:
        """Removes the transactions with markers at or after `offset`. Raises OSError."""
        entries = self.entries
        kept = [entry for entry in entries if entry.last_offset < offset]
        size_bytes = len(kept) * _ENTRY.size
        if self._file is not None and self._file.size_bytes > size_bytes:
            self._file.truncate(size_bytes)
        self._is_complete = not kept or (self._file is not None and self._file.size_bytes == size_bytes)
        self._entries = kept

    def collect(self, from_offset: int, to_offset: int, aborted: list[AbortedTransaction]) -> bool:
        """Adds the transactions that overlap the range to `aborted`.

        Returns whether later segments cannot have such transactions.
        """
        entries = self.entries
        for index in range(bisect_left(entries, from_offset, key=_last_offset), len(entries)):
            entry = entries[index]
            if entry.first_offset < to_offset:
                aborted.append(entry)
            if entry.last_stable_offset >= to_offset:
                return True
        return False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _last_offset(entry: AbortedTransaction) -> int:
    return entry.last_offset


def _decode(data: bytes) -> list[AbortedTransaction]:
    entries: list[AbortedTransaction] = []
    whole = len(data) - len(data) % _ENTRY.size
    for version, *fields in _ENTRY.iter_unpack(memoryview(data)[:whole]):
        entry = AbortedTransaction(*fields)
        if version != 0 or (entries and entry.last_offset <= entries[-1].last_offset):
            break
        entries.append(entry)
    return entries
