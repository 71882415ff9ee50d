"""Arrow columns agree with the record loop: on all kinds of batches, and on damaged ones.

`MINIKAFKA_DAMAGED_BATCHES=100000` damages more of them.
"""

from __future__ import annotations

import os
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import record_shapes
from support.batches import encode_batch

from minikafka.client.records import ConsumerRecord, RecordBatch
from minikafka.protocol.records.batch import Batch, batches, parse_header, stamp_log_append_time
from minikafka.protocol.records.compression import TOGETHER_SIZE_BYTES, Codec, TooMuchContent
from minikafka.protocol.records.record import CorruptRecords, Record

pytest.importorskip("pyarrow")
import numpy as np

from minikafka.client.consumer import arrow_batches as arrow
from minikafka.protocol.records.batch_table import read_table
from minikafka.spark_connector.source.partition_reader import decoded

MUTATIONS = int(os.environ.get("MINIKAFKA_DAMAGED_BATCHES", "20000"))
TOGETHER = 40
EMPTY: dict[str, Any] = {"deltas": (), "last_offset_delta": 0}
HEADER_NAMES = [name for name in Batch.__slots__ if name != "data"]
SIZE_MAX = 1 << 20
Row = tuple[Any, ...]
PLACES = {"offset": 0, "key": 3, "value": 4}


def loop_rows(some: list[Batch]) -> list[Row] | None:
    """Returns (offset, timestamp, type, key, value, headers) of each record, or None for a corrupt batch."""
    try:
        return [
            (one.offset, one.timestamp, batch.timestamp_type, one.key, one.value, list(one.headers) or None)
            for batch in some
            for one in batch.records(max_size_bytes=SIZE_MAX)
        ]
    except CorruptRecords:
        return None


def arrow_rows(some: list[Batch], max_size_bytes: int = SIZE_MAX) -> list[Row] | None:
    try:
        found = arrow.decode(some, max_size_bytes=max_size_bytes)
    except CorruptRecords:
        return None
    for column in (found.keys, found.values, found.headers):
        column.validate(full=True)
    headers = [pairs and [(one["key"], one["value"]) for one in pairs] for pairs in found.headers.to_pylist()]
    return list(
        zip(
            found.offsets.tolist(), found.timestamps.tolist(), found.timestamp_types.tolist(),
            found.keys.to_pylist(), found.values.to_pylist(), headers, strict=True,
        )
    )  # fmt: skip


@pytest.mark.slow
@given(
    lots=st.lists(record_shapes.records(max_size=6), min_size=1, max_size=5),
    codec=st.sampled_from(Codec),
    stamped=st.booleans(),
)
def test_columns_agree_with_the_record_loop(lots: list[list[Record]], codec: Codec, stamped: bool) -> None:
    some, base = [], 0
    for records in lots:
        data = bytearray(encode_batch(records, codec=codec, base_offset=base))
        if stamped:
            stamp_log_append_time(data, 0, 1_700_000_000_000)
        some.append(parse_header(data))
        base = some[-1].next_offset + 3
    assert arrow_rows(some) == loop_rows(some)


@pytest.mark.slow
@given(data=st.data())
def test_compacted_offsets(data: Any) -> None:
    records = data.draw(record_shapes.records())
    deltas = data.draw(record_shapes.gaps(len(records)))
    batch = parse_header(encode_batch(records, base_offset=7, deltas=deltas, last_offset_delta=deltas[-1] + 5))
    assert arrow_rows([batch]) == loop_rows([batch])


@pytest.mark.parametrize("odd", [None, 0, 63, 150, 299])
@pytest.mark.parametrize("size", [3, 100, 9000])
def test_records_of_one_size(size: int, odd: int | None) -> None:
    values = [b"v" * (size + (number == odd)) for number in range(300)]
    some = [
        parse_header(encode_batch([Record(-1, 5 * n, b"k", value) for n, value in enumerate(values[:count])]))
        for count in (300, 2, 64, 300)
    ]
    assert arrow_rows(some) == loop_rows(some)


@pytest.mark.slow
def test_damage_among_records_of_one_size() -> None:
    random = Random("damage among alike")
    data = encode_batch([Record(-1, n, b"k", b"v" * 100) for n in range(200)])
    for _ in range(1000):
        batch = parse_header(damaged(data, random))
        assert arrow_rows([batch]) == loop_rows([batch])


