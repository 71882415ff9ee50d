"""Writes all families of a node in the text format of Prometheus, in steps between which other tasks run.

`prometheus_client` writes the samples, with escapes and numbers. This module only divides the work into steps:
`prometheus_client` alone would write the whole registry in one step, which takes 50 ms for 5,000 partitions. Source:
Prometheus, *Exposition formats*, version 0.0.4.
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
"""The number of samples that are written in one step, which takes 2 ms on a slow machine."""


def text_in_steps(collectors: Iterable[Collector]) -> Generator[None, None, list[bytes]]:
    """Write all families; returns the parts of the text. Each `yield` ends a step (`storage/steps.py`)."""
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
    """Yield the text of a family in parts; only the first part has the comment lines."""
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
    """A registry that has only one metric, for `generate_latest`."""

    def __init__(self, metric: Metric) -> None:
        super().__init__(auto_describe=False)
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric
