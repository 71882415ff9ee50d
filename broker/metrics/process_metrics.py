"""Collects the metrics of a node's process (CPU, memory, descriptors, garbage collections) and of its event loop."""

from collections.abc import Callable, Iterator
from typing import Literal, Protocol

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import Metric

from minikafka.broker.connections.request_times import STEADY
from minikafka.broker.metrics.family import Collector, Family, gauge, total
from minikafka.controller.failures import FAILURES

__all__ = ["Loop", "failure_metrics", "loop_metrics", "process_metrics"]

KINDS: dict[str, Literal["counter", "gauge"]] = {"counter": "counter", "gauge": "gauge"}


class Loop(Protocol):
    """Measurements of the event loop.

    Attributes:
        longest: The longest step above the budget, in CPU seconds.
        steps: How many steps were above the budget.
        collections_s: How long garbage collections took in all, in seconds.
        idle_s: How long the loop has waited in all, in seconds.
    """

    longest: float
    steps: int
    collections_s: float
    idle_s: float


def loop_metrics(loop: Loop, clock: Callable[[], float] = STEADY) -> Collector:
    """Make the collector of the event loop's metrics: its steps, during which all clients wait, and its idle time.

    Kafka has two kinds of threads, each with an idle share; here both metrics have the idle share of the event loop.
    """
    scraped_s, idle_s = clock(), loop.idle_s

    def collect() -> Iterator[Family | None]:
        nonlocal scraped_s, idle_s
        now, idle = clock(), loop.idle_s
        share = min(1.0, (idle - idle_s) / (now - scraped_s)) if now > scraped_s else 1.0
        scraped_s, idle_s = now, idle
        for name in ("socketserver_networkprocessoravgidle", "kafkarequesthandlerpool_requesthandleravgidle"):
            group = "network" if name.startswith("socket") else "server"
            documentation = "The share of the time since the last scrape in which the event loop had nothing to do."
            yield gauge(f"kafka_{group}_{name}_percent", documentation, share)
        yield gauge(
            "minikafka_eventloop_longest_step_seconds",
            "The longest step of the event loop since the start; 0 while all took at most 20 ms.",
            loop.longest,
        )
        yield total("minikafka_eventloop_long_steps", "Steps of the event loop of more than 20 ms.", loop.steps)
        yield total("minikafka_gc_seconds", "The time that collections of garbage took.", loop.collections_s)

    return collect


def failure_metrics() -> Collector:
    """Make the collector of the bugs of minikafka that were met; see `controller/failures.py`."""

    def collect() -> Iterator[Family | None]:
        samples = [((what,), float(count)) for what, count in sorted(FAILURES.items())]
        documentation = "Requests and other work that met a bug of minikafka: the log has its trace."
        yield Family("minikafka_failures", "counter", documentation, samples, ("what",))
        yield gauge(
            "kafka_server_broker_metadata_metrics_metadata_apply_error_count",
            "Committed changes of metadata that this node could not apply: the log has the trace.",
            FAILURES["metadata"],
        )

    return collect


def process_metrics() -> Collector:
    """Make the collector of `prometheus_client`'s metrics: CPU, memory, descriptors, garbage collections, Python."""
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
