"""`SyncedOffset`: how far the metadata log is known to have been on the device, in a file beside it.

A power failure may take a batch that was not synced, and leave a later one: the log ends before it then, and nothing
that was acknowledged is missing. The same gap before the synced offset is damage. The file itself is not synced, which
would cost as much as each sync of the log: after a power failure it may have an earlier offset, or be unreadable.
"""

from __future__ import annotations

import contextlib

from crc32c import crc32c

from minikafka.storage.disk import Disk

__all__ = ["FILE_NAME", "SyncedOffset", "decode_synced_offset", "read_synced_offset"]

FILE_NAME = "synced-offset"
_DIGITS = 20


class SyncedOffset:
    """The offset of one log, which is created if it is missing. Raises OSError then."""

    def __init__(self, disk: Disk, log_directory: str) -> None:
        path = f"{log_directory}/{FILE_NAME}"
        noted = read_synced_offset(disk, log_directory)
        if noted is None:
            disk.write_atomically(path, _encoded(0))
        self._noted = noted or 0
        self._file = disk.open(path)

    def note(self, offset: int) -> None:
        """Everything before the offset is on the device."""
        if offset > self._noted:
            self._noted = offset
            with contextlib.suppress(OSError):  # An earlier offset does no harm.
                self._file.pwrite(0, _encoded(offset))

    def lower(self, offset: int) -> None:
        """Before the log is truncated: the file is synced, as a later offset would be taken for damage. Blocking.

        Raises:
            OSError: The log must not be truncated.
        """
        if offset < self._noted:
            self._file.pwrite(0, _encoded(offset))
            self._file.sync()
            self._noted = offset

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_synced_offset(disk: Disk, log_directory: str) -> int | None:
    """The offset in the file; 0 if that is unreadable, None if there is no file, as in a directory that
    an earlier version has written.

    Raises:
        OSError: It cannot be read.
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
