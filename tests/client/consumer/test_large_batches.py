"""Batches of many records: decoded a slice at a time, with the same result as at once, and without keeping the rest."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import encode_batch
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client.consumer import chunk as chunk_module
from minikafka.client.consumer.arrow_batches import COLUMNS
from minikafka.client.consumer.chunk import Chunk
from minikafka.client.consumer.deserialization import RecordDeserializationError
from minikafka.client.consumer.fetch_state import Fetcher
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.errors import CorruptMessageError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records import large_batch
from minikafka.protocol.records.batch import Batch, batches, parse_header
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.large_batch import LargeBatch
from minikafka.protocol.records.record import CorruptRecords, Record

from .test_fetch_state import TP, answer, ask, fetcher

COUNT_MAX, SLICE = 10, 4
RECORDS = st.builds(
    Record,
    offset=st.integers(0, 3),  # the distance to the record before, less one
    timestamp=st.integers(0, 1 << 40),
    key=st.none() | st.binary(max_size=200),
    value=st.none() | st.binary(max_size=20_000),
    headers=st.just(()) | st.just((("name", b"content"),)),
)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "CHUNK_COUNT_MAX", COUNT_MAX)
    monkeypatch.setattr(chunk_module, "SLICE_COUNT_MAX", SLICE)
    monkeypatch.setattr(large_batch, "SLICE_SIZE_BYTES", 300)


def laid_out(records: list[Record], first: int) -> list[Record]:
    offset, out = first - 1, []
    for one in records:
        offset += 1 + one.offset
        out.append(one._replace(offset=offset))
    return out


def encoded(records: list[Record], codec: Codec = Codec.NONE, timestamp_type: int = 0) -> bytes:
    base = records[0].offset
    deltas = [one.offset - base for one in records]
    return encode_batch(records, codec=codec, base_offset=base, deltas=deltas, timestamp_type=timestamp_type)


def chunks(made: Fetcher) -> Iterator[Chunk]:
    while (chunk := made.readable_chunk()) is not None:
        yield chunk


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(RECORDS, min_size=1, max_size=40), min_size=1, max_size=3),
    st.sampled_from(Codec), st.integers(0, 1), st.integers(0, 60), st.integers(1, 30),
)  # fmt: skip
def test_slices_have_the_records_of_the_whole(
    some: list[list[Record]], codec: Codec, timestamp_type: int, start: int, limit: int
) -> None:
    whole: list[Record] = []
    data = b""
    for one in some:
        records = laid_out(one, whole[-1].offset + 1 if whole else 0)
        whole += records
        data += encoded(records, codec, timestamp_type)
    expected = [record for batch in batches(data) for record in batch.records() if record.offset >= start]
    made = fetcher((TP, start))
    answer(made, ask(made), records=data)
    taken: list[ConsumerRecord] = []
    for chunk in chunks(made):
        assert len(chunk.records) <= COUNT_MAX
        taken += made.take(limit)
        assert made.positions()[TP] > taken[-1].offset
    assert [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in taken] == expected
    assert made.positions() == {TP: max(start, whole[-1].offset + 1)}
    assert made.states[TP].buffered == 0
    received = sum(batch.size_bytes for batch in batches(data) if batch.last_offset >= start)
    assert made.consumed().get("t", (0, 0)) == (len(expected), received)


@pytest.mark.parametrize("codec", Codec)
def test_columns_are_cut_into_slices_as_well(codec: Codec) -> None:
    records = [Record(n, n, None, b"%d" % n) for n in range(50)]
    made = fetcher((TP, 7))
    answer(made, ask(made), records=encoded(records, codec))
    found: list[int] = []
    while (some := made.take_arrow(COLUMNS)) is not None:
        assert some.num_rows <= SLICE
        found += some.column("offset").to_pylist()
    assert found == list(range(7, 50))
    assert made.positions() == {TP: 50}


def test_batches_are_portions_of_so_many_records() -> None:
    data = b"".join(encoded([Record(first + n, 0, None, b"") for n in range(4)]) for first in range(0, 40, 4))
    assert [len(one) for one in chunk_module.portions(list(batches(data)))] == [2] * 5


def test_records_before_a_damaged_slice_are_returned() -> None:
    data = bytearray(encoded([Record(n, 0, None, b"value") for n in range(20)]))
    data[-1] ^= 1  # The last record claims a header.
    made = fetcher((TP, 0), check_crcs=False)
    answer(made, ask(made), records=bytes(data))
    taken: list[int] = []
    while len(taken) < 16:
        taken += [one.offset for one in made.take(3)]
    assert taken == list(range(16))
    with pytest.raises(CorruptMessageError, match=r"at offset 16: .*; seek to 20 ") as raised:
        made.take(3)
    assert made.positions() == {TP: 16}
    assert raised.value.__cause__ is raised.value.__context__ is None


def damaged(change: dict[str, Any]) -> Batch:
    batch = parse_header(encoded([Record(n, 0, None, b"value") for n in range(20)], Codec.ZSTD))
    for name, value in change.items():
        setattr(batch, name, value)
    return batch


def cut_up(batch: Batch) -> None:
    rest = LargeBatch(batch, 1 << 20, SLICE)
    while rest.has_records:
        rest.cut()


@pytest.mark.parametrize("change", [
    {"record_count": -1}, {"record_count": 19}, {"record_count": 21}, {"record_count": 1 << 30},
    {"last_offset_delta": 18}, {"attributes": 7}, {"attributes": Codec.GZIP}, {"attributes": Codec.NONE},
], ids=str)  # fmt: skip
def test_what_is_wrong_with_the_whole_is_noticed(change: dict[str, Any]) -> None:
    with pytest.raises(CorruptRecords):
        cut_up(damaged(change))


def test_offsets_increase_from_slice_to_slice() -> None:
    records = [Record(0, 0, None, b"value") for _ in range(8)]
    deltas = [0, 1, 2, 3, 3, 4, 5, 6]
    rest = LargeBatch(parse_header(encode_batch(records, deltas=deltas)), 1 << 20, SLICE)
    assert rest.cut().record_count == SLICE
    with pytest.raises(CorruptRecords, match="not increasing"):
        rest.cut()


def locals_of(traceback: TracebackType | None) -> Iterator[Any]:
    while traceback is not None:
        yield from traceback.tb_frame.f_locals.values()
        traceback = traceback.tb_next


def unreadable(value: bytes) -> Any:
    raise ValueError(value)


def test_an_error_that_the_application_keeps_does_not_keep_the_records() -> None:
    cluster = ScriptedCluster(a=1)
    cluster.append(TopicPartition("a", 0), 3)

    async def scenario() -> None:
        async with cluster.consumer(auto_offset_reset="earliest", value_deserializer=unreadable) as consumer:
            consumer.assign([("a", 0)])
            with pytest.raises(RecordDeserializationError) as raised:
                await consumer.poll(1_000)
            kept = [one for one in locals_of(raised.value.__traceback__) if isinstance(one, Chunk | Batch)]
            assert kept == []

    on_virtual_time(scenario)
