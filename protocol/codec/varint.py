"""Encodes and decodes unsigned varints, and skips the tagged fields of flexible versions (KIP-482)."""

from __future__ import annotations

from typing import TypeAlias

from minikafka.protocol.message_errors import MalformedMessage

Buffer: TypeAlias = bytes | bytearray | memoryview


def uvarint(number: int) -> bytes:
    """Encode an unsigned varint: seven bits per byte, lowest first; the top bit is set if more bytes follow."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


SHORT = 1024
UVARINTS = tuple(uvarint(number) for number in range(SHORT))
"""`uvarint(n)` for n below SHORT."""


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Decode the unsigned varint at `position`; return the number and the position after it.

    Raises:
        MalformedMessage: the number exceeds 32 bits.
        IndexError: the data are truncated.
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
                raise MalformedMessage("unsigned varint exceeds 32 bits")
            break
    return number | byte << shift, position


def skip_tagged_fields(count: int, data: Buffer, position: int, limit: int) -> int:
    """The position after `count` unknown tagged fields."""
    for _ in range(count):
        _, position = read_uvarint(data, position)
        size_bytes, position = read_uvarint(data, position)
        position += size_bytes
        if position > limit:
            raise MalformedMessage(f"tagged field extends {position - limit} bytes past the end of the message")
    return position
