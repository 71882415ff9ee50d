"""`RunFacts`: what a report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.checks.anomaly import Anomaly
from chaos.history import Event
from chaos.journal import Entry


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run.

    Attributes:
        cannot: Kinds of faults that were not injected, with the reason.
        done: How often clients did something, for the page only.
        ended_early: Why the run was not finished; empty if it was.
    """

    title: str
    seed: str
    nodes: Sequence[int]
    events: Sequence[Event]
    entries: Sequence[Entry]
    anomalies: Sequence[Anomaly] = ()
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])
    done: Mapping[str, int] = field(default_factory=dict[str, int])
    ended_early: str = ""

    @property
    def began_ns(self) -> int:
        """The first moment."""
        return min((self.events[0].at_ns if self.events else 0, *self._moments()), default=0)

    @property
    def ended_ns(self) -> int:
        """The last moment; later than the first."""
        last = max((self.events[-1].at_ns if self.events else 0, *self._moments()), default=0)
        return max(last, self.began_ns + 1_000_000_000)

    def seconds(self, at_ns: int) -> float:
        """Since the first moment."""
        return (at_ns - self.began_ns) / 1e9

    def _moments(self) -> list[int]:
        if not self.entries:
            return []
        some = (self.entries[0], self.entries[-1])
        return [one.at_ns if hasattr(one, "at_ns") else one.ended_ns for one in some]
