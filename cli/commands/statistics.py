"""Computes rates, latencies and their percentiles, in the format of Kafka's producer-perf-test.

Pure: times are seconds of any clock.
"""

from __future__ import annotations

from array import array

MEGABYTE = 1 << 20


class Latencies:
    """All measured latencies, in ms."""

    def __init__(self) -> None:
        self._values = array("d")

    def add(self, latency_ms: float) -> None:
        self._values.append(latency_ms)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def average(self) -> float:
        return sum(self._values) / len(self._values) if self._values else 0.0

    @property
    def maximum(self) -> float:
        return max(self._values, default=0.0)

    def percentiles(self, *ranks: float) -> list[float]:
        """The value at each percentile rank (0 to 100): the smallest that at least this percentage does not exceed."""
        ordered = sorted(self._values)
        if not ordered:
            return [0.0 for _ in ranks]
        return [ordered[max(0, -int(-rank * len(ordered) // 100) - 1)] for rank in ranks]


def rates(count: int, size_bytes: int, elapsed_s: float) -> str:
    """The rates as text: `250000.0 records/sec (23.84 MB/sec)`."""
    elapsed_s = max(elapsed_s, 1e-9)
    return f"{count / elapsed_s:.1f} records/sec ({size_bytes / elapsed_s / MEGABYTE:.2f} MB/sec)"


def window_line(count: int, size_bytes: int, elapsed_s: float, latencies: Latencies) -> str:
    """The line for one reporting window."""
    return (
        f"{count} records sent, {rates(count, size_bytes, elapsed_s)}, "
        f"{latencies.average:.1f} ms avg latency, {latencies.maximum:.1f} ms max latency."
    )


def total(count: int, size_bytes: int, elapsed_s: float, latencies: Latencies) -> dict[str, float]:
    """The whole run, for JSON; latencies in ms."""
    p50, p95, p99, p999 = latencies.percentiles(50, 95, 99, 99.9)
    return {
        **read(count, size_bytes, elapsed_s),
        "average_ms": latencies.average,
        "max_ms": latencies.maximum,
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "p999_ms": p999,
    }


def read(count: int, size_bytes: int, elapsed_s: float) -> dict[str, float]:
    """The number of records and bytes that were sent or read, and the seconds, for JSON."""
    return {"records": count, "bytes": size_bytes, "seconds": elapsed_s}


def total_line(count: int, size_bytes: int, elapsed_s: float, latencies: Latencies) -> str:
    """The line for the whole run."""
    p50, p95, p99, p999 = latencies.percentiles(50, 95, 99, 99.9)
    return (
        f"{count} records sent, {rates(count, size_bytes, elapsed_s)}, "
        f"{latencies.average:.2f} ms avg latency, {latencies.maximum:.2f} ms max latency, "
        f"{p50:.2f} ms 50th, {p95:.2f} ms 95th, {p99:.2f} ms 99th, {p999:.2f} ms 99.9th."
    )
