"""The transaction index: a read looks at the aborted transactions of its range, not at all of the segment."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.logs import memory_disk

from minikafka.storage.segments.transaction_index import AbortedTransaction, TransactionIndex


class CountingList(list[Any]):
    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)


def index_of(count: int, random: Random) -> TransactionIndex:
    index, last_stable = TransactionIndex(memory_disk(), "/data/a.txnindex"), 0
    for number in range(count):
        last_offset = 3 * number + random.randrange(3)
        first_offset = max(0, last_offset - random.randrange(1, 40))
        last_stable = max(last_stable, last_offset - random.randrange(20))
        index.append(AbortedTransaction(number, first_offset, last_offset, last_stable))
    return index


@pytest.mark.parametrize("seed", range(30))
def test_the_transactions_that_overlap_a_range_are_found(seed: int) -> None:
    random = Random(seed)
    index = index_of(random.randrange(60), random)
    for _ in range(50):
        start = random.randrange(-5, 200)
        end = start + random.randrange(40)
        found: list[AbortedTransaction] = []
        is_last = index.collect(start, end, found)
        overlapping = [one for one in index.entries if one.last_offset >= start and one.first_offset < end]
        stable = [one.last_stable_offset >= end for one in index.entries if one.last_offset >= start]
        assert is_last == any(stable)
        assert found == [one for one in overlapping if one in found], "in order"
        kept = [one for one in index.entries if one.last_offset >= start][: stable.index(True) + 1 if is_last else None]
        assert found == [one for one in kept if one.first_offset < end]


def test_a_read_does_not_look_at_the_transactions_before_and_after_it() -> None:
    index = index_of(20_000, Random(1))
    looked = CountingList(index.entries)
    index._entries = looked
    found: list[AbortedTransaction] = []
    assert index.collect(50_000, 50_030, found)
    assert 10 <= len(found) <= 40
    assert looked.looks < 100
