"""Who works side by side: `make test` has several processes, and what shares a node, or a JVM, stays in one of them.

Every run is the same as far as chance goes: property tests try the same (without a deadline, as the machine may be
busy), and trio, which runs tasks that are ready in a random order, has the same. `MINIKAFKA_SCHEDULE=2` has another.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import hypothesis
import pytest
from trio._core import _run as trio_scheduler

hypothesis.settings.register_profile("any-machine", deadline=None, derandomize=True)
hypothesis.settings.load_profile("any-machine")
SPARK = "tests/spark"
LONG = {"slow", "sweep", "spark"}
SLOW = 100
SCHEDULE = os.environ.get("MINIKAFKA_SCHEDULE", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A process takes whole groups, unless another distribution is asked for."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The order of tasks is a matter of the test alone, not of those before it."""
    trio_scheduler._r.seed(f"{SCHEDULE} {item.nodeid}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Groups with much to do begin first, so that none is left to the end. A single process keeps to the order."""
    if not hasattr(config, "workerinput"):
        return
    groups: dict[str, list[pytest.Item]] = {}
    for test in items:
        groups.setdefault(group(test.nodeid), []).append(test)
    items[:] = [test for some in sorted(groups.values(), key=weight, reverse=True) for test in some]


def group(nodeid: str) -> str:
    """Spark's tests share a JVM and its brokers, those of a file their nodes."""
    path = nodeid.partition("::")[0]
    return SPARK if path.startswith(SPARK) else path


def weight(tests: list[pytest.Item]) -> int:
    """A guess at how long they take."""
    return sum(SLOW if LONG & {mark.name for mark in test.iter_markers()} else 1 for test in tests)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The skipped tests, counted by reason: what this machine lacks, in a few lines."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped, by reason")
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        terminalreporter.line(f"{count:5d}  {reason}")
