"""Rates and latencies in the format of Kafka's producer-perf-test."""

import re

from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.commands.statistics import Latencies, rates, total_line, window_line

KAFKA_TOTAL = re.compile(
    r"\d+ records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency, "
    r"[\d.]+ ms 50th, [\d.]+ ms 95th, [\d.]+ ms 99th, [\d.]+ ms 99.9th\."
)


def latencies_of(*values: float) -> Latencies:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    return latencies


def test_percentiles_are_measured_values() -> None:
    hundred = latencies_of(*range(100, 0, -1))
    assert hundred.percentiles(50, 99, 99.9, 100, 0) == [50, 99, 100, 100, 1]
    assert latencies_of(7).percentiles(50, 99) == [7, 7]
    assert Latencies().percentiles(50, 99) == [0, 0]


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100))
def test_the_share_of_values_up_to_a_percentile(values: list[float], rank: float) -> None:
    [found] = latencies_of(*values).percentiles(rank)
    assert sum(value <= found for value in values) >= rank * len(values) / 100 - 1e-6
    assert found in values


def test_lines_have_kafkas_format() -> None:
    some = latencies_of(1, 2, 9)
    assert rates(250_000, 25_000_000, 1.0) == "250000.0 records/sec (23.84 MB/sec)"
    assert window_line(10, 1000, 2.0, some) == (
        "10 records sent, 5.0 records/sec (0.00 MB/sec), 4.0 ms avg latency, 9.0 ms max latency."
    )
    assert KAFKA_TOTAL.fullmatch(total_line(10, 1000, 2.0, some))
    assert KAFKA_TOTAL.fullmatch(total_line(0, 0, 0.0, Latencies()))
