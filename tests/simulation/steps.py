"""The steps of tasks in simulated nodes that use more of the processor than the budget (`broker.node.step_watch`).

A step is measured in CPU time of this thread. Where processors are shared, the same work is charged with up to twice
the time, and what is done for the first time in a process (imports, codecs) takes longer. A seed repeats the same
steps, so a long step counts with the least that it took in `TIMES` runs of its seed.

Not counted: what runs in threads or processes of a real node (`disk.run`, `disk.lane`); a node's start before it serves
anybody; clients. No garbage is collected meanwhile. The time of simulated connections and of calls of the disk on
the loop counts, as that of system calls does in a node.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from minikafka.broker.node.stack_sampler import StackSampler
from minikafka.broker.node.step_watch import BUDGET_S, LongStep
from simulation.schedule import Schedule
from simulation.trial import Result, try_schedule
from simulation.world.machine import Machine, MachineWatch
from simulation.world.process_disk import ProcessDisk

TIMES = 3
NODE = "node-"
"""How the names of nodes' machines begin (`Cluster.add_node`)."""


@dataclass(frozen=True, order=True)
class Place:
    """Which step of a run it is: the same in each run of a seed.

    Attributes:
        step: The machine's step, in which many tasks may take several.
    """

    machine: str
    step: int
    task: str


LongSteps = dict[Place, LongStep]


@contextmanager
def long_steps_of_nodes(budget_s: float = BUDGET_S) -> Iterator[LongSteps]:
    """Machines that boot meanwhile are watched; yields the long steps of nodes, with stacks, which it adds to.

    No garbage is collected meanwhile: that would count as the step's own time."""
    found: LongSteps = {}

    def add(step: LongStep) -> None:
        machine = watch.machine
        if machine is not None and machine.name.startswith(NODE):
            place = Place(machine.name, machine.steps, step.task)
            if place not in found or found[place].cpu_s < step.cpu_s:
                found[place] = step

    watch = MachineWatch(add, clock=time.perf_counter, cpu_clock=time.thread_time, budget_s=budget_s)
    sampler, run = StackSampler(watch, time.perf_counter), ProcessDisk.run

    async def run_aside(disk: ProcessDisk, function: Callable[..., Any], *arguments: object) -> Any:
        return await run(disk, watch.aside, function, *arguments)

    Machine.step_watch, ProcessDisk.run = watch, run_aside  # type: ignore[method-assign]
    collects = gc.isenabled()
    gc.disable()
    try:
        yield found
    finally:
        if collects:
            gc.enable()
        Machine.step_watch, ProcessDisk.run = None, run  # type: ignore[method-assign]
        sampler.stop()


def run_with_budget(schedule: Schedule, budget_s: float = BUDGET_S) -> tuple[Result, LongSteps]:
    """Run a schedule, again while it has steps above the budget; returns those that are in every run, with the least
    time.

    A run that fails is the last one.
    """
    least = LongSteps()
    for number in range(TIMES):
        with long_steps_of_nodes(budget_s) as found:
            result = try_schedule(schedule)
        least = confirmed(least, found) if number else found
        if not least or result.outcome is None:
            break
    return result, least


def confirmed(one: LongSteps, other: LongSteps) -> LongSteps:
    """The steps in both runs, each with the less time of the two."""
    return {place: min(one[place], other[place], key=_cpu_s) for place in one if place in other}


def _cpu_s(step: LongStep) -> float:
    return step.cpu_s


def described(place: Place, step: LongStep) -> str:
    """A step and its stack, in lines; where it waits afterwards, if the stack was not seen."""
    where = step.stack or ("waits in:", *step.waits_in)
    return "\n    ".join([f"{step.cpu_s * 1000:.1f} ms: {place.machine}, step {place.step}: {place.task}", *where])
