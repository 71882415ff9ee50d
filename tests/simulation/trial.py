"""`try_schedule`: runs a schedule, and makes a `Result` of whatever happens; `try_seeds`: many seeds, in processes."""

from __future__ import annotations

import gc
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from simulation.scenario import Failure, Outcome, Scenario
from simulation.schedule import Schedule, draw

T = TypeVar("T")
TRACEBACK_LINES = 24
SEEDS_PER_PROCESS = 10
"""A run leaves some 20 MB of garbage, and its collection takes a tenth of the run: the process ends instead."""
SEED_MAX_S = 1800
SEEDS_PER_COLLECTION = 5
"""In this process."""


@dataclass
class Result:
    """The result of a schedule: an outcome, or a failure with the invariant that it broke.

    Attributes:
        outcome: None if it failed.
        evidence: What showed the failure, in lines.
        invariant: What was broken, "" if nothing was.
        seconds: Processor time.
        recent: The last lines of the trace of each host.
        coverage: How often what happened.
    """

    schedule: Schedule
    outcome: Outcome | None = None
    invariant: str = ""
    evidence: str = ""
    seconds: float = 0.0
    recent: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    coverage: Counter[str] = field(default_factory=Counter[str])

    @property
    def seed(self) -> int:
        return self.schedule.seed


def try_schedule(schedule: Schedule, listener: Callable[[str], None] | None = None) -> Result:
    """Run a schedule; every exception is a failure.

    Args:
        listener: Is called with each line of the trace.
    """
    began = time.process_time()
    with _without_collections():
        result = _try_schedule(schedule, listener)
    result.seconds = time.process_time() - began
    return result


@contextmanager
def _without_collections() -> Iterator[None]:
    """Collect no garbage: a run leaves little, and collections within it cost a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _try_schedule(schedule: Schedule, listener: Callable[[str], None] | None) -> Result:
    scenario = Scenario(schedule)
    if listener is not None:
        scenario.world.listeners.append(listener)
    result = Result(schedule)
    try:
        result.outcome = scenario.run()
    except Failure as failure:
        result.invariant, result.evidence = failure.invariant, str(failure) + _where(failure.__cause__)
    except Exception as error:  # noqa: BLE001 (a bug of the simulation is a failure too)
        result.invariant, result.evidence = type(error).__name__, str(error) + _where(error)
    finally:
        result.recent = {host: list(lines) for host, lines in scenario.world.recent.items()}
        result.coverage = scenario.coverage()
        scenario.world.close()
    return result


def _where(error: BaseException | None) -> str:
    """The end of a traceback."""
    if error is None:
        return ""
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n" + "\n".join(lines[-TRACEBACK_LINES:])


def try_seed(seed: int, kinds: Sequence[str] = ()) -> Result:
    """Run the schedule of a seed, perhaps with other kinds of faults."""
    return try_schedule(draw(seed, kinds))


def try_seeds(seeds: Sequence[int], jobs: int, kinds: Sequence[str] = ()) -> Iterator[Result]:
    """The results of many seeds, in order.

    Args:
        jobs: The number of processes; 0 for this one.

    Raises:
        multiprocessing.TimeoutError: There is no result for `SEED_MAX_S`.
    """
    attempt = partial(try_seed, kinds=kinds)
    return in_processes(jobs, attempt, seeds) if jobs else _in_this_process(attempt, seeds)


def in_processes(jobs: int, attempt: Callable[[int], T], seeds: Sequence[int]) -> Iterator[T]:
    """See `try_seeds`. A process ends after some seeds, and another one takes its place."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(jobs, gc.disable, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        results = pool.imap(attempt, seeds)
        for _ in seeds:  # a process that is killed has no result
            yield results.next(SEED_MAX_S)


def _in_this_process(attempt: Callable[[int], Result], seeds: Sequence[int]) -> Iterator[Result]:
    with _without_collections():
        for number, seed in enumerate(seeds, 1):
            yield attempt(seed)
            if number % SEEDS_PER_COLLECTION == 0:
                gc.collect()
