"""The JSON form of offsets, the division of ranges into input partitions, lag."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.options.offsets import from_json, parse_assignment, parse_offsets, to_json
from minikafka.spark_connector.progress import Lag, lag
from minikafka.spark_connector.source.range_planner import Range, plan

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
partitions = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 30))
offsets = st.dictionaries(partitions, st.integers(0, 1 << 40), max_size=8)


@given(offsets)
def test_json_round_trip(some: dict[TopicPartition, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(some)))) == (some, {})


def test_json_is_sorted_and_identical_to_sparks() -> None:
    assert json.dumps(to_json({B0: 4, A1: 2, A0: 1})) == '{"a": {"0": 1, "1": 2}, "b": {"0": 4}}'


def test_topic_ids_are_topics_without_partitions() -> None:
    topic_id = bytes(range(16))
    found = to_json({A0: 1}, {"a": topic_id})
    assert list(found) == ["a", "a@id=AAECAwQFBgcICQoLDA0ODw"]
    assert from_json(found) == ({A0: 1}, {"a": topic_id})


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":3}', '{"a":{"x":1}}', '{"a":{"0":"1"}}', '{"a":{"0":1.5}}'])
def test_malformed_offsets_raise_sparks_error_message(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expected e\.g\. "):
        parse_offsets(text)


OTHER_FORMS: list[Any] = [
    None, 5, "a", [1], {"a": [1]}, {"a": 5}, {"a": None}, {"a": "0"}, {"a": {"x": 1}}, {"a": {"": 1}},
    {"a": {"0": None}}, {"a": {"0": "5"}}, {"a": {"0": 5.5}}, {"a": {"0": True}}, {"a": {"0": {}}}, {"a@id=b": {}},
]  # fmt: skip


@pytest.mark.parametrize("found", OTHER_FORMS)
def test_a_checkpoint_of_another_form_raises_sparks_error_message(found: Any) -> None:
    with pytest.raises(ValueError, match=r"^Expected e\.g\. .*, got " + re.escape(json.dumps(found)) + "$"):
        from_json(found)


def test_assignments_are_parsed() -> None:
    assert parse_assignment('{"a":[0,1],"b":[0]}') == (A0, A1, B0)
    with pytest.raises(ValueError, match=r"Expected e.g. .*got \{\"a\":1\}"):
        parse_assignment('{"a":1}')


@given(st.lists(st.integers(0, 5000), max_size=6), st.integers(1, 40), st.one_of(st.none(), st.integers(1, 900)))
def test_pieces_cover_their_range_without_overlap(sizes: list[int], at_least: int, size_max: int | None) -> None:
    ranges = [Range("t", number, 10, 10 + size) for number, size in enumerate(sizes)]
    pieces = plan(ranges, at_least=at_least, size_max=size_max)
    assert all(piece.size > 0 for piece in pieces)
    assert size_max is None or all(piece.size <= size_max for piece in pieces)
    for one in ranges:
        mine = [(piece.start, piece.end) for piece in pieces if piece.partition == one.partition]
        assert [offset for start, end in mine for offset in range(start, end)] == list(range(one.start, one.end))


def test_min_partitions_splits_long_ranges_into_more_pieces() -> None:
    pieces = plan([Range("t", 0, 0, 1000), Range("t", 1, 0, 10), Range("t", 2, 5, 5)], at_least=5)
    assert [piece.size for piece in pieces if piece.partition == 0] == [250] * 4
    assert [piece.size for piece in pieces if piece.partition == 1] == [10]
    assert {piece.partition for piece in pieces} == {0, 1}


def test_lag_is_computed_from_progress() -> None:
    source = {"endOffset": '{"a": {"0": 5, "1": 10}}', "latestOffset": {"a": {"0": 9, "1": 10}}}
    assert lag({"sources": [source]}) == Lag(0, 4, 2.0, 4)
    assert lag(None) is None
    assert lag({"sources": [{"endOffset": None, "latestOffset": None}]}) is None
