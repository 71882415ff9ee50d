"""maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.options.rate_limits import RateLimiter, RateLimits, prorate

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
partitions = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 30))
offsets = st.dictionaries(partitions, st.integers(0, 1 << 40), max_size=8)


def test_a_limit_is_divided_by_backlog_with_at_least_one_offset_each() -> None:
    assert prorate(100, {A0: 0, A1: 0, B0: 5}, {A0: 900, A1: 99, B0: 6}) == {A0: 90, A1: 9, B0: 6}
    assert prorate(10, {A0: 7}, {A0: 7}) == {A0: 7}


@given(offsets, st.integers(1, 1000))
def test_a_limited_end_lies_between_start_and_end(end: dict[TopicPartition, int], limit: int) -> None:
    start = {tp: offset // 2 for tp, offset in end.items()}
    limited = prorate(limit, start, end)
    assert all(start[tp] <= limited[tp] <= end[tp] for tp in end)
    assert sum(limited[tp] - start[tp] for tp in end) <= limit + len(end)
    assert limited == start or any(limited[tp] > start[tp] for tp in end)


def test_a_small_backlog_waits_for_the_trigger_delay() -> None:
    limiter = RateLimiter(RateLimits(min_offsets=5, max_delay_s=10.0))
    assert limiter.end_offsets({A0: 0}, {A0: 1}, now_s=0.0) == {A0: 1}, "no micro-batch yet: overdue"
    assert limiter.end_offsets({A0: 1}, {A0: 5}, now_s=9.0) == {A0: 1}
    assert limiter.end_offsets({A0: 1}, {A0: 5}, now_s=10.0) == {A0: 5}
    assert limiter.end_offsets({A0: 5}, {A0: 9}, now_s=11.0, ignore_minimum=True) == {A0: 9}
    assert limiter.end_offsets({A0: 5}, {A0: 10}, now_s=12.0) == {A0: 10}


def test_a_minimum_above_the_maximum_is_refused() -> None:
    RateLimits(max_offsets=8, min_offsets=8).check()
    with pytest.raises(ValueError, match="minOffsetPerTrigger\\(9\\) is higher than the maxOffsetsPerTrigger\\(8\\)"):
        RateLimits(max_offsets=8, min_offsets=9).check()
