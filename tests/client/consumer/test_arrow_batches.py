"""Arrow batches have the same records, positions and errors as `batches`."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.client import Consumer, TopicPartition
from minikafka.client.blocking import Consumer as BlockingConsumer
from minikafka.client.consumer import chunk as chunk_module
from minikafka.protocol.errors import CorruptMessageError

from .test_consume import NOW, fill
from .test_fetch_state import TP, answer, ask, asked, batch, fetcher, zeros

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")
COLUMNS = ("offset", "value")


def offsets(made: Any, columns: tuple[str, ...] = COLUMNS) -> list[int] | None:
    found = made.take_arrow(columns)
    return None if found is None else found["offset"].to_pylist()


def test_records_before_the_position_are_left_out() -> None:
    made = fetcher((TP, 12))
    answer(made, ask(made), records=batch(5, 5) + batch(10, 5))
    assert offsets(made) == [12, 13, 14]
    assert (made.positions(), offsets(made), asked(ask(made))) == ({TP: 15}, None, {0: 15})


def test_records_already_taken_are_not_returned_again() -> None:
    made = fetcher((TP, 0))
    answer(made, ask(made), records=batch(0, 5))
    assert [record.offset for record in made.take(2)] == [0, 1]
    assert offsets(made) == [2, 3, 4]
    assert made.positions() == {TP: 5}


@pytest.mark.parametrize("taken", [0, 2, 150])
def test_a_chunk_too_large_to_decompress_is_split(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = fetcher((TP, 0))
    answer(made, ask(made), records=b"".join(zeros(first) for first in range(0, 600, 100)))
    assert len(made.take(taken)) == taken
    monkeypatch.setattr(chunk_module, "TOGETHER_SIZE_BYTES", 5000)
    found: list[int] = []
    while (some := offsets(made)) is not None:
        found += some
    assert found == list(range(taken, 600))


def test_chunks_without_visible_records_are_skipped() -> None:
    made = fetcher((TP, 3))
    answer(made, ask(made), records=batch(0, 2, last_offset_delta=6))
    assert (offsets(made), made.positions(), made.states[TP].buffered) == (None, {TP: 7}, 0)


def test_corruption_is_reported_with_its_offset() -> None:
    made = fetcher((TP, 0))
    answer(made, ask(made), records=batch(0, 2)[:-1] + b"x")
    with pytest.raises(CorruptMessageError, match="t-0: corrupt records at offset 0"):
        made.take_arrow(COLUMNS)
    made.skip()
    assert asked(ask(made)) == {0: 0}


@pytest.mark.anyio
async def test_a_whole_topic_as_columns(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, compression_type="zstd")
    async with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        found: list[Any] = []
        async for some in consumer.arrow_batches():
            found += some.to_pylist()
            if len(found) == 100:
                break
        assert await consumer.position(TopicPartition(topic, 0)) == 100
        assert [(row["offset"], row["value"]) for row in found] == [(n, b"%d" % n) for n in range(100)]
        assert [found[7][name] for name in ("topic", "partition", "key", "headers")] == [topic, 0, None, None]
        assert found[7]["timestamp"].timestamp() == NOW / 1000 + 7
        with pytest.raises(ValueError, match="unknown column 'vlaue'; the columns are key, value, topic"):
            await anext(consumer.arrow_batches(["vlaue"]))
    with BlockingConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as blocking:
        assert next(blocking.arrow_batches(["value"])).schema.names == ["value"]
