"""`Family`: a metric with its samples, which are read from the state of a node one after the other. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

__all__ = ["Collector", "Family", "Sample", "gauge", "total"]

SUFFIXES = ("sum", "count")

Sample = tuple[tuple[str, ...], float]
"""A sample: the values of its labels, and its value."""


@dataclass(slots=True, frozen=True)
class Family:
    """A metric with its samples.

    Attributes:
        name: The name of the metric, without the suffix `_total` of a counter's samples.
        kind: The type of the metric. A counter only grows while the process lives. A summary's last label is
            `quantile`; its samples with the quantile `sum` or `count` are the sum and the count of all measurements.
        documentation: One sentence, for `# HELP`.
        samples: The samples. They are read in steps, between which other tasks run, so that the iterable must tolerate
            changes of the state that it reads.
        labels: The names of the labels.
    """

    name: str
    kind: Literal["counter", "gauge", "summary"]
    documentation: str
    samples: Iterable[Sample]
    labels: tuple[str, ...] = ()

    def sample_of(self, values: tuple[str, ...]) -> tuple[str, dict[str, str]]:
        """Return the name of a sample, and its labels by name."""
        labels = dict(zip(self.labels, values, strict=True))
        if self.kind == "summary" and labels["quantile"] in SUFFIXES:
            return f"{self.name}_{labels.pop('quantile')}", labels
        return f"{self.name}_total" if self.kind == "counter" else self.name, labels


Collector = Callable[[], Iterator[Family | None]]
"""A function that reads a part of the node and yields its families; it yields None where other tasks may run."""


def gauge(name: str, documentation: str, value: float) -> Family:
    """Make a gauge without labels."""
    return Family(name, "gauge", documentation, [((), value)])


def total(name: str, documentation: str, value: float) -> Family:
    """Make a counter without labels; `name` does not end in `_total`."""
    return Family(name, "counter", documentation, [((), value)])
