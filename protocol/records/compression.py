"""Compresses and decompresses record batches with gzip, snappy, lz4 and zstd, by cramjam, with bounded output.

Gzip is decompressed by zlib-ng if it is installed (the extra `fast`), in half of the time.

The framing is that of Kafka's Java client: gzip members; snappy in the format of snappy-java ("xerial": a 16-byte
header, then length-prefixed blocks; a bare snappy block is read as well, as in Kafka); lz4 frames of independent
64 KiB blocks; zstd frames. cramjam reads more lz4 than Java and librdkafka do: see `check_lz4`.

The content size in a frame header is not trusted: output is written to a buffer that grows up to `max_size_bytes`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum

import cramjam

from minikafka.protocol.records.record import CorruptRecords

try:
    from zlib_ng import zlib_ng
except ImportError:
    zlib_ng = None  # type: ignore[assignment]

MAX_SIZE_BYTES = 256 << 20
"""The default limit on the decompressed records of a batch."""
TOGETHER_SIZE_BYTES = 32 << 20
"""The limit on records of several batches that the client and the Spark connector decompress together."""
GZIP_DEFAULT_LEVEL = -1
_FIRST_BUFFER_BYTES = 16 << 10
_GROWTH = 8
_GZIP_WINDOW_BITS = 16 + 15
"""The `wbits` of zlib for the largest window and a gzip header."""
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(">8sii")
_XERIAL_BLOCK_BYTES = 32 << 10
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER_BYTES = 7
_LZ4_END_MARK_BYTES = 4
_SNAPPY_RATIO_MAX = 64
"""A snappy element has at least two bytes and expands to at most 64; blocks that claim more are rejected."""

Buffer = bytes | bytearray | memoryview


class TooMuchContent(CorruptRecords):
    """Records decompress to more than the caller's limit. Decoding fewer batches at once may succeed."""


class Codec(IntEnum):
    """The compression of a batch's records: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`. The range of `level` is that of `compression.<codec>.level`; None is the codec's default.

    The level -1 stands for the default of gzip, as in Kafka, but is a level of its own of zstd.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, None if level == GZIP_DEFAULT_LEVEL else level))
        case Codec.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Codec.LZ4:
            frame = cramjam.lz4.Compressor(level, content_checksum=False, block_linked=False)
            frame.compress(data)
            return bytes(frame.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level))


def decompress(codec: Codec, data: Buffer, max_size_bytes: int = MAX_SIZE_BYTES) -> Buffer:
    """Decompress `data`, which is returned unchanged for `Codec.NONE`.

    Raises CorruptRecords for invalid data, TooMuchContent for content above `max_size_bytes`.
    """
    if codec is Codec.NONE:
        return data
    try:
        if codec is Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), max_size_bytes)
        if codec is Codec.GZIP and (member := _gzip_member(data, max_size_bytes)) is not None:
            return member
        return _decompress_into(_DECOMPRESSORS[codec], data, max_size_bytes)
    except cramjam.DecompressionError as error:
        raise CorruptRecords(f"invalid {codec.name.lower()} data: {error}") from None


_DECOMPRESSORS: dict[Codec, Callable[[Buffer, bytearray], int]] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


def _decompress_into(into: Callable[[Buffer, bytearray], int], data: Buffer, max_size_bytes: int) -> Buffer:
    size = min(max(len(data) * _GROWTH, _FIRST_BUFFER_BYTES), max_size_bytes)
    while True:
        buffer = bytearray(size)
        try:
            del buffer[into(data, buffer) :]  # frees the unused rest, since the caller may keep the buffer
            return buffer
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
        del buffer  # else the traceback of the exception raised below keeps it
        if size >= max_size_bytes:
            raise too_much(max_size_bytes)
        size = min(size * _GROWTH, max_size_bytes)


def _gzip_member(data: Buffer, max_size_bytes: int) -> Buffer | None:
    """The content of data that is one whole gzip member; None for other data, which is left to cramjam."""
    if zlib_ng is None:
        return None
    invalid: type[Exception] = zlib_ng.error  # type: ignore[assignment]  # its stub names an instance
    decompressor = zlib_ng.decompressobj(_GZIP_WINDOW_BITS)
    try:
        content = decompressor.decompress(data, max_size_bytes)
    except invalid:
        return None
    return content if decompressor.eof and not decompressor.unused_data else None


def check_lz4(data: Buffer, blocks_max: int) -> None:
    """Check that all consumers can read `data`: it must be a single frame of independent blocks without a dictionary.

    Java's consumer reads the first frame only, librdkafka fails at a second frame; both fail at frames of other kinds.
    The content of the blocks is not checked.

    Args:
        data: the compressed records of a batch.
        blocks_max: the most blocks that are checked, since each takes some time.

    Raises:
        CorruptRecords: the data is not such a frame.
        TooMuchContent: the frame has more than `blocks_max` blocks.
    """
    if len(data) < _LZ4_HEADER_BYTES or bytes(data[:4]) != _LZ4_MAGIC:
        raise CorruptRecords("lz4 data does not begin with a frame")
    flags = data[4]
    if not flags & 0x20 or flags & 0x03:
        raise CorruptRecords("lz4 frame with dependent blocks or a dictionary, which consumers cannot read")
    position = _LZ4_HEADER_BYTES + (8 if flags & 0x08 else 0)
    around_bytes = 8 if flags & 0x10 else 4
    for _ in range(blocks_max + 1):
        size = int.from_bytes(data[position : position + 4], "little")
        if not size:
            break
        position += around_bytes + (size & 0x7FFF_FFFF)
    else:
        raise TooMuchContent(f"lz4 frame of more than {blocks_max} blocks")
    position += _LZ4_END_MARK_BYTES + (4 if flags & 0x04 else 0)
    if position < len(data):
        raise CorruptRecords(f"lz4 frame of {position} bytes is followed by other data, which consumers cannot read")


def _compress_xerial(data: memoryview) -> bytes:
    parts: list[bytes] = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_size_bytes: int) -> Buffer:
    if len(data) < _XERIAL_HEADER.size or bytes(data[:8]) != _XERIAL_MAGIC:
        return _decompress_block(data, max_size_bytes)
    parts: list[Buffer] = []
    position, left = _XERIAL_HEADER.size, max_size_bytes
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if length > len(data) - position:
            raise CorruptRecords(f"snappy block of {length} bytes extends past the end of its batch")
        parts.append(_decompress_block(data[position : position + length], max_size_bytes))
        left -= len(parts[-1])
        if left < 0:
            raise too_much(max_size_bytes)
        position += length
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_block(block: memoryview, max_size_bytes: int) -> Buffer:
    size = int(cramjam.snappy.decompress_raw_len(block))
    if size > max_size_bytes:
        raise too_much(max_size_bytes)
    if size > len(block) * _SNAPPY_RATIO_MAX:
        raise CorruptRecords(f"snappy block of {len(block)} bytes claims {size} bytes of content")
    buffer = bytearray(size)
    return memoryview(buffer)[: cramjam.snappy.decompress_raw_into(block, buffer)]


def too_much(max_size_bytes: int) -> TooMuchContent:
    """The exception for content above `max_size_bytes`."""
    return TooMuchContent(f"records decompress to more than {max_size_bytes} bytes")
