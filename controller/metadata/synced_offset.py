"""`SyncedOffset`: the offset up to which the metadata log was synced to the device, stored in a file beside the log.

A power failure may remove a batch that was not synced, and leave a later batch. The log then ends before the gap, and
nothing that was acknowledged is missing. A gap before the synced offset, however, is damage. The file itself is not
synced, because that would cost as much as a sync of the log: after a power failure the file may have an earlier offset,
or be unreadable.
"""

from __future__ import annotations

import contextlib

from crc32c import crc32c

from minikafka.storage.disks.disk import Disk

__all__ = ["FILE_NAME", "SyncedOffset", "decode_synced_offset", "read_synced_offset"]

FILE_NAME = "synced-offset"
_DIGITS = 20


class SyncedOffset:
    """The synced offset of one log. A missing file is created; the constructor raises OSError if that fails."""

    def __init__(self, disk: Disk, log_directory: str) -> None:
        path = f"{log_directory}/{FILE_NAME}"
        noted = read_synced_offset(disk, log_directory)
        if noted is None:
            disk.write_atomically(path, _encoded(0))
        self._noted = noted or 0
        self._file = disk.open(path)

    def note(self, offset: int) -> None:
        """Note that everything before the offset is on the device."""
        if offset > self._noted:
            self._noted = offset
            with contextlib.suppress(OSError):  # An earlier offset does no harm.
                self._file.pwrite(0, _encoded(offset))

    def lower(self, offset: int) -> None:
        """Lower the synced offset, before the log is truncated. The file is synced, because after a power failure a
        later offset would be taken for damage. Blocking.

        Raises:
            OSError: the file cannot be written; then the log must not be truncated.
        """
        if offset < self._noted:
            self._file.pwrite(0, _encoded(offset))
            self._file.sync()
            self._noted = offset

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_synced_offset(disk: Disk, log_directory: str) -> int | None:
    """Read the offset in the file; 0 if the content is damaged, None if there is no file, as in a directory that an
    earlier version has written.

    Raises:
        OSError: the file cannot be read.
    """
    path = f"{log_directory}/{FILE_NAME}"
    if not disk.exists(path):
        return None
    return decode_synced_offset(disk.read_bytes(path)) or 0


def decode_synced_offset(data: bytes) -> int | None:
    """The offset in the content of the file; None if its checksum is wrong."""
    digits = data[:_DIGITS]
    return int(digits) if digits.isdigit() and data == _encoded(int(digits)) else None


def _encoded(offset: int) -> bytes:
    digits = b"%0*d" % (_DIGITS, offset)
    return b"%s %08x\n" % (digits, crc32c(digits))
