"""The scan with numpy has the result of the broker's loop, or none: random records, and random damage to them."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.broker.partitions.record_scan import ScanResult, scan
from minikafka.protocol.errors import InvalidRecordError
from minikafka.protocol.records.numpy_scan import scan_usual
from minikafka.protocol.records.record import Record, encode_records

REPEATED_BYTES_MAX = 1 << 20
"""Long values need no more: they are told from short ones by their lengths."""
BLOBS = st.none() | st.binary(max_size=5) | st.integers(60, 20_000).map(bytes)
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 2**40),
        key=BLOBS,
        value=BLOBS,
        headers=st.just(()) | st.just((("h", b"1"),)),
    ),
    min_size=1,
    max_size=100,
)


def payload_of(records: list[Record]) -> bytes:
    return encode_records(records, range(len(records)), records[0].timestamp)


def looped(payload: bytes, count: int) -> ScanResult | None:
    """What the loop finds; None for invalid records."""
    steps = scan(payload, count, 2**63)
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: ScanResult = done.value
        return result
    except InvalidRecordError:
        return None


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(records=RECORDS, repeated=st.sampled_from([1, 30, 600]))
def test_records_without_headers_are_scanned_as_by_the_loop(records: list[Record], repeated: int) -> None:
    records = records * max(1, min(repeated, REPEATED_BYTES_MAX // len(payload_of(records))))
    payload = payload_of(records)
    expected = None if any(record.headers for record in records) else looped(payload, len(records))
    assert scan_usual(payload, len(records)) == expected


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(
    records=RECORDS,
    change=st.integers(-2, 2),
    damage=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
    cut=st.sampled_from([0, 0, 1, 7]),
    repeated=st.sampled_from([1, 1, 30]),
)
def test_damaged_records_are_never_taken_for_others(
    records: list[Record], change: int, damage: list[tuple[int, int]], cut: int, repeated: int
) -> None:
    records = records * max(1, min(repeated, REPEATED_BYTES_MAX // len(payload_of(records))))
    payload = bytearray(payload_of(records))
    for position, byte in damage:
        payload[position % len(payload)] = byte
    data, count = bytes(payload[: len(payload) - cut]), len(records) + change
    found = scan_usual(data, count)
    assert found is None or found == looped(data, count)


@pytest.mark.parametrize(("payload", "count"), [(b"", 1), (b"", 0), (bytes(7), -1), (bytes(70), 2**31 - 1)])
def test_impossible_counts_allocate_nothing(payload: bytes, count: int) -> None:
    assert scan_usual(payload, count) is None


@pytest.mark.parametrize("length", [b"\x80\x7d", b"\xfe\x7f", b"\x7e"])
def test_a_first_record_that_claims_more_than_there_is_is_left_to_the_loop(length: bytes) -> None:
    payload = length + bytes(5_000)
    assert scan_usual(payload, 600) is None
    assert scan_usual(payload[:4_200], 600) is None


def test_a_count_of_headers_without_headers_is_malformed() -> None:
    records = [Record(0, 1_700_000_000_000, b"key", b"value", ())] * 3
    payload = bytearray(payload_of(records))
    payload[-1] = 2
    assert looped(bytes(payload), 3) is None
    assert scan_usual(bytes(payload), 3) is None


@pytest.mark.parametrize("count", [600, 8192, 8193, 20_000])
@pytest.mark.parametrize("values", ["of one size", "of many sizes"])
def test_each_byte_of_an_offset_delta_counts(count: int, values: str) -> None:
    sizes = range(count) if values == "of many sizes" else [7] * count
    records = [Record(0, 1_700_000_000_000, None, bytes([1]) * (size % 90), ()) for size in sizes]
    payload = bytearray(payload_of(records))
    assert scan_usual(bytes(payload), count) == (0, count)
    starts = [0, *accumulate(len(encode_records([one], [number], one.timestamp)) for number, one in enumerate(records))]
    for number in (0, 1, 63, 64, 65, 500, count - 1):
        delta = starts[number] + (1 if payload[starts[number]] < 0x80 else 2) + 2
        for place in (delta, delta + 1)[: 1 if number < 64 else 2]:
            payload[place] ^= 2
            assert scan_usual(bytes(payload), count) is None
            payload[place] ^= 2


def test_offset_deltas_with_a_gap_are_left_to_the_loop() -> None:
    payload = bytearray(payload_of([Record(0, 1_700_000_000_000, b"key", b"value", ())] * 3))
    last = 2 * len(payload) // 3
    assert payload[last + 3] == 4  # 2 as a varint, after the length, the attributes and the timestamp delta
    payload[last + 3] = 6
    assert looped(bytes(payload), 3) is None
    assert scan_usual(bytes(payload), 3) is None
