"""Metrics of clients, with the names and groups of the JVM client (KIP-42's registry, `MetricName`).

Hot paths only add to totals, for each request, batch or chunk of records. `metrics()` computes the rest: rates and
averages cover the time since the latest call of `metrics()` that is at least 30 s ago, or since the client was opened.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import anyio

WINDOW_S = 30.0
_SAMPLE_INTERVAL_S = 1.0


class MetricName(NamedTuple):
    """A metric's name, such as record-send-total, its group, such as producer-metrics, and its tags by name."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()


class Distribution:
    """Statistics of values such as durations in ms: sum and number since the client was opened, maximum of the window.

    Attributes:
        last_s: when the last value was added, on the event loop's clock; None before the first one.
    """

    __slots__ = ("_greatest", "count", "last_s", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0
        self.last_s: float | None = None
        self._greatest: deque[tuple[float, float]] = deque()

    def add(self, value: float) -> None:
        """Add a value with the current time."""
        now = anyio.current_time()
        self.total += value
        self.count += 1
        self.last_s = now
        greatest = self._greatest
        if greatest and now - greatest[-1][0] < _SAMPLE_INTERVAL_S:
            if value > greatest[-1][1]:
                greatest[-1] = (greatest[-1][0], value)
        else:
            greatest.append((now, value))
            self._forget(now)

    def greatest(self) -> float:
        """The greatest value of the window; NaN if there is none, as in Kafka."""
        self._forget(anyio.current_time())
        return max((value for _, value in self._greatest), default=float("nan"))

    def seconds_ago(self) -> float:
        """The time since the last value was added; -1 if none was, as in Kafka."""
        return -1.0 if self.last_s is None else anyio.current_time() - self.last_s

    def _forget(self, now: float) -> None:
        while self._greatest and self._greatest[0][0] < now - WINDOW_S:
            self._greatest.popleft()


class Readings:
    """The gauges and totals of a client at one moment, from which its metrics are computed.

    Attributes:
        kind: the first part of the group's name: producer, consumer or admin-client.
        values: gauges and totals, which are metrics themselves.
        totals: the total from which each rate is computed.
        ratios: the two totals of which each average is the quotient.
    """

    def __init__(self, kind: str, client_id: str) -> None:
        self.kind = kind
        self.values: dict[MetricName, float] = {}
        self.totals: dict[MetricName, float] = {}
        self.ratios: dict[MetricName, tuple[float, float]] = {}
        self._client = ("client-id", client_id)

    def gauge(self, name: str, value: float, group: str = "metrics", **tags: object) -> None:
        """Add a current value, the metric `name`."""
        self.values[self._name(name, group, tags)] = value

    def total(self, name: str, value: float, group: str = "metrics", **tags: object) -> None:
        """Add a count, which becomes the metrics `name`-total and `name`-rate, per second."""
        self.values[self._name(f"{name}-total", group, tags)] = value
        self.totals[self._name(f"{name}-rate", group, tags)] = value

    def average(self, name: str, amount: float, count: float, group: str = "metrics", **tags: object) -> None:
        """Add the metric `name`-avg: the quotient of two totals, such as bytes and requests."""
        self.ratios[self._name(f"{name}-avg", group, tags)] = (amount, count)

    def distribution(self, name: str, values: Distribution, group: str = "metrics") -> None:
        """Add the metrics `name`-avg and `name`-max."""
        self.average(name, values.total, values.count, group)
        self.gauge(f"{name}-max", values.greatest(), group)

    def _name(self, name: str, group: str, tags: dict[str, object]) -> MetricName:
        pairs = [self._client, *((key, str(value)) for key, value in tags.items())]
        return MetricName(name, f"{self.kind}-{group}", tuple(sorted(pairs)))


class _Sample(NamedTuple):
    time_s: float
    totals: dict[MetricName, float]
    ratios: dict[MetricName, tuple[float, float]]


class Window:
    """The totals of earlier readings, at most one reading for each second of the window. Times may be on any clock."""

    def __init__(self, started_s: float) -> None:
        self._samples = deque([_Sample(started_s, {}, {})])

    def finish(self, readings: Readings, now: float) -> dict[MetricName, float]:
        """All metrics: the values of the readings, rates and averages. An average of no values is NaN, as in Kafka."""
        samples = self._samples
        while len(samples) > 1 and samples[1].time_s <= now - WINDOW_S:
            samples.popleft()
        before = samples[0]
        elapsed_s = now - before.time_s
        found = dict(readings.values)
        for name, total in readings.totals.items():
            found[name] = (total - before.totals.get(name, 0)) / elapsed_s if elapsed_s > 0 else 0.0
        for name, (amount, count) in readings.ratios.items():
            amount_before, count_before = before.ratios.get(name, (0, 0))
            grown = count - count_before
            found[name] = (amount - amount_before) / grown if grown else float("nan")
        if now - samples[-1].time_s >= _SAMPLE_INTERVAL_S:
            samples.append(_Sample(now, readings.totals, readings.ratios))
        return found