def test_an_empty_batch_and_no_batch() -> None:
    empty = parse_header(encode_batch([], deltas=(), last_offset_delta=9, base_offset=5))
    assert arrow_rows([empty]) == arrow_rows([]) == []


@pytest.mark.parametrize("count", [1, 63, 65, 300])
def test_many_headers(count: int) -> None:
    headers = [(f"name-{n}", None if n % 3 else b"%d" % n) for n in range(count)]
    batch = parse_header(encode_batch([Record(-1, 1, None, b"v", headers), Record(-1, 2, b"k", None)]))
    assert arrow_rows([batch]) == loop_rows([batch])


def test_header_names_with_invalid_utf8_are_decoded_like_in_java() -> None:
    data = bytearray(encode_batch([Record(-1, 1, None, b"v", [("ab", b"x")])]))
    data[data.index(b"ab")] = 0xFF
    rows = arrow_rows([parse_header(data)])
    assert rows is not None
    assert rows == loop_rows([parse_header(data)])
    assert rows[0][5] == [("\ufffdb", b"x")]


def originals() -> list[bytes]:
    random = Random("originals of the Arrow decoder")
    lots = []
    for codec in (Codec.NONE, Codec.NONE, Codec.NONE, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD, Codec.GZIP):
        records = [
            Record(
                -1,
                1_700_000_000_000 + random.randrange(100_000),
                random.choice([None, b"", random.randbytes(random.randrange(90))]),
                random.choice([None, random.randbytes(random.randrange(200))]),
                [(f"h{n}", random.choice([None, b"x" * n])) for n in range(random.choice([0, 0, 1, 3]))],
            )
            for _ in range(random.choice([1, 3, 12]))
        ]
        lots.append(encode_batch(records, codec=codec, base_offset=random.randrange(1000)))
    return lots


def damaged(data: bytes, random: Random) -> bytes:
    """Returns a batch with a few bytes changed after its length and magic, or at its end."""
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 5])):
        place = random.randrange(61, len(changed)) if random.random() < 0.8 else random.randrange(21, 61)
        changed[place] = random.choice([0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)])
    return bytes(changed)


@pytest.mark.slow
def test_damaged_batches_are_errors_or_equal() -> None:
    """Alone, and among valid batches that are decoded together."""
    random = Random("damage to Arrow")
    known = originals()
    whole = [parse_header(random.choice(known[:3])) for _ in range(TOGETHER)]
    accepted: list[Batch] = []
    rows: list[Row] = []
    refused = 0
    for number in range(MUTATIONS):
        batch = parse_header(damaged(random.choice(known), random))
        wanted = loop_rows([batch])
        if wanted is None:
            refused += 1
            place = number % TOGETHER
            some = [*whole[:place], batch, *whole[place:]] if number % 8 == 0 else [batch]
            assert refuses(some), bytes(batch.data).hex()
            continue
        accepted.append(batch)
        rows += wanted
        if len(accepted) == TOGETHER or number == MUTATIONS - 1:
            assert arrow_rows(accepted, SIZE_MAX * TOGETHER) == rows
            accepted, rows = [], []
    assert MUTATIONS // 10 < refused < MUTATIONS


def refuses(some: list[Batch]) -> bool:
    try:
        arrow.decode(some, max_size_bytes=SIZE_MAX)
    except CorruptRecords:
        return True
    return False


@pytest.mark.slow
@given(data=st.data(), sizes=st.lists(st.integers(0, 5), min_size=20, max_size=80), codec=st.sampled_from(Codec))
def test_many_small_batches(data: Any, sizes: list[int], codec: Codec) -> None:
    records = data.draw(record_shapes.records(min_size=5, max_size=5))
    answer = b"".join(
        encode_batch(records[:size], codec=codec, base_offset=10 * number, **({} if size else EMPTY))
        for number, size in enumerate(sizes)
    )
    size_max = SIZE_MAX * len(sizes)  # Arrow's bound is for all together, the loop's for each.
    assert arrow_rows(list(batches(answer)), size_max) == loop_rows(list(batches(answer)))


def test_a_large_batch_among_small_ones() -> None:
    odd = [Record(-1, 1, None, b"v" * (number % 7 * 40)) for number in range(500)]
    alike = [Record(-1, 1, b"k", b"v" * 100)] * 500
    lots = [*([odd[:3]] * 30), odd, *([alike[:2]] * 30), alike, odd[:90], alike[:1]]
    some = [parse_header(encode_batch(records, base_offset=1000 * n)) for n, records in enumerate(lots)]
    assert arrow_rows(some) == loop_rows(some)


