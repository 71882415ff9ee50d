"""The budget of steps in tests: which steps of a node's tasks used more of the processor, read from its log.

The budget of a node is 20 ms of CPU time. Tests allow three times as much: where processors are shared, as in a virtual
machine, the same work is charged with up to twice the time, whatever the clock. No test looks at elapsed time.
`MINIKAFKA_STEP_BUDGET_MS=20` allows no more than the budget, on a machine that nobody else uses
(`make hostile STEP_MS=20`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.node.main import STACKS

TEST_BUDGET_MS = float(os.environ.get("MINIKAFKA_STEP_BUDGET_MS") or 60)


@contextmanager
def stacks_of_long_steps() -> Iterator[None]:
    """Nodes that are started meanwhile log the stack of each long step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STACKS, "1")
        yield


class StepLogReader:
    """Reads the long steps that a node logs from now on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = log.stat().st_size if log.exists() else 0

    def above(self, budget_ms: float = TEST_BUDGET_MS) -> list[dict[str, Any]]:
        """The long steps since the last call that are above the budget, at most ten in ten seconds."""
        if not self._log.exists():
            return []
        with self._log.open("rb") as log:
            log.seek(self._read)
            lines = log.read()
        self._read += len(lines)
        found = [json.loads(line) for line in lines.splitlines() if b'"long step"' in line]
        return [step for step in found if step["cpu_ms"] > budget_ms]

    def check(self, budget_ms: float = TEST_BUDGET_MS) -> None:
        """Fails with the stacks of the steps above the budget."""
        found = self.above(budget_ms)
        assert not found, "\n".join(map(described, found))


def described(step: dict[str, Any]) -> str:
    """The task, its CPU time and its stack, in lines."""
    where = step["stack"] or ["waits in:", *step["waits_in"]]
    return "\n    ".join([f"{step['cpu_ms']} ms: {step['task']}", *where])
