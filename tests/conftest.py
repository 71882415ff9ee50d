"""Who works side by side: `make test` has several processes, and what shares a node, or a JVM, stays in one of them."""

from __future__ import annotations

import os
from typing import Any

import pytest

SPARK = "tests/spark"
SLOW = 100
PROCESSES_MAX = 4


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One for each processor: with one more all compete for their caches, and the whole takes longer."""
    return min(os.cpu_count() or 1, PROCESSES_MAX)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A process takes whole groups."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)


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
    return sum(SLOW if test.get_closest_marker("slow") or SPARK in test.nodeid else 1 for test in tests)
