"""Measured values and their table."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MISSED = " ✗"
PACKAGES = ("confluent-kafka", "kafka-python", "aiokafka", "trio", "numpy")


@dataclass(frozen=True)
class Goal:
    """A target value; `reference` is the value of Apache Kafka 4.3.1, or of another client, on two such cores."""

    value: float
    at_most: bool = False
    reference: str = ""

    def reached(self, value: float) -> bool:
        return value <= self.value if self.at_most else value >= self.value

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {shown(self.value)}"


@dataclass(frozen=True)
class Beside:
    """A goal beside the second kind of node, Apache Kafka, in the same run: its value times the factor.

    Attributes:
        limit: A value that has to be reached as well; the stricter of both counts.
    """

    factor: float = 1.0
    at_most: bool = False
    limit: float | None = None

    def goal(self, other: float | None) -> Goal | None:
        """The goal, from the value of the other node; the limit alone, if that was not measured."""
        bounds = [] if other is None else [self.factor * other]
        bounds += [] if self.limit is None else [self.limit]
        if not bounds:
            return None
        value = min(bounds) if self.at_most else max(bounds)
        times = "" if self.factor == 1 else f"{self.factor:g} × "
        return Goal(value, self.at_most, f"{times}Kafka in this run" if value != self.limit else "")


@dataclass
class Figure:
    """A row of the table: the subject, its unit, and a value for each kind of node."""

    subject: str
    unit: str
    goal: Goal | Beside | None = None
    values: dict[str, float] = field(default_factory=dict)

    def row(self, columns: Sequence[str]) -> list[str]:
        """The cells; the value of the first column, minikafka, is marked if it misses the goal."""
        cells = [shown(self.values[column]) if column in self.values else "" for column in columns]
        other = next((self.values.get(column) for column in columns[1:]), None)
        goal = self.goal.goal(other) if isinstance(self.goal, Beside) else self.goal
        ours = self.values.get(columns[0])
        if goal is not None and ours is not None and not goal.reached(ours):
            cells[0] += MISSED
        return [self.subject, self.unit, *cells, str(goal or ""), goal.reference if goal else ""]


def shown(value: float) -> str:
    """A value with three or four significant digits."""
    if value == 0:
        return "0"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def table(figures: Sequence[Figure], columns: Sequence[str]) -> str:
    """The Markdown table of figures, with a column for each kind of node."""
    head = ["measured", "unit", *columns, "goal", "reference"]
    return aligned_table(head, [figure.row(columns) for figure in figures])


def aligned_table(head: list[str], body: Sequence[list[str]]) -> str:
    """A Markdown table, of which the first two columns are aligned to the left, the others to the right."""
    rows = [head, *body]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    rows.insert(1, ["-" * (width - (column > 1)) + ":" * (column > 1) for column, width in enumerate(widths)])
    return "".join(f"| {' | '.join(_aligned(row, widths))} |\n" for row in rows)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def machine() -> str:
    """The machine and the versions of packages."""
    model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} × {model[1] if model else platform.processor()}, {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}; " + ", ".join(_packages())
    )


def _packages() -> list[str]:
    found: list[str] = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return found
