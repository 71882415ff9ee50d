"""Metrics of a node's process: those of `prometheus_client` (CPU, memory, descriptors, garbage), and of its loop."""

from collections.abc import Iterator
from typing import Literal, Protocol

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import Metric

from minikafka.broker.metrics.family import Collector, Family, gauge, total

__all__ = ["Loop", "loop_metrics", "process_metrics"]

KINDS: dict[str, Literal["counter", "gauge"]] = {"counter": "counter", "gauge": "gauge"}


class Loop(Protocol):
    """What is known of the steps of the event loop.

    Attributes:
        longest: The longest step above the budget, in CPU seconds.
        steps: How many were above the budget.
        collections_s: How long collections of garbage took in all.
    """

    longest: float
    steps: int
    collections_s: float


def loop_metrics(loop: Loop) -> Collector:
    """The steps of the event loop, during which all clients wait."""

    def collect() -> Iterator[Family | None]:
        yield gauge(
            "minikafka_eventloop_longest_step_seconds",
            "The longest step of the event loop since the start; 0 while all took at most 20 ms.",
            loop.longest,
        )
        yield total("minikafka_eventloop_long_steps", "Steps of the event loop of more than 20 ms.", loop.steps)
        yield total("minikafka_gc_seconds", "The time that collections of garbage took.", loop.collections_s)

    return collect


def process_metrics() -> Collector:
    """CPU, memory, descriptors and garbage collections of this process; the version of Python."""
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)

    def collect() -> Iterator[Family | None]:
        for metric in registry.collect():
            yield _family(metric)

    return collect


def _family(metric: Metric) -> Family:
    labels = tuple(metric.samples[0].labels) if metric.samples else ()
    samples = [(tuple(sample.labels[name] for name in labels), sample.value) for sample in metric.samples]
    return Family(metric.name, KINDS[metric.type], metric.documentation, samples, labels)
