"""Reads the steps of tasks above the budget from the logs of the measured nodes: all their clients waited meanwhile.

A node logs each step that used the processor for more than 20 ms, collections of garbage excluded, as `long step`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.results import Figure, Goal

LOG = "server.log"
SUBJECT = "steps of the nodes above 20 ms of CPU"


def steps_above_budget(folder: Path, name: str) -> Iterator[Figure]:
    """How many there were in the logs below a folder, and how long the longest took; prints where that one waits."""
    steps = list(_steps(folder))
    number = len(steps) + sum(step["left_out"] for step in steps)
    yield Figure(SUBJECT, "number", Goal(0, at_most=True), {name: number})
    if steps:
        longest = max(steps, key=lambda step: float(step["cpu_ms"]))
        print(f"longest step: {json.dumps(longest)}", file=sys.stderr, flush=True)
        yield Figure("longest step of the nodes", "ms of CPU", None, {name: longest["cpu_ms"]})


def _steps(folder: Path) -> Iterator[dict[str, float]]:
    for log in sorted(folder.rglob(LOG)):
        for line in log.read_bytes().splitlines():
            if b'"long step"' in line:
                yield json.loads(line)
