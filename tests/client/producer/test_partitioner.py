"""Keys are partitioned as by the JVM client; records without keys change partition after a batch."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.producer.partitioner import StickyChoice, murmur2, partition_for_key, partitions_for_keys


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_equals_the_jvms(key: bytes, hashed: int) -> None:
    """The test vectors of Kafka's `UtilsTest`."""
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(keys=st.lists(st.binary(max_size=90), min_size=1, max_size=40), count=st.integers(1, 1000))
def test_both_implementations_of_murmur2_agree(keys: list[bytes], count: int) -> None:
    assert partitions_for_keys(keys, count) == [partition_for_key(key, count) for key in keys]
    assert partition_for_key(keys[0], count) == (murmur2(keys[0]) & 0x7FFFFFFF) % count


def choose(sticky: StickyChoice, available: list[int], size_bytes: int) -> int:
    if sticky.left <= 0:
        sticky.renew(available)
    sticky.left -= size_bytes
    return sticky.partition


def test_records_without_keys_change_partition_after_a_batch() -> None:
    sticky = StickyChoice(1000, Random(1))
    chosen = [choose(sticky, [0, 1, 2], 100) for _ in range(30)]
    runs = [chosen[start : start + 10] for start in range(0, 30, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in pairwise(runs))


def test_partitions_without_a_leader_are_abandoned_at_once() -> None:
    sticky = StickyChoice(1000, Random(1))
    first = choose(sticky, [0, 1], 1)
    sticky.leaders_changed([1 - first])
    assert choose(sticky, [1 - first], 1) == 1 - first
    assert choose(StickyChoice(10, Random(1)), [7], 100) == 7
