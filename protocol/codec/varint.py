"""Unsigned variable-length numbers and the tagged fields of flexible versions (KIP-482)."""

from __future__ import annotations

from typing import TypeAlias

from minikafka.protocol.message_errors import MalformedMessage

Buffer: TypeAlias = bytes | bytearray | memoryview


def uvarint(number: int) -> bytes:
    """Seven bits a byte, lowest first; the top bit says that more follow."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


SHORT = 1024
UVARINTS = tuple(uvarint(number) for number in range(SHORT))
"""What `uvarint` gives for numbers below SHORT."""


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """The number at `position`, and where it ends.

    Raises:
        MalformedMessage: longer than the five bytes of a 32-bit number, or above its range.
        IndexError: the data end first.
    """
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        if byte < 0x80:
            break
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift == 28:
            byte = data[position]
            position += 1
            if byte > 0x0F:
                raise MalformedMessage("a variable-length number of more than 32 bits")
            break
    return number | byte << shift, position


def skip_tagged_fields(count: int, data: Buffer, position: int, limit: int) -> int:
    """The end of `count` tagged fields that nobody here knows."""
    for _ in range(count):
        _, position = read_uvarint(data, position)
        size_bytes, position = read_uvarint(data, position)
        position += size_bytes
        if position > limit:
            raise MalformedMessage(f"a tagged field ends {position - limit} bytes after the message")
    return position
