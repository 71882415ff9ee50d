"""The text format of Prometheus for all families of a node, written in steps between which other tasks run.

`prometheus_client` writes each sample: escapes and numbers are its business. Only the cuts are ours, since it writes a
registry in one go, which takes 50 ms for 5,000 partitions. Source: Prometheus, *Exposition formats*, version 0.0.4.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric

from minikafka.broker.metrics.family import Collector, Family, Sample

__all__ = ["CONTENT_TYPE", "text_in_steps"]

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
SAMPLES_AT_ONCE = 200
"""A step takes 2 ms on a slow machine."""


def text_in_steps(collectors: Iterable[Collector]) -> Generator[None, None, list[bytes]]:
    """The text of all families, in parts; each `yield` ends a step (`controller/steps.py`)."""
    parts: list[bytes] = []
    for collector in collectors:
        for family in collector():
            yield
            if family is not None:
                for part in _parts(family):
                    parts.append(part)
                    yield
    return parts


def _parts(family: Family) -> Iterator[bytes]:
    """The text of a family; the comments stand before the first samples only."""
    samples = iter(family.samples)
    some = list(islice(samples, SAMPLES_AT_ONCE))
    yield _text(family, some)
    while some := list(islice(samples, SAMPLES_AT_ONCE)):
        yield b"".join(line for line in _text(family, some).splitlines(keepends=True) if not line.startswith(b"#"))


def _text(family: Family, samples: Iterable[Sample]) -> bytes:
    metric = Metric(family.name, family.documentation, family.kind)
    for values, value in samples:
        metric.add_sample(*family.sample_of(values), value)
    return generate_latest(_One(metric))


class _One(CollectorRegistry):
    """A registry of one metric."""

    def __init__(self, metric: Metric) -> None:
        super().__init__(auto_describe=False)
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric
