"""How lines without keys are spread over partitions."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.records.spread import PIECE_LINES_MIN, Spread


@given(st.lists(st.integers(0, 3000), max_size=20), st.integers(1, 50), st.randoms(use_true_random=False))
def test_every_line_has_a_place_and_partitions_take_turns(reads: list[int], count: int, random: Random) -> None:
    spread, partitions = Spread(random), [10 * one for one in range(count)]
    order: list[int] = []
    lines: Counter[int] = Counter()
    for read in reads:
        pieces = list(spread.pieces(read, partitions))
        assert [index for piece, _ in pieces for index in range(read)[piece]] == list(range(read))
        assert len(pieces) <= count
        assert all(len(range(read)[piece]) >= PIECE_LINES_MIN for piece, _ in pieces[:-1])
        order += [partition for _, partition in pieces]
        for piece, partition in pieces:
            lines[partition] += len(range(read)[piece])
    assert all((after - before) % (10 * count) in (10, 0) for before, after in pairwise(order))
    if len(order) >= count:
        assert set(order) == set(partitions)


def test_a_thousand_lines_fill_four_partitions_alike() -> None:
    for seed in range(50):
        pieces = Spread(Random(seed)).pieces(1000, range(4))
        assert {place: len(range(1000)[piece]) for piece, place in pieces} == dict.fromkeys(range(4), 250)


def test_lines_that_are_typed_go_round() -> None:
    spread = Spread(Random(1))
    places = [place for _ in range(8) for _, place in spread.pieces(1, range(4))]
    assert sorted(places[:4]) == [0, 1, 2, 3]
    assert places[:4] == places[4:]
