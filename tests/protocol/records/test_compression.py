"""Codecs: round trips, Kafka's framing, and decompression bombs."""

from __future__ import annotations

import gzip
import random
import tracemalloc

import cramjam
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.records import compression
from minikafka.protocol.records.compression import Codec, TooMuchContent, check_lz4, compress, decompress
from minikafka.protocol.records.record import CorruptRecords
from minikafka.protocol.settings.registry import NODE_SETTINGS

COMPRESSED = [codec for codec in Codec if codec]


@given(data=st.binary(max_size=100_000), codec=st.sampled_from(Codec))
def test_round_trip(data: bytes, codec: Codec) -> None:
    assert bytes(decompress(codec, compress(codec, data), max(len(data), 1))) == data


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("size", [0, 1, 32768, 32769, 700_000])
def test_sizes_around_the_block_size(codec: Codec, size: int) -> None:
    data = bytes(n % 251 for n in range(size))
    assert bytes(decompress(codec, compress(codec, data))) == data


LEVELS = {Codec.GZIP: (-1, 1, 9), Codec.LZ4: (1, 9, 17), Codec.ZSTD: (-131_072, -1, 0, 1, 22)}


@pytest.mark.parametrize(("codec", "level"), [(codec, level) for codec, levels in LEVELS.items() for level in levels])
def test_each_level_that_the_settings_allow_compresses(codec: Codec, level: int) -> None:
    valid = NODE_SETTINGS[f"compression.{codec.name.lower()}.level"].valid
    assert valid is not None
    assert valid.problem(level) is None
    data = b"some text " * 1000
    assert bytes(decompress(codec, compress(codec, data, level))) == data


def test_minus_one_is_the_default_of_gzip_and_a_level_of_zstd() -> None:
    data = bytes(random.Random(1).choices(b"abcdef ghij", k=20_000))
    assert compress(Codec.GZIP, data, -1) == compress(Codec.GZIP, data)
    assert len(compress(Codec.ZSTD, data, -1)) > len(compress(Codec.ZSTD, data))


def test_snappy_is_written_in_javas_framing_and_read_with_or_without() -> None:
    data = b"some text " * 10_000
    framed = compress(Codec.SNAPPY, data)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    bare = bytes(cramjam.snappy.compress_raw(data))
    assert bytes(decompress(Codec.SNAPPY, bare)) == data


def test_lz4_blocks_are_independent_as_java_requires() -> None:
    assert compress(Codec.LZ4, b"x" * 200_000)[4] & 0x20


@pytest.mark.parametrize("codec", COMPRESSED)
def test_decompression_bombs_are_rejected(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(CorruptRecords, match="more than 1000000 bytes"):
        decompress(codec, bomb, 1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


def test_the_size_in_a_snappy_block_is_not_trusted() -> None:
    claim = b"\xff\xff\xff\x7f" + b"\x00" * 8  # 268,435,455 bytes of content claimed in eight bytes
    with pytest.raises(CorruptRecords, match="claims"):
        decompress(Codec.SNAPPY, claim, 1 << 30)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("garbage", [b"\x00", b"garbage", bytes(100), b"\x82SNAPPY\x00" + bytes(21)])
def test_garbage_is_rejected_as_corrupt(codec: Codec, garbage: bytes) -> None:
    try:
        content = decompress(codec, garbage)
    except CorruptRecords:
        return
    assert len(content) <= 64 * len(garbage)  # snappy decodes a zero byte as an empty block


@pytest.mark.parametrize("codec", COMPRESSED)
def test_truncated_data_is_rejected_as_corrupt(codec: Codec) -> None:
    whole = compress(codec, bytes(range(256)) * 40)
    with pytest.raises(CorruptRecords):
        decompress(codec, whole[:-3])


@settings(max_examples=300)
@given(
    data=st.binary(min_size=1, max_size=3000),
    damage=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=2),
    cut=st.sampled_from([0, 0, 1, 9]),
    most=st.sampled_from([1, 500, 3000, 1 << 20]),
)
def test_gzip_is_read_by_zlib_ng_as_by_cramjam(
    data: bytes, damage: list[tuple[int, int]], cut: int, most: int
) -> None:
    packed = bytearray(compress(Codec.GZIP, data * 3))
    for position, byte in damage:
        packed[position % len(packed)] = byte
    packed = packed[: len(packed) - cut]

    def content() -> bytes | str:
        try:
            return bytes(decompress(Codec.GZIP, packed, most))
        except CorruptRecords as error:
            return str(error)

    with pytest.MonkeyPatch.context() as patch:
        found = content()
        patch.setattr(compression, "zlib_ng", None)
        assert found == content()


def test_gzip_with_several_members_is_read_completely() -> None:
    assert bytes(decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"))) == b"onetwo"


def lz4_frame(flags: int, content: bytes = b"content" * 30, blocks: int = 1, optional: bytes = b"") -> bytes:
    """An lz4 frame of stored blocks; `optional` are the content size and the dictionary id in its header."""
    descriptor = bytes([flags, 0x40]) + optional
    block = (len(content) | 1 << 31).to_bytes(4, "little") + content
    if flags & 0x10:
        block += xxhash.xxh32_intdigest(content).to_bytes(4, "little")
    checksum = xxhash.xxh32_intdigest(content * blocks).to_bytes(4, "little") if flags & 0x04 else b""
    header = b"\x04\x22\x4d\x18" + descriptor + bytes([xxhash.xxh32_intdigest(descriptor) >> 8 & 255])
    return header + block * blocks + bytes(4) + checksum


SIZE = (210).to_bytes(8, "little")
SKIPPED = b"\x50\x2a\x4d\x18\x02\x00\x00\x00zz"


@pytest.mark.parametrize(
    "frame",
    [
        lz4_frame(0x60),
        lz4_frame(0x60, blocks=40),
        lz4_frame(0x64),
        lz4_frame(0x70, blocks=3),
        lz4_frame(0x74, blocks=3),
        lz4_frame(0x68, optional=SIZE),
        lz4_frame(0x7C, optional=SIZE),
        compress(Codec.LZ4, bytes(300_000)),
        compress(Codec.LZ4, random.Random(7).randbytes(300_000)),
    ],
)
def test_what_every_consumer_of_lz4_can_read(frame: bytes) -> None:
    decompress(Codec.LZ4, frame)
    check_lz4(frame, 40)


@pytest.mark.parametrize(
    "data",
    [
        lz4_frame(0x60) * 2,
        lz4_frame(0x74) * 2,
        lz4_frame(0x60) + SKIPPED,
        SKIPPED + lz4_frame(0x60),
        SKIPPED,
        lz4_frame(0x40),
        lz4_frame(0x44, blocks=3),
        lz4_frame(0x61, optional=b"dict"),
        lz4_frame(0x69, optional=SIZE + b"dict"),
        lz4_frame(0x60) + lz4_frame(0x40),
    ],
)
def test_lz4_that_decompresses_but_that_some_consumers_cannot_read(data: bytes) -> None:
    decompress(Codec.LZ4, data)
    with pytest.raises(CorruptRecords, match="lz4"):
        check_lz4(data, 40)


def test_lz4_of_more_blocks_than_are_looked_at() -> None:
    with pytest.raises(TooMuchContent):
        check_lz4(lz4_frame(0x60, blocks=41), 40)
