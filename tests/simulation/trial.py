"""`try_schedule`: runs a schedule, and makes a `Result` of whatever happens; `try_seeds`: many seeds, in processes."""

from __future__ import annotations

import gc
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from simulation.scenario import Failure, Outcome, Scenario
from simulation.schedule import Schedule, draw

TRACEBACK_LINES = 24
SEEDS_PER_PROCESS = 200
SEEDS_PER_COLLECTION = 5
"""A run leaves some 20 MB of garbage, and a collection takes as long as some simulated seconds."""


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
    """Run the schedule of a seed, perhaps with other kinds of faults; some seeds leave their garbage to later ones."""
    result = try_schedule(draw(seed, kinds))
    if seed % SEEDS_PER_COLLECTION == 0:
        gc.collect()
    return result


def _prepare_process() -> None:
    """Collect no garbage by itself, and never look again at what is there before the first seed."""
    gc.disable()
    gc.collect()
    gc.freeze()


def try_seeds(seeds: range, jobs: int, kinds: Sequence[str] = ()) -> Iterator[Result]:
    """The results of many seeds, in order."""
    attempt = partial(try_seed, kinds=kinds)
    if jobs == 1:
        with _without_collections():
            yield from map(attempt, seeds)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _prepare_process, max_tasks_per_child=SEEDS_PER_PROCESS) as pool:
        yield from pool.map(attempt, seeds)
