"""`Tally`: the results of many seeds together: how fast they ran, and what never happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from simulation.trial import Result

FAULT, EFFECT, PROGRAM = "fault: ", "effect: ", "program: "


@dataclass
class Tally:
    """See above.

    Attributes:
        coverage: How often what happened, in failed seeds too.
        failed: The results of the seeds that failed.
    """

    seeds: int = 0
    virtual_s: float = 0.0
    seconds: float = 0.0
    operations: int = 0
    coverage: Counter[str] = field(default_factory=Counter[str])
    failed: list[Result] = field(default_factory=list[Result])

    def add(self, result: Result) -> None:
        """Count a seed."""
        self.seeds += 1
        self.seconds += result.seconds
        self.coverage += result.coverage
        if result.outcome is None:
            self.failed.append(result)
        else:
            self.virtual_s += result.outcome.virtual_s
            self.operations += result.outcome.operations

    def faults_without_effect(self, kinds: Collection[str]) -> list[str]:
        """The faults that changed nothing in any seed."""
        return [kind for kind in kinds if not self.coverage[f"{FAULT}{kind}"]]

    def actions_without_success(self) -> list[str]:
        """The actions of programs that were tried, and failed each time: `program: action`."""
        done = {key.removeprefix(PROGRAM) for key in self.coverage if key.startswith(PROGRAM)}
        failed = {key.rpartition(": ")[0] for key in done if key.count(": ") == 2}
        return sorted(failed - done)

    def first_of_each(self) -> list[Result]:
        """The first failure of each invariant, as the same cause breaks the same one."""
        found: dict[str, Result] = {}
        for result in self.failed:
            found.setdefault(result.invariant, result)
        return list(found.values())

    def report(self) -> list[str]:
        """Lines for a person."""
        speed = self.virtual_s / self.seconds if self.seconds else 0.0
        return [
            *(f"  {count:9} {what}" for what, count in sorted(self.coverage.items())),
            f"{self.seeds} seeds, {self.virtual_s / 3600:.1f} simulated hours, {self.operations} operations,"
            f" {self.seconds:.0f} s of processor time: {speed:.0f} simulated seconds a second;"
            f" {len(self.failed)} failed",
        ]
