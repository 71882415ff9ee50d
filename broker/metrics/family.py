"""`Family`: a metric with its samples, which are read from the state of a node one after the other. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

__all__ = ["Collector", "Family", "Sample", "gauge", "total"]

SUFFIXES = ("sum", "count")

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, and the value."""


@dataclass(slots=True, frozen=True)
class Family:
    """A metric.

    Attributes:
        name: Without `_total`, which a counter's samples have.
        kind: A counter only grows while the process lives. A summary's last label is `quantile`; the samples of which
            that is `sum` or `count` are those of all that was ever measured.
        documentation: One sentence, for `# HELP`.
        samples: Read in steps, between which other tasks run: it must bear that the state changes meanwhile.
        labels: The names of the labels.
    """

    name: str
    kind: Literal["counter", "gauge", "summary"]
    documentation: str
    samples: Iterable[Sample]
    labels: tuple[str, ...] = ()

    def sample_of(self, values: tuple[str, ...]) -> tuple[str, dict[str, str]]:
        """The name of a sample and its labels."""
        labels = dict(zip(self.labels, values, strict=True))
        if self.kind == "summary" and labels["quantile"] in SUFFIXES:
            return f"{self.name}_{labels.pop('quantile')}", labels
        return f"{self.name}_total" if self.kind == "counter" else self.name, labels


Collector = Callable[[], Iterator[Family | None]]
"""Reads a part of the node; it yields None where other tasks may run."""


def gauge(name: str, documentation: str, value: float) -> Family:
    """A gauge without labels."""
    return Family(name, "gauge", documentation, [((), value)])


def total(name: str, documentation: str, value: float) -> Family:
    """A counter without labels; `name` does not end in `_total`."""
    return Family(name, "counter", documentation, [((), value)])
