"""Offsets as JSON, rate limits, and how ranges are cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.offsets import from_json, parse_assignment, parse_offsets, prorate, to_json
from minikafka.spark_connector.progress import Lag, lag
from minikafka.spark_connector.range_planner import Range, plan

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
partitions = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 30))
offsets = st.dictionaries(partitions, st.integers(0, 1 << 40), max_size=8)


@given(offsets)
def test_json_there_and_back(some: dict[TopicPartition, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(some)))) == (some, {})


def test_json_is_that_of_sparks_source_in_order() -> None:
    assert json.dumps(to_json({B0: 4, A1: 2, A0: 1})) == '{"a": {"0": 1, "1": 2}, "b": {"0": 4}}'


def test_topic_ids_are_topics_without_partitions() -> None:
    topic_id = bytes(range(16))
    found = to_json({A0: 1}, {"a": topic_id})
    assert list(found) == ["a", "a@id=AAECAwQFBgcICQoLDA0ODw"]
    assert from_json(found) == ({A0: 1}, {"a": topic_id})


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":3}', '{"a":{"x":1}}', '{"a":{"0":"1"}}', '{"a":{"0":1.5}}'])
def test_bad_offsets_are_refused_in_sparks_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expected e\.g\. "):
        parse_offsets(text)


def test_assignments() -> None:
    assert parse_assignment('{"a":[0,1],"b":[0]}') == (A0, A1, B0)
    with pytest.raises(ValueError, match=r"Expected e.g. .*got \{\"a\":1\}"):
        parse_assignment('{"a":1}')


def test_a_limit_is_shared_by_backlog_and_starves_nobody() -> None:
    assert prorate(100, {A0: 0, A1: 0, B0: 5}, {A0: 900, A1: 99, B0: 6}) == {A0: 90, A1: 9, B0: 6}
    assert prorate(10, {A0: 7}, {A0: 7}) == {A0: 7}


@given(offsets, st.integers(1, 1000))
def test_a_limit_never_goes_back_nor_past_the_end(end: dict[TopicPartition, int], limit: int) -> None:
    start = {tp: offset // 2 for tp, offset in end.items()}
    limited = prorate(limit, start, end)
    assert all(start[tp] <= limited[tp] <= end[tp] for tp in end)
    assert sum(limited[tp] - start[tp] for tp in end) <= limit + len(end)
    assert limited == start or any(limited[tp] > start[tp] for tp in end)


@given(st.lists(st.integers(0, 5000), max_size=6), st.integers(1, 40), st.one_of(st.none(), st.integers(1, 900)))
def test_pieces_cover_their_range_without_overlap(sizes: list[int], at_least: int, size_max: int | None) -> None:
    ranges = [Range("t", number, 10, 10 + size) for number, size in enumerate(sizes)]
    pieces = plan(ranges, at_least=at_least, size_max=size_max)
    assert all(piece.size > 0 for piece in pieces)
    assert size_max is None or all(piece.size <= size_max for piece in pieces)
    for one in ranges:
        mine = [(piece.start, piece.end) for piece in pieces if piece.partition == one.partition]
        assert [offset for start, end in mine for offset in range(start, end)] == list(range(one.start, one.end))


def test_long_ranges_are_cut_into_more_pieces_than_short_ones() -> None:
    pieces = plan([Range("t", 0, 0, 1000), Range("t", 1, 0, 10), Range("t", 2, 5, 5)], at_least=5)
    assert [piece.size for piece in pieces if piece.partition == 0] == [250] * 4
    assert [piece.size for piece in pieces if piece.partition == 1] == [10]
    assert {piece.partition for piece in pieces} == {0, 1}


def test_lag_of_a_progress() -> None:
    source = {"endOffset": '{"a": {"0": 5, "1": 10}}', "latestOffset": {"a": {"0": 9, "1": 10}}}
    assert lag({"sources": [source]}) == Lag(0, 4, 2.0, 4)
    assert lag(None) is None
    assert lag({"sources": [{"endOffset": None, "latestOffset": None}]}) is None
