"""Small batches that are much work: each gets its answer, and no step of the node is long (the fixture `unharmed`)."""

from __future__ import annotations

import struct
import time

import crc32c
import pytest
from support.batches import encode_batch
from support.clients_raw import RawConnection, request
from support.node import ServerProcess
from support.oracle import Oracle
from support.raw_produce import PRODUCE_VERSION, produce, produce_request, writable_topics

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.headers import decode_response
from minikafka.protocol.messages.produce import ProduceResponse
from minikafka.protocol.records.batch import HEADER_SIZE
from minikafka.protocol.records.compression import Codec, compress
from minikafka.protocol.records.record import Record

MIB = 1 << 20
NOW_MS = int(time.time() * 1000)
DAYS_MS = 86_400_000
PLAIN, COMPACTED, RECOMPRESSED = "plain-topic", "compacted-topic", "recompressed-topic"
TOPICS = {PLAIN: {}, COMPACTED: {"cleanup.policy": "compact"}, RECOMPRESSED: {"compression.type": "gzip"}}
WIDE, TOGETHER = "topic-with-many-partitions", 250
CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, COUNT_AT = 17, 21, 23, 57


@pytest.fixture(scope="module", autouse=True)
def topics(node: ServerProcess) -> None:
    """Creates the topics, and waits until they can be written."""
    if isinstance(node, Oracle):
        pytest.skip("Apache Kafka makes an object for each header, and runs out of memory")
    first = Record(0, NOW_MS, b"key", b"value")
    writable_topics(node, TOPICS, first)
    writable_topics(node, {WIDE: {}}, first, partitions=TOGETHER)


def varint(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def with_headers(count: int, *, key: bytes = b"\x02k") -> bytes:
    """One record with this number of empty headers."""
    body = b"\x00\x00\x00" + key + b"\x01" + varint(count) + bytes(2 * count)
    return varint(len(body)) + body


def tiny_records(count: int) -> bytes:
    """Records without key and value."""
    return b"".join(
        varint(len(body)) + body for body in (b"\x00\x00" + varint(index) + b"\x01\x01\x00" for index in range(count))
    )


def batch_of(payload: bytes, codec: Codec, *, count: int = 1, timestamp: int = NOW_MS) -> bytes:
    batch = bytearray(encode_batch([Record(0, timestamp, b"k", b"")])[:HEADER_SIZE]) + compress(codec, payload)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, codec)
    struct.pack_into(">i", batch, LAST_DELTA_AT, count - 1)
    struct.pack_into(">i", batch, COUNT_AT, count)
    struct.pack_into(">I", batch, CRC_AT, crc32c.crc32c(bytes(batch[ATTRIBUTES_AT:])))
    return bytes(batch)


MANY_HEADERS, MORE_HEADERS = with_headers(5 * MIB), with_headers(12 * MIB)
MANY_RECORDS = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("topic", list(TOPICS))
@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP], ids=lambda codec: codec.name.lower())
def test_millions_of_empty_headers_are_stored(node: ServerProcess, topic: str, codec: Codec) -> None:
    batch = batch_of(MANY_HEADERS, codec)
    assert len(batch) < 32_000
    assert produce(node, topic, batch) == ErrorCode.NONE


@pytest.mark.slow
def test_millions_of_headers_with_a_future_timestamp_are_refused(node: ServerProcess) -> None:
    batch = batch_of(MANY_HEADERS, Codec.ZSTD, timestamp=NOW_MS + 400 * DAYS_MS)
    assert produce(node, PLAIN, batch) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.slow
def test_millions_of_headers_without_a_key_are_refused_by_a_compacted_topic(node: ServerProcess) -> None:
    batch = batch_of(with_headers(5 * MIB, key=b"\x01"), Codec.ZSTD)
    assert produce(node, COMPACTED, batch) == ErrorCode.INVALID_RECORD


def test_more_than_sixteen_times_the_largest_batch_is_too_large(node: ServerProcess) -> None:
    """Apache Kafka has no bound. Its producer divides a batch with this error, and sends the parts."""
    assert produce(node, PLAIN, batch_of(MORE_HEADERS, Codec.ZSTD)) == ErrorCode.MESSAGE_TOO_LARGE


def test_headers_without_compression_are_stored(node: ServerProcess) -> None:
    assert produce(node, PLAIN, batch_of(with_headers(500_000), Codec.NONE)) == ErrorCode.NONE


@pytest.mark.slow
@pytest.mark.parametrize("timestamp", [NOW_MS, NOW_MS + 400 * DAYS_MS], ids=["now", "in-the-future"])
def test_a_million_records_are_looked_at_in_steps(node: ServerProcess, timestamp: int) -> None:
    batch = batch_of(tiny_records(MANY_RECORDS), Codec.ZSTD, count=MANY_RECORDS, timestamp=timestamp)
    expected = ErrorCode.NONE if timestamp == NOW_MS else ErrorCode.INVALID_TIMESTAMP
    assert produce(node, PLAIN, batch) == expected


@pytest.mark.slow
def test_a_malformed_record_behind_many_headers_is_found(node: ServerProcess) -> None:
    damaged = MANY_HEADERS[:-1] + b"\x01"
    assert produce(node, PLAIN, batch_of(damaged + b"\x00", Codec.ZSTD)) == ErrorCode.INVALID_RECORD


COSTLY = {
    "headers": batch_of(with_headers(4_000), Codec.ZSTD),
    "records": batch_of(tiny_records(9_000), Codec.ZSTD, count=9_000),
    "bytes": encode_batch([Record(0, NOW_MS, b"key", bytes(MIB - 100))], codec=Codec.GZIP),
}
"""Compressed batches that take milliseconds each, and are validated at once where one comes alone."""


@pytest.mark.parametrize("what", COSTLY)
def test_costly_batches_of_many_requests_are_validated_in_many_steps(node: ServerProcess, what: str) -> None:
    with RawConnection(node.address) as connection:
        connection.send(request(produce_request(PLAIN, [COSTLY[what]]), PRODUCE_VERSION) * TOGETHER)
        answers = [connection.receive_frame() for _ in range(TOGETHER)]
    assert [error_codes(answer) for answer in answers] == [[ErrorCode.NONE]] * TOGETHER


@pytest.mark.parametrize("what", COSTLY)
def test_costly_batches_of_one_request_are_validated_in_many_steps(node: ServerProcess, what: str) -> None:
    with RawConnection(node.address) as connection:
        connection.send(request(produce_request(WIDE, [COSTLY[what]] * TOGETHER), PRODUCE_VERSION))
        assert error_codes(connection.receive_frame()) == [ErrorCode.NONE] * TOGETHER


def error_codes(answer: bytes) -> list[int]:
    response = decode_response(ProduceResponse, PRODUCE_VERSION, answer)[1]
    return [one.error_code for topic in response.responses for one in topic.partition_responses]
