"""Searches by timestamp: batches that are long to decode are left to a thread, one at a time; the log may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import crc32c
import pytest
from support.batches import encode_batch
from support.logs import append_bytes, make_batch, memory_disk, open_log

from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.record import Record
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import UNOWNED, LogOwner
from minikafka.storage.segments import timestamp_search
from minikafka.storage.steps import at_once

START_MS = 1_700_000_000_000
COUNT = 1_000
Search = Callable[[Log], Any]
SEARCHES: dict[str, Search] = {
    "the last timestamp": lambda log: log.offset_for_timestamp(START_MS + COUNT - 1),
    "the largest timestamp": Log.offset_of_max_timestamp,
}


def long_batch(first_ms: int = START_MS, codec: Codec = Codec.GZIP) -> bytearray:
    records = [Record(number, first_ms + number, None, b"v", ()) for number in range(COUNT)]
    return bytearray(encode_batch(records, codec=codec))


def a_log(*data: bytearray, owner: LogOwner = UNOWNED) -> Log:
    log = open_log(memory_disk(), owner=owner, config=LogConfig(segment_bytes=20_000))
    for one in data:
        append_bytes(log, one)
    return log


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_long_batch_is_searched_where_the_caller_says(search: Search, codec: Codec) -> None:
    searching = search(a_log(long_batch(codec=codec), make_batch([b"a"], timestamp=START_MS)))
    call = next(searching)
    with pytest.raises(StopIteration) as done:
        searching.send(call())
    assert done.value.value == (START_MS + COUNT - 1, COUNT - 1, 0)


def test_a_batch_of_few_bytes_and_records_is_searched_at_once() -> None:
    log = a_log(make_batch([b"a", b"b", b"c"], timestamp=START_MS))
    with pytest.raises(StopIteration) as done:
        next(log.offset_for_timestamp(START_MS + 1))
    assert done.value.value == (START_MS + 1, 1, 0)


def test_one_batch_is_decoded_though_others_have_later_records_too() -> None:
    log = a_log(*[long_batch(START_MS + 10_000 * number) for number in range(5)])
    searching = log.offset_for_timestamp(START_MS + 20_500)
    call = next(searching)
    with pytest.raises(StopIteration) as done:
        searching.send(call())
    assert done.value.value == (START_MS + 20_500, 2 * COUNT + 500, 0)


def pauses_of(searching: Any) -> tuple[int, Any]:
    """How often a search lets other tasks run, and its result. All of its batches are searched at once."""
    pauses = 0
    while True:
        try:
            assert next(searching) is None
        except StopIteration as done:
            return pauses, done.value
        pauses += 1


def test_headers_that_promise_a_timestamp_which_no_record_has_take_pauses() -> None:
    data = make_batch([b"a"] * 90, timestamp=START_MS)
    data[35:43] = (START_MS + 5_000).to_bytes(8, "big")
    data[17:21] = crc32c.crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    log = a_log(*[bytearray(data) for _ in range(200)])
    assert pauses_of(log.offset_for_timestamp(START_MS + 1_000)) == (10, None)


def test_many_headers_take_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record with the latest timestamp lies before the log start, so no later batch has its timestamp."""
    monkeypatch.setattr(timestamp_search, "HEADERS_AT_ONCE", 20)
    log = open_log(memory_disk(), config=LogConfig(segment_bytes=1 << 20, index_interval_bytes=0))
    append_bytes(log, make_batch([b"a"], timestamp=START_MS + 5_000))
    for _ in range(100):
        append_bytes(log, make_batch([b"a"], timestamp=START_MS))
    log.advance_start_offset(1)
    assert pauses_of(log.offset_for_timestamp(START_MS + 1)) == (4, None)
    append_bytes(log, make_batch([b"a"], timestamp=START_MS + 1))
    assert pauses_of(log.offset_for_timestamp(START_MS + 1)) == (5, (START_MS + 1, 101, 0))


def test_the_offset_index_has_an_entry_for_each_mebibyte_at_least() -> None:
    assert LogConfig.from_settings({"index.interval.bytes": 2**31 - 1}).index_interval_bytes == 1 << 20
    assert LogConfig.from_settings({"index.interval.bytes": 100}).index_interval_bytes == 100


def test_records_before_the_log_start_are_passed_over() -> None:
    log = a_log(long_batch(START_MS + 10), long_batch(START_MS + 5))
    log.advance_start_offset(COUNT - 2)
    assert at_once(log.offset_for_timestamp(START_MS + 20)) == (START_MS + 10 + COUNT - 2, COUNT - 2, 0)
    log.advance_start_offset(COUNT)
    assert at_once(log.offset_for_timestamp(START_MS + 20)) == (START_MS + 20, COUNT + 15, 0)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_corrupt_batch_fails_the_search_only(search: Search) -> None:
    batch = long_batch()
    batch[80:90] = bytes(10)
    damage: list[Exception] = []
    log = a_log(batch, owner=LogOwner(on_damage=damage.append))
    with pytest.raises(KafkaError) as refused:
        at_once(search(log))
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert (len(damage), log.failure) == (1, None)


def test_a_log_that_is_closed_meanwhile_fails_the_search_and_nothing_else() -> None:
    """Its files are closed, too: to read them would look like a disk that fails."""
    log = a_log(long_batch(), long_batch(START_MS + 1))
    log.advance_start_offset(COUNT - 1)
    searching = log.offset_for_timestamp(START_MS + 10)
    next(searching)
    log.close(clean=False)
    with pytest.raises(KafkaError, match="is closed"):
        searching.send(None)
    assert log.failure is None
