"""Malformed record batches: the producer gets an error, the log stays intact, memory does not grow."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable

import crc32c
import pytest
from support.batches import encode_batch
from support.clients import connect, read
from support.clients_raw import RawConnection
from support.node import ServerProcess
from support.raw_produce import produce, writable_topics

from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.records.compression import Codec, compress
from minikafka.protocol.records.record import Record

TOPIC = "lies"
BOMBS = "bombs"  # a valid one may be stored, and then consumers with little memory cannot read past it
NONE, CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE = 0, 2, 87, 10, 76
MIB = 1 << 20

CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, COUNT_AT, RECORDS_AT = 17, 21, 23, 57, 61

MANY = [Record(offset, 1_700_000_000_000 + offset, b"key", b"value" * 20, ()) for offset in range(100)]
RECORDS = MANY[:5]
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


CLAIMS_MS = {"claims-far": 50 * 60_000, "claims-near": 3 * 60_000, "claims-early": -60 * 60_000}
"""By topic, how much later the largest timestamp is by the header of a batch than by its records."""


@pytest.fixture(scope="session", autouse=True)
def topic(node: ServerProcess) -> str:
    """Waits until the topic can be written."""
    writable_topics(node, {name: {} for name in (TOPIC, BOMBS, *CLAIMS_MS)}, RECORDS[0])
    return TOPIC


def end_offset(node: ServerProcess) -> int:
    return listed(node, TOPIC, timestamp=-1).offset


def listed(node: ServerProcess, topic: str, timestamp: int) -> ListOffsetsPartitionResponse:
    """What ListOffsets answers for the first partition of a topic."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    ask = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    with RawConnection(node.address) as connection:
        found: ListOffsetsPartitionResponse = connection.ask(ask, 7).topics[0].partitions[0]
        return found


def sealed(batch: bytearray) -> bytes:
    """The batch with a correct CRC."""
    struct.pack_into(">I", batch, CRC_AT, crc32c.crc32c(bytes(batch[ATTRIBUTES_AT:])))
    return bytes(batch)


def lying(field: str, position: int, value: int) -> bytes:
    batch = bytearray(encode_batch(RECORDS))
    struct.pack_into(field, batch, position, value)
    return sealed(batch)


def with_payload(codec: Codec, payload: bytes, count: int = 5) -> bytes:
    """A batch of the codec with these bytes as records."""
    batch = bytearray(encode_batch(RECORDS)[:RECORDS_AT]) + payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, codec)
    struct.pack_into(">i", batch, LAST_DELTA_AT, count - 1)
    struct.pack_into(">i", batch, COUNT_AT, count)
    return sealed(batch)


def refused(node: ServerProcess, batch: bytes) -> int:
    """The error code; the log must not have grown."""
    before = end_offset(node)
    error = produce(node, TOPIC, batch)
    assert end_offset(node) == before
    assert error != NONE
    return error


@pytest.mark.parametrize("position", [CRC_AT, ATTRIBUTES_AT, RECORDS_AT, 150, -1])
def test_a_batch_with_a_bad_crc_is_corrupt(node: ServerProcess, position: int) -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[position] ^= 1
    assert refused(node, bytes(batch)) == CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("field", "position", "value"),
    [
        (">i", COUNT_AT, 4),
        (">i", COUNT_AT, 6),
        (">i", COUNT_AT, 0),
        (">i", COUNT_AT, -1),
        (">i", COUNT_AT, 2**31 - 1),
        (">i", LAST_DELTA_AT, 3),
        (">i", LAST_DELTA_AT, 2**31 - 1),
        (">i", LAST_DELTA_AT, -1),
        (">h", ATTRIBUTES_AT, 0x20),
    ],
    ids=["few", "many", "none", "negative", "billions", "delta-few", "delta-billions", "delta-negative", "control"],
)
def test_a_batch_with_a_wrong_count_is_refused(node: ServerProcess, field: str, position: int, value: int) -> None:
    assert refused(node, lying(field, position, value)) in {INVALID_RECORD, CORRUPT_MESSAGE}


@pytest.mark.parametrize("name", CLAIMS_MS)
def test_the_largest_timestamp_is_that_of_the_records(node: ServerProcess, name: str) -> None:
    """Of a batch of more records than are checked one by one. Consumers look for times, and retention goes by them."""
    now_ms = int(time.time() * 1000)
    records = [Record(number, now_ms + number, b"k", b"v", ()) for number in range(66)]
    latest = records[-1].timestamp
    batch = encode_batch(records, max_timestamp=latest + CLAIMS_MS[name])
    assert produce(node, name, batch) == NONE
    found = listed(node, name, timestamp=-3)
    assert (found.timestamp, found.offset) == (latest, len(records))  # after the record of the fixture
    assert listed(node, name, timestamp=latest).offset == len(records)
    assert listed(node, name, timestamp=latest + 1).offset == -1


@pytest.mark.parametrize("length", [0, -1, 48, 2**31 - 1, 60])
def test_a_batch_with_a_wrong_length_is_refused(node: ServerProcess, length: int) -> None:
    refused(node, lying(">i", 8, length))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(node: ServerProcess, codec: int) -> None:
    """Apache Kafka closes the connection instead of sending an error."""
    try:
        refused(node, lying(">h", ATTRIBUTES_AT, codec))
    except ConnectionError:
        pass


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("how", ["cut", "flipped", "garbage", "empty"])
def test_corrupt_compressed_data_are_refused(node: ServerProcess, codec: Codec, how: str) -> None:
    good = encode_batch(MANY, codec=codec)[RECORDS_AT:]
    flipped = bytearray(good)
    flipped[len(flipped) // 2] ^= 0xFF
    garbage = random.Random(1).randbytes(300)
    payload = {"cut": good[: len(good) // 2], "flipped": flipped, "garbage": garbage, "empty": b""}[how]
    refused(node, with_payload(codec, bytes(payload), count=100))


def one_great_record(size_bytes: int) -> bytes:
    """One valid record whose value is this number of zeros."""
    def varint(number: int) -> bytes:
        number, out = number << 1, bytearray()
        while number > 127:
            out.append(number & 127 | 128)
            number >>= 7
        return bytes(out) + bytes([number])

    body = b"\x00\x00\x00\x01" + varint(size_bytes) + bytes(size_bytes) + b"\x00"
    return varint(len(body)) + body


@pytest.mark.slow
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, Codec.LZ4], ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("content", [bytes, one_great_record], ids=["zeros", "well-formed"])
def test_a_decompression_bomb_is_refused_or_stored_compressed(
    node: ServerProcess, codec: Codec, content: Callable[[int], bytes]
) -> None:
    bomb = compress(codec, content(200 * MIB if codec is not Codec.LZ4 else 100 * MIB))
    assert len(bomb) < MIB
    for _ in range(3):
        produce(node, BOMBS, with_payload(codec, bomb, count=1))


def test_records_before_and_after_are_read(node: ServerProcess) -> None:
    before = end_offset(node)
    assert produce(node, TOPIC, encode_batch(RECORDS, codec=Codec.ZSTD)) == NONE
    with connect("confluent-kafka", node.bootstrap) as client:
        reader = client.reader(TOPIC)
        got = read(reader, 5)
        reader.close()
        assert client.offsets(TOPIC)[1] == before + 5
    assert [record.value for record in got[:5]] == [record.value for record in RECORDS]
