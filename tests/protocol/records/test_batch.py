"""Batches: round trips, header fields, invalid headers, and patches in place that keep the checksum valid."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import record_shapes
from support.batches import encode_batch

from minikafka.protocol.records.batch import (
    HEADER_SIZE,
    UnsupportedMagic,
    assign,
    batches,
    parse_header,
    stamp_log_append_time,
)
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.record import CorruptRecords, Record, read_varint, varint

RECORDS = [Record(-1, 1000 + n, b"k%d" % n, b"v" * n, [("h", b"%d" % n)]) for n in range(5)]


@pytest.mark.slow
@given(
    records=record_shapes.records(),
    codec=st.sampled_from(Codec),
    numbers=st.fixed_dictionaries(record_shapes.numbers),
    transactional=st.booleans(),
)
def test_round_trip(
    records: list[Record], codec: Codec, numbers: dict[str, int], transactional: bool
) -> None:
    data = encode_batch(records, codec=codec, transactional=transactional, **numbers)
    batch = parse_header(b"junk" + data + b"more", 4)
    batch.check_crc()
    assert {name: getattr(batch, name) for name in numbers} == numbers
    assert (batch.codec, batch.is_transactional, batch.is_control) == (codec, transactional, False)
    assert batch.size_bytes == len(data)
    assert batch.record_count == len(records) == batch.last_offset_delta + 1
    base = numbers["base_offset"]
    assert batch.records() == [
        record._replace(offset=base + n, headers=list(record.headers) or ())
        for n, record in enumerate(records)
    ]


@given(data=st.data())
def test_gaps_between_offsets_are_kept(data: st.DataObject) -> None:
    deltas = data.draw(st.integers(1, 9).flatmap(record_shapes.gaps))
    records = [Record(500 + delta, 7, None, b"x") for delta in deltas]
    batch = parse_header(encode_batch(records, base_offset=500 + deltas[0]))
    assert batch.records() == records
    assert batch.last_offset == records[-1].offset


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_varints_of_64_bits(value: int) -> None:
    assert read_varint(varint(value) + b"x", 0, 10) == (value, len(varint(value)))


def test_a_batch_without_records_keeps_its_last_offset() -> None:
    batch = parse_header(encode_batch([], deltas=(), base_offset=40, last_offset_delta=9))
    assert (batch.records(), batch.last_offset, batch.next_offset) == ([], 49, 50)


def test_sequence_numbers_wrap_around() -> None:
    batch = parse_header(encode_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=(1 << 31) - 2))
    assert batch.last_sequence == 2
    assert parse_header(encode_batch(RECORDS)).last_sequence == -1


def test_assigning_an_offset_keeps_the_checksum() -> None:
    buffer = bytearray(b"ab" + encode_batch(RECORDS, codec=Codec.ZSTD))
    assign(buffer, 2, 1 << 40, 17)
    batch = parse_header(buffer, 2)
    batch.check_crc()
    assert (batch.base_offset, batch.leader_epoch) == (1 << 40, 17)
    assert [record.offset for record in batch.records()] == [(1 << 40) + n for n in range(5)]


def test_log_append_time_is_the_timestamp_of_every_record() -> None:
    buffer = bytearray(b"ab" + encode_batch(RECORDS))
    stamp_log_append_time(buffer, 2, 123456)
    batch = parse_header(buffer, 2)
    batch.check_crc()
    assert (batch.timestamp_type, batch.max_timestamp, batch.base_timestamp) == (1, 123456, 1000)
    assert {record.timestamp for record in batch.records()} == {123456}


def test_a_changed_byte_fails_the_checksum() -> None:
    data = encode_batch(RECORDS)
    for position in range(21, len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x10
        with pytest.raises(CorruptRecords, match="CRC"):
            parse_header(changed).check_crc()


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_other_formats_are_rejected_by_name(magic: int) -> None:
    data = bytearray(encode_batch(RECORDS))
    struct.pack_into(">b", data, 16, magic)
    with pytest.raises(UnsupportedMagic, match=f"v{magic}"):
        parse_header(data)


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 48])
def test_impossible_lengths_are_rejected(length: int) -> None:
    data = bytearray(encode_batch(RECORDS) * 2)
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(CorruptRecords, match="length"):
        list(batches(data))


@pytest.mark.parametrize("size", [0, 1, 16, 17, HEADER_SIZE - 1])
def test_a_truncated_header_is_rejected(size: int) -> None:
    with pytest.raises(CorruptRecords, match="truncated"):
        parse_header(encode_batch(RECORDS)[:size])


@pytest.mark.parametrize("count", [-1, 4, 6, 2_000_000_000])
def test_wrong_record_counts_are_rejected(count: int) -> None:
    data = bytearray(encode_batch(RECORDS))
    struct.pack_into(">i", data, 57, count)
    with pytest.raises(CorruptRecords, match="records"):
        parse_header(data).records()


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_rejected(codec: int) -> None:
    data = bytearray(encode_batch(RECORDS))
    data[22] = codec
    with pytest.raises(CorruptRecords, match=f"codec {codec}"):
        parse_header(data).records()


def test_numbers_out_of_range_raise_value_error() -> None:
    with pytest.raises(ValueError, match="out of the range"):
        encode_batch(RECORDS, producer_epoch=1 << 15)
    with pytest.raises(ValueError, match="must increase"):
        encode_batch([Record(5, 0, None, None), Record(5, 0, None, None)])