def test_large_decompressed_groups_are_decoded_in_halves() -> None:
    """A hundred megabytes of zeros in a few hundred bytes: valid, and never all in memory at once."""
    records = [Record(n, 0, None, bytes(1_000_000)) for n in range(10)]
    data = b"".join(encode_batch(records, base_offset=first, codec=Codec.ZSTD) for first in range(0, 100, 10))
    table = read_table(data)
    with pytest.raises(TooMuchContent):
        arrow.decode_table(table, max_size_bytes=TOGETHER_SIZE_BYTES)
    pieces = list(decoded(table, ["offset", "value"]))
    assert np.concatenate([one.offsets for one in pieces]).tolist() == list(range(100))
    assert all(len(one.offsets) <= 30 for one in pieces)


def test_a_batch_table_agrees_with_the_batches() -> None:
    answer = b"".join(original for original in originals() for _ in range(3))
    for end in (len(answer), len(answer) - 1, 70, 60, 0):
        some, table = list(batches(answer[:end])), read_table(answer[:end])
        assert len(table) == len(some)
        for row, batch in enumerate(some):
            header = [int(table.column(name)[row]) for name in HEADER_NAMES]
            assert header == [getattr(batch, name) for name in HEADER_NAMES]
            assert table.batch(row).data == batch.data
            assert int(table.last_offsets[row]) == batch.last_offset
            assert bool(table.is_compressed[row]) == bool(batch.codec)


@pytest.mark.parametrize(("place", "damage"), [(8, b"\x80"), (8, bytes(4)), (16, b"\x01")])
def test_a_batch_table_rejects_invalid_batches(place: int, damage: bytes) -> None:
    data = bytearray(originals()[0] * 2)
    place += len(data) // 2
    data[place : place + len(damage)] = damage
    with pytest.raises(CorruptRecords) as plain:
        list(batches(data))
    with pytest.raises(type(plain.value), match=re.escape(str(plain.value))):
        read_table(data)


def test_a_wrong_checksum_is_reported() -> None:
    data = bytearray(b"".join(originals()[:3]))
    data[-1] ^= 1
    with pytest.raises(CorruptRecords, match="has CRC"):
        read_table(data).check_crcs()
    data[-1] ^= 1
    read_table(data).check_crcs()


def test_selected_columns_are_unchanged() -> None:
    records = [Record(-1, n, b"k%d" % n if n % 2 else None, b"v" * n, [("h", b"")]) for n in range(50)]
    some = [parse_header(encode_batch(records))]
    whole = arrow.record_batch(arrow.decode(some), "t", 3)
    for columns in (["offset"], ["timestamp", "key"], ["value", "topic"], ["headers"], ["partition", "timestampType"]):
        fewer = arrow.record_batch(arrow.decode(some, columns), "t", 3, columns)
        assert fewer.equals(whole.select(columns))


def test_columns_that_are_not_selected_are_not_validated() -> None:
    random, known = Random("damage that nobody looks at"), originals()[:3]
    for _ in range(1000):
        batch = parse_header(damaged(random.choice(known), random))
        for columns in (["offset"], ["key"], ["value", "key"]):
            try:
                fewer = arrow.record_batch(arrow.decode([batch], columns, max_size_bytes=SIZE_MAX), "t", 0, columns)
            except CorruptRecords:
                assert refuses([batch])
                continue
            fewer.validate(full=True)
            if (rows := loop_rows([batch])) is not None:
                wanted = [[row[PLACES[name]] for row in rows] for name in columns]
                assert [fewer[name].to_pylist() for name in columns] == wanted


def test_a_timestamp_out_of_range_is_reported_with_its_position() -> None:
    decoded = arrow.decode([parse_header(encode_batch([Record(-1, 1 << 60, None, b"")], base_offset=12))])
    with pytest.raises(arrow.TimestampOverflow, match="topic t partition 3 offset 12"):
        arrow.record_batch(decoded, "t", 3)


def test_batches_of_a_consumer_become_the_same_columns() -> None:
    records = [Record(-1, 5, b"k", b"v", [("h", None)]), Record(-1, 6, None, None)]
    wanted = arrow.record_batch(arrow.decode([parse_header(encode_batch(records, base_offset=4))]), "t", 1)
    consumed = [ConsumerRecord("t", 1, 4 + n, one.timestamp, *one[2:]) for n, one in enumerate(records)]
    assert arrow.to_arrow(RecordBatch("t", 1, consumed)).equals(wanted)
