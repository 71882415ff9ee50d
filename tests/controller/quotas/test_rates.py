"""Rates and token buckets, on a clock that the test passes in."""

from __future__ import annotations

import pytest

from minikafka.controller.quotas.rates import THROTTLE_MS_MAX, Rate, Samples, TokenBucket

THREE = Samples(3, 1000)


def test_a_first_value_counts_over_all_samples_but_one() -> None:
    rate = Rate(THREE)
    rate.record(900_000, 5000)
    assert rate.measured(5000) == 450_000
    assert rate.above_for_ms(100_000, 5000) == 7000


def test_the_time_within_the_last_sample_counts() -> None:
    rate = Rate(THREE)
    rate.record(900_000, 5000)
    assert rate.window_ms(5700) == 2700
    assert rate.above_for_ms(100_000, 5700) == 9000 - 2700


def test_a_client_that_uses_more_before_its_samples_are_over_is_throttled_as_long_again() -> None:
    rate = Rate(Samples(11, 1000))
    rate.record(1_500_000, 0)
    assert [rate.above_for_ms(100_000, now_ms) for now_ms in (0, 5000, 10_999)] == [5000, 5000, 15_000 - 10_999]
    assert rate.above_for_ms(100_000, 11_000) == 0


def test_samples_that_are_over_are_forgotten() -> None:
    rate = Rate(THREE)
    rate.record(600, 0)
    rate.record(300, 1500)
    assert rate.measured(2999) == pytest.approx(900 / 2.999)
    assert rate.measured(3000) == pytest.approx(300 / 2.5)
    assert rate.measured(4500) == 0


def test_a_sample_that_overlaps_the_window_is_kept_as_a_whole() -> None:
    """One sample more than the setting says, as since Kafka 3.8 (KAFKA-15770)."""
    rate = Rate(THREE)
    for second in range(4):
        rate.record(100, 1000 * second)
    rate.record(100, 2999 + 999)
    assert rate.window_ms(3998) == 2998
    rate = Rate(THREE)
    for now_ms in (0, 999, 1000, 2000, 3000):
        rate.record(100, now_ms)
    assert rate.window_ms(3000) == 3000
    assert rate.measured(3000) == pytest.approx(500 / 3)


def test_what_is_taken_back_does_not_count() -> None:
    rate = Rate(THREE)
    rate.record(500, 0)
    rate.record(-500, 0)
    assert rate.above_for_ms(1, 0) == 0


def test_one_sample_counts_over_its_own_time() -> None:
    rate = Rate(Samples(1, 1000))
    rate.record(300, 0)
    assert rate.above_for_ms(100, 0) == 2000


def test_there_is_no_bound_but_that_of_the_response() -> None:
    rate = Rate(THREE)
    rate.record(900_000, 0)
    assert rate.above_for_ms(1, 0) == 900_000_000 - 2000
    rate.record(1e12, 0)
    assert rate.above_for_ms(1, 0) == THROTTLE_MS_MAX


def test_half_milliseconds_are_rounded_up() -> None:
    rate = Rate(THREE)
    rate.record(200_050, 0)
    assert rate.above_for_ms(100_000, 0) == 1
    rate.record(-1, 0)
    assert rate.above_for_ms(100_000, 0) == 0


def test_a_bucket_is_full_at_first_and_may_be_overdrawn() -> None:
    bucket = TokenBucket(THREE)
    assert bucket.tokens(1.0, 50_000) == 3
    bucket.take(10, 1.0, 50_000)
    assert bucket.below_for_ms(1.0, 50_000) == 7000
    assert bucket.below_for_ms(1.0, 52_500) == 4500
    assert bucket.below_for_ms(1.0, 57_000) == 0


def test_a_bucket_is_refilled_up_to_the_tokens_of_all_samples() -> None:
    bucket = TokenBucket(THREE)
    bucket.take(6, 2.0, 0)
    assert bucket.tokens(2.0, 1000) == 2
    assert bucket.tokens(2.0, 1_000_000) == 6
