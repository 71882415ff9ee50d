"""The column codec agrees with the plain loops, byte for byte and record for record, also on corrupt batches."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import record_shapes
from support.batches import encode_batch, header_of

from minikafka.protocol.records import column_codec
from minikafka.protocol.records.batch import Batch, batches, parse_header, stamp_log_append_time
from minikafka.protocol.records.column_codec import decode_columns, encode_columns
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.record import CorruptRecords, Headers, Record

from .test_mutations import mutated, originals, with_true_checksum

MUTATIONS = 5_000


@pytest.fixture(autouse=True, params=["numpy", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs each test with numpy for any number of records, and without numpy."""
    if request.param == "numpy":
        pytest.importorskip("numpy")
        monkeypatch.setattr(column_codec, "ENCODE_COUNT_MIN", 1)
        monkeypatch.setattr(column_codec, "DECODE_COUNT_MIN", 1)
    else:
        monkeypatch.setattr(column_codec, "load_numpy_codec", lambda: None)
    return str(request.param)


def loop_records(some: list[Batch], max_size_bytes: int = 1 << 20) -> list[Record] | None:
    try:
        return [record for batch in some for record in batch.records(max_size_bytes=max_size_bytes)]
    except CorruptRecords:
        return None


def column_records(some: list[Batch], max_size_bytes: int = 1 << 20) -> list[Record] | None:
    try:
        return decode_columns(some, max_size_bytes=max_size_bytes).records()
    except CorruptRecords:
        return None


@pytest.mark.slow
@given(records=record_shapes.records(), codec=st.sampled_from(Codec), sequence=st.integers(-1, 1 << 30))
def test_encoding_agrees(records: list[Record], codec: Codec, sequence: int) -> None:
    _, timestamps, keys, values, headers = zip(*records, strict=True)
    numbers: dict[str, Any] = {"codec": codec, "producer_id": 9, "base_sequence": sequence}
    encoded = encode_columns(keys, values, timestamps, headers, header=header_of(**numbers))
    assert encoded == encode_batch(records, **numbers)


@given(values=st.lists(st.binary(max_size=200), min_size=1, max_size=300))
def test_encoding_without_keys_and_headers_agrees(values: list[bytes]) -> None:
    wanted = encode_batch([Record(-1, 1000 + n, None, value) for n, value in enumerate(values)])
    assert encode_columns(None, values, range(1000, 1000 + len(values))) == wanted


@pytest.mark.slow
@given(
    groups=st.lists(record_shapes.records(min_size=0, max_size=6), max_size=4),
    codec=st.sampled_from(Codec),
    log_append_time=st.booleans(),
)
def test_decoding_many_batches_agrees(
    groups: list[list[Record]], codec: Codec, log_append_time: bool
) -> None:
    data = bytearray()
    for records in groups:
        start = len(data)
        some: dict[str, Any] = {} if records else {"deltas": (), "last_offset_delta": 0}
        data += encode_batch(records, codec=codec, base_offset=start * 1000, **some)
        if log_append_time and len(records) % 2:
            stamp_log_append_time(data, start, 77)
    whole = list(batches(data))
    assert column_records(whole) == loop_records(whole)
    types = [batch.timestamp_type for batch in whole for _ in range(batch.record_count)]
    assert (decode_columns(whole).timestamp_types or [0] * len(types)) == types


def test_columns_are_available_separately() -> None:
    records = [Record(5 + n, 70 + n, b"k%d" % n if n % 2 else None, b"v" * n) for n in range(9)]
    found = decode_columns([parse_header(encode_batch(records, base_offset=5))])
    assert (len(found), found.headers) == (9, None)
    assert list(zip(found.offsets, found.timestamps, found.keys(), found.values(), strict=True)) == [
        record[:4] for record in records
    ]


