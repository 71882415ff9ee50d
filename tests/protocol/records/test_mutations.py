"""Tens of thousands of damaged batches raise CorruptRecords and nothing else, and allocate little memory."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from crc32c import crc32c
from support.batches import encode_batch

from minikafka.protocol.records.batch import batches
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.record import CorruptRecords, Record

MUTATIONS = 6_000


def originals() -> list[bytes]:
    """A batch per codec, each with nulls, headers and long values."""
    records = [
        Record(
            -1,
            1_700_000_000_000 + n * 37,
            None if n % 5 == 0 else b"key-%d" % n,
            None if n % 7 == 0 else b"value %d " % n * (n % 11),
            [("name", b"x" * n), ("null", None)] if n % 3 == 0 else (),
        )
        for n in range(30)
    ]
    return [encode_batch(records, codec=codec, base_offset=100) for codec in Codec]


def mutated(original: bytes, random: Random) -> bytes:
    data = bytearray(original)
    for _ in range(random.choice((1, 1, 2, 5))):
        position = random.randrange(len(data))
        match random.randrange(4):
            case 0:
                data[position] ^= 1 << random.randrange(8)
            case 1:
                data[position] = random.choice((0x00, 0x01, 0x7F, 0x80, 0xFF))
            case 2:
                data[position : position + 4] = random.randbytes(4)
            case _:
                del data[position : position + random.randrange(1, 4)]
    return bytes(data)


def with_true_checksum(data: bytes) -> bytes:
    """The batch with length and checksum corrected, as an attacker would send it."""
    if len(data) < 61:
        return data
    buffer = bytearray(data)
    buffer[8:12] = (len(buffer) - 12).to_bytes(4, "big")
    buffer[16] = 2
    buffer[17:21] = crc32c(buffer[21:]).to_bytes(4, "big")
    return bytes(buffer)


@pytest.mark.parametrize("codec", Codec)
def test_the_checksum_detects_damage(codec: Codec) -> None:
    original, random = originals()[codec], Random(f"damage/{codec}")
    wanted = next(batches(original)).records()
    for _ in range(MUTATIONS):
        try:
            for batch in batches(mutated(original, random)):
                batch.check_crc()
                assert [record[1:] for record in batch.records()] == [record[1:] for record in wanted]
        except CorruptRecords:
            pass


@pytest.mark.slow
@pytest.mark.parametrize("codec", Codec)
def test_damaged_batches_with_a_valid_checksum_are_safe(codec: Codec) -> None:
    original, random = originals()[codec], Random(f"forgery/{codec}")
    tracemalloc.start()
    for _ in range(MUTATIONS // 3):
        try:
            for batch in batches(with_true_checksum(mutated(original, random))):
                batch.check_crc()
                assert len(batch.records(max_size_bytes=100_000)) == batch.record_count
        except CorruptRecords:
            pass
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()
