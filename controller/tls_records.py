"""`ReceivedRecords`: cuts the bytes that a peer sends by TLS into records, and refuses what only costs time.

OpenSSL reads on as long as records without data follow each other, and a message that its peer has cut into records of
a byte. Who gives it few records at a time knows how much a step costs: a new key (KeyUpdate, 27 bytes) takes 13 µs, as
much as a record of 16 KiB with data. Source: RFC 8446, section 5. The limits are those of a peer that means well, and
more; Go's `crypto/tls` allows 16 records without data, Java 32 KiB for a message of a handshake.
"""

from __future__ import annotations

import struct

__all__ = ["RECORD_SIZE_BYTES_MAX", "ReceivedRecords", "RefusedRecord"]

RECORD_SIZE_BYTES_MAX = 16 << 10
"""The most data in a record."""
WITHOUT_DATA_MAX = 32
"""Records without data that may follow each other, with those of the handshake."""
DATA_RECORDS_FOR_ANOTHER = 16
"""After so many records with data, one more without is allowed, up to `WITHOUT_DATA_MAX`."""
HELLO_SIZE_BYTES_MAX = RECORD_SIZE_BYTES_MAX + 512
"""Bytes of a handshake before the first answer. OpenSSL compares each key share with each group: 64 KiB take 70 ms."""

_HEADER = struct.Struct(">BBxH")
"""The type, the version and the size of the rest."""
_HEADER_SIZE_BYTES = _HEADER.size
_TYPES = range(20, 24)
_HANDSHAKE, _WITH_DATA = 22, 23
_MAJOR_VERSION = 3


class RefusedRecord(ValueError):
    """A peer sends records of TLS that no peer needs to send: close the connection."""


class ReceivedRecords:
    """The records of one connection, in the order of their arrival.

    Attributes:
        is_established: Whether the handshake is done; set it then.
    """

    def __init__(self) -> None:
        self._bytes = b""
        self._position = 0
        self._without_data_left: float = WITHOUT_DATA_MAX
        self._hello_left_bytes = HELLO_SIZE_BYTES_MAX
        self._is_answered = False
        self.is_established = False

    def add(self, data: bytes) -> None:
        """Take received bytes."""
        self._bytes = self._bytes[self._position :] + data
        self._position = 0

    @property
    def has_whole(self) -> bool:
        """Whether `take` returns a record."""
        return 0 < self._next_size <= len(self._bytes) - self._position

    def take(self) -> memoryview | None:
        """Return the next record; None if it has not wholly arrived. What is no record is returned in pieces as it is.

        Raises:
            RefusedRecord: The peer has sent too many records without data, or what it has no business to send.
        """
        received, start, size_bytes = self._bytes, self._position, self._next_size
        end = start + size_bytes
        if not size_bytes or end > len(received):
            return None
        self._count(received[start], size_bytes)
        self._go_to(end)
        return memoryview(received)[start:end]

    def take_data(self, room_bytes: int, most: int) -> tuple[memoryview, int]:
        """Return the next records that may have data, and their number; none before the handshake is done.

        Args:
            room_bytes: what their data fit into together: a record that does not is left to `take`.
            most: records at most. There are fewer if those without data are nearly used up.
        """
        received, start, count = self._bytes, self._position, 0
        end, limit = start, min(len(received), start + room_bytes)
        most = min(most, int(self._without_data_left)) if self.is_established and self._is_answered else 0
        while count < most and end + _HEADER_SIZE_BYTES <= limit:
            kind, major, size_bytes = _HEADER.unpack_from(received, end)
            next_end = end + _HEADER_SIZE_BYTES + size_bytes
            is_usual = kind == _WITH_DATA and major == _MAJOR_VERSION and size_bytes <= _ENCRYPTED_SIZE_BYTES_MAX
            if not is_usual or next_end > limit:
                break
            end, count = next_end, count + 1
        self._without_data_left -= count
        self._go_to(end)
        return memoryview(received)[start:end], count

    def _go_to(self, end: int) -> None:
        """Forget what is taken once no whole record is left: a connection that waits keeps the rest of one at most."""
        self._position = end
        if end and not self.has_whole:
            self._bytes, self._position = self._bytes[end:], 0

    @property
    def _next_size(self) -> int:
        """The size of the next record with its header, or of the header if it is none; 0 before the header is there."""
        received, start = self._bytes, self._position
        if len(received) - start < _HEADER_SIZE_BYTES:
            return 0
        if received[start] not in _TYPES or received[start + 1] != _MAJOR_VERSION:
            return _HEADER_SIZE_BYTES
        size_bytes = received[start + 3] << 8 | received[start + 4]
        return _HEADER_SIZE_BYTES + (size_bytes if size_bytes <= _ENCRYPTED_SIZE_BYTES_MAX else 0)

    def _count(self, kind: int, size_bytes: int) -> None:
        if self.is_established and kind == _HANDSHAKE:
            raise RefusedRecord("the peer asks for another handshake on the connection")
        self._without_data_left -= 1
        if self._without_data_left < 0:
            raise RefusedRecord(f"the peer sends more than {WITHOUT_DATA_MAX} records of TLS without data")
        if not self._is_answered:
            self._hello_left_bytes -= size_bytes
            if self._hello_left_bytes < 0:
                raise RefusedRecord(f"the peer begins with a message of more than {RECORD_SIZE_BYTES_MAX} bytes")

    def answered(self) -> None:
        """This end has sent something: the first message of the peer was whole, or the peer has to answer."""
        self._is_answered = True

    def brought_data(self, count: int = 1) -> None:
        """So many of the records that were taken last had data."""
        left = self._without_data_left + count * (1 + 1 / DATA_RECORDS_FOR_ANOTHER)
        self._without_data_left = min(WITHOUT_DATA_MAX, left)


_ENCRYPTED_SIZE_BYTES_MAX = RECORD_SIZE_BYTES_MAX + 2048
"""The most bytes of a record after its header, in TLS 1.2. Of a longer one OpenSSL gets the header, and refuses it."""