@pytest.mark.slow
@pytest.mark.parametrize("codec", Codec)
def test_both_agree_on_damaged_batches(codec: Codec) -> None:
    original, random = originals()[codec], Random(f"columns/{codec}")
    for number in range(MUTATIONS):
        data = with_true_checksum(mutated(original, random))
        try:
            whole = list(batches(data + (original if number % 3 == 0 else b"")))
        except CorruptRecords:
            continue
        assert column_records(whole) == loop_records(whole)


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(0, 90), min_size=16, max_size=80),
    shuffled=st.lists(st.integers(0, 40), max_size=4),
    damaged=st.one_of(st.none(), st.tuples(st.integers(0, 40), st.integers(61, 2000), st.integers(0, 255))),
)
def test_batches_of_the_same_size_agree(
    sizes: list[int], shuffled: list[int], damaged: tuple[int, int, int] | None
) -> None:
    """Most have their records at the same places; some at others, or no valid ones."""
    data = bytearray()
    for number in range(12):
        lengths = sizes[::-1] if number in shuffled else sizes
        records = [Record(-1, 1000, b"k%d" % (index % 10), bytes(size)) for index, size in enumerate(lengths)]
        batch = bytearray(encode_batch(records, base_offset=number * 100))
        if damaged is not None and damaged[0] == number and damaged[1] < len(batch):
            batch[damaged[1]] = damaged[2]
        data += with_true_checksum(batch)
    whole = list(batches(data))
    assert column_records(whole) == loop_records(whole)


@pytest.mark.slow
@given(
    seed=st.integers(0, 1 << 32),
    zeros=st.sampled_from([0.0, 0.003, 0.05, 1.0]),
    headers=st.sampled_from([(), (("h", b"\0\0"),)]),
    damaged=st.lists(st.tuples(st.integers(61, 40_000), st.integers(0, 255)), max_size=3),
)
def test_many_records_of_any_size_agree(
    seed: int, zeros: float, headers: Headers, damaged: list[tuple[int, int]]
) -> None:
    """With and without bytes inside values that look like the end of a record."""
    random = Random(seed)
    values = [
        bytes(0 if random.random() < zeros else random.randrange(256) for _ in range(random.randrange(90)))
        for _ in range(600)
    ]
    records = [Record(-1, 1000 + index, None, value, headers) for index, value in enumerate(values)]
    batch = bytearray(encode_batch(records))
    for place, byte in damaged:
        if place < len(batch):
            batch[place] = byte
    whole = list(batches(with_true_checksum(batch)))
    assert column_records(whole) == loop_records(whole)


@pytest.mark.parametrize("value", [b"\0\x06\0\0\0\0", b"\0\x08\0\0\x06\0\0\0"])
def test_values_that_look_like_records_are_values(value: bytes) -> None:
    """Each holds what could be a record, whose length leads into the same value or to its end."""
    whole = [parse_header(encode_batch([Record(-1, 1000, b"", value * (index % 3)) for index in range(600)]))]
    assert column_records(whole) == loop_records(whole) is not None


@pytest.mark.parametrize("length", [0, 1, 2, 61, 62, 0x7F])
def test_a_wrong_length_among_many_records_is_found(length: int) -> None:
    """The records still begin where they did, but the length of one does not lead to the next."""
    batch = bytearray(encode_batch([Record(-1, 1000, None, b"v" * (40 + index % 3)) for index in range(600)]))
    place = batch.index(b"v" * 42 + b"\0") + 43  # the length of the record after one of 42 bytes
    assert batch[place + 1] == 0
    batch[place] = length << 1 & 0x7F
    whole = list(batches(with_true_checksum(batch)))
    assert column_records(whole) == loop_records(whole)


@pytest.mark.parametrize("numbers", [{"base_timestamp": (1 << 63) - 1}, {"base_timestamp": -(1 << 63)}])
def test_timestamps_overflow_the_same_way(numbers: dict[str, int]) -> None:
    data = encode_batch([Record(0, 5, None, None), Record(1, 9, b"", b"")], max_timestamp=3, base_timestamp=0)
    forged = bytearray(data)
    forged[27:35] = numbers["base_timestamp"].to_bytes(8, "big", signed=True)
    whole = list(batches(forged))
    assert column_records(whole) == loop_records(whole)


def test_timestamp_deltas_overflow_the_same_way() -> None:
    times = [-1, (1 << 63) - 1, -(1 << 63), 0]
    records = [Record(-1, time, None, b"") for time in times]
    data = encode_batch(records)
    assert encode_columns(None, [b""] * 4, times) == data
    assert [one.timestamp for one in parse_header(data).records()] == times


def test_a_decompression_bomb_is_rejected() -> None:
    data = encode_batch([Record(-1, 0, None, bytes(1 << 20))], codec=Codec.ZSTD)
    with pytest.raises(CorruptRecords, match="more than"):
        decode_columns([parse_header(data)] * 8, max_size_bytes=100_000)
