"""Arrow columns are encoded to the bytes of the plain encoder; partitions of keys are those of `partition_for_key`."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from support import record_shapes  # noqa: E402
from support.batches import encode_batch, header_of  # noqa: E402

from minikafka.client.consumer.arrow_batches import HEADER  # noqa: E402
from minikafka.client.producer.arrow_encoding import (  # noqa: E402
    BLOB,
    RECORD_OVERHEAD_MAX,
    ArrowRecords,
    NullHeaderKey,
    blob_sizes,
    encode,
    header_sizes,
)
from minikafka.client.producer.partitioner import partition_for_key, partitions_for_slices  # noqa: E402
from minikafka.protocol.records.compression import Codec  # noqa: E402
from minikafka.protocol.records.record import Record  # noqa: E402


def columns(records: list[Record], *, padding: int = 0) -> ArrowRecords:
    """The records as columns, which are slices of longer ones if there is padding."""
    _, timestamps, keys, values, headers = zip(*records, strict=True)
    lists = [[{"key": name, "value": value} for name, value in some] or None for some in headers]
    filler = [[{"key": "filler", "value": b"x"}]] * padding
    return ArrowRecords(
        pa.array([b"fill"] * padding + list(keys), BLOB)[padding:],
        pa.array([b"fill"] * padding + list(values), BLOB)[padding:],
        np.array(timestamps, np.int64),
        pa.array(filler + lists, pa.list_(HEADER))[padding:],
    )


@pytest.mark.slow
@given(
    groups=st.lists(record_shapes.records(), min_size=1, max_size=4),
    codec=st.sampled_from(Codec),
    sequence=st.integers(-1, 1 << 30),
    padding=st.integers(0, 2),
)
def test_encoding_agrees(groups: list[list[Record]], codec: Codec, sequence: int, padding: int) -> None:
    flat = columns([record for group in groups for record in group], padding=padding)
    firsts = np.cumsum([0, *map(len, groups[:-1])])
    payload = encode(flat, firsts)
    for index, group in enumerate(groups):
        numbers = {"codec": codec, "producer_id": 9, "producer_epoch": 3, "base_sequence": sequence}
        made = payload.batch(index, header_of(transactional=True, **numbers))
        assert made == encode_batch(group, transactional=True, **numbers)
        assert payload.count(index) == len(group)


@pytest.mark.slow
@given(records=record_shapes.records())
def test_the_size_of_a_record_is_never_underestimated(records: list[Record]) -> None:
    flat = columns(records)
    assert flat.keys is not None
    bounds = encode(flat, np.array([0])).bounds
    fields = [np.maximum(blob_sizes(one), 0) for one in (flat.keys, flat.values)]
    assert (np.diff(bounds) <= sum(fields) + header_sizes(flat.headers) + RECORD_OVERHEAD_MAX).all()


def test_encoding_without_keys_and_headers_agrees() -> None:
    values = [b"%d" % n * (n % 7) for n in range(500)]
    flat = ArrowRecords(None, pa.array(values, BLOB), np.arange(1000, 1500), None)
    wanted = encode_batch([Record(-1, 1000 + n, None, value) for n, value in enumerate(values)])
    assert encode(flat, np.array([0])).batch(0) == wanted


def test_a_header_without_a_key_is_refused() -> None:
    """The record is named: it is not counted in headers, nor from the start of a column that this is a part of."""
    known, unknown = {"key": "a", "value": b"x"}, {"key": None, "value": b"x"}
    headers = pa.array([[unknown], [known, known], None, [], [known, unknown], [unknown]], pa.list_(HEADER))
    values = pa.array([b"v"] * 5, BLOB)
    with pytest.raises(NullHeaderKey) as caught:
        encode(ArrowRecords(None, values, np.zeros(5, np.int64), headers[1:]), np.array([0]))
    assert caught.value.record == 3


@given(keys=st.lists(st.binary(max_size=40), min_size=1, max_size=50), count=st.integers(1, 1000))
def test_partitions_of_slices_are_those_of_the_keys(keys: list[bytes], count: int) -> None:
    sizes = np.array([len(key) for key in keys], np.int64)
    buffer = np.frombuffer(b"".join(keys), np.uint8)
    found = partitions_for_slices(buffer, np.cumsum(sizes) - sizes, sizes, count)
    assert found.tolist() == [partition_for_key(key, count) for key in keys]


@given(
    size=st.integers(0, 9),
    wanted=st.lists(st.integers(0, 30), unique=True).map(sorted),
    before=st.integers(0, 5),
    count=st.integers(1, 1000),
)
def test_partitions_of_slices_of_one_size_with_gaps(size: int, wanted: list[int], before: int, count: int) -> None:
    buffer = np.frombuffer(np.random.default_rng(size).bytes(before + 31 * size), np.uint8)
    starts = before + size * np.array(wanted, np.int64)
    found = partitions_for_slices(buffer, starts, np.full(len(wanted), size, np.int64), count)
    keys = [buffer[start : start + size].tobytes() for start in starts.tolist()]
    assert found.tolist() == [partition_for_key(key, count) for key in keys]
