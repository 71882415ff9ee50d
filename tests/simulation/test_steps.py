"""No step of a simulated node uses more of the processor than the budget, and one that does is found with its stack."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import trio

from minikafka.broker.node.step_watch import BUDGET_S, LongStep
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import TopicRecord
from simulation.report import report_failure
from simulation.schedule import draw
from simulation.steps import LongSteps, Place, confirmed, described, long_steps_of_nodes, run_with_budget
from simulation.trial import try_seed
from simulation.world.disk import SimulatedDisk
from simulation.world.machine import Machine
from simulation.world.world import World

SEEDS = range(6, 10)
"""`simulation.seeds --steps` runs more."""
MANY = 5


@pytest.fixture
def world() -> Iterator[World]:
    made = World(1)
    yield made
    made.close()


def work() -> None:
    """Much more CPU time than the budget, and until the stack was seen in here.

    The machine may stand still at any line, so that the step is sampled before it comes here; then it begins anew.
    """
    watch = Machine.step_watch
    while watch is not None and not (watch.sampled[0] == watch.began and watch.sampled[1][-1].endswith(" compute")):
        watch.begin_anew()
        compute()


def compute() -> None:
    """Much more CPU time than the budget."""
    began = time.thread_time()
    while time.thread_time() - began < MANY * BUDGET_S:
        sum(range(1000))


def steps_of(world: World, name: str, program: Callable[[], Awaitable[object]]) -> list[LongStep]:
    with long_steps_of_nodes() as found:
        world.boot(name, "host", program)
        world.run_until(10)
    return those_that_compute(found)


def those_that_compute(found: LongSteps) -> list[LongStep]:
    """Without those that were charged because the machine stood still in them."""
    return [step for step in found.values() if step.cpu_s >= MANY * BUDGET_S]


@pytest.mark.sweep
@pytest.mark.parametrize("seed", SEEDS)
def test_no_step_of_a_node_is_above_the_budget(seed: int) -> None:
    result, found = run_with_budget(draw(seed))
    assert result.outcome is not None, "\n".join(report_failure(result, shrunk=False))
    assert not found, "\n".join(described(place, step) for place, step in found.items())


@pytest.mark.slow
def test_a_long_step_of_a_node_is_found_in_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Image.apply

    def slow(image: Image, record: Any) -> None:
        if isinstance(record, TopicRecord) and not image.topics:
            work()
        apply(image, record)

    monkeypatch.setattr(Image, "apply", slow)
    _, found = run_with_budget(replace(draw(6), lasts_s=0.1))
    assert any("slow" in described(place, step) for place, step in found.items())


@pytest.mark.slow
def test_a_watched_seed_has_the_same_trace() -> None:
    watched, _ = run_with_budget(draw(6))
    assert watched.outcome == try_seed(6).outcome


def test_a_long_step_is_found_with_its_stack(world: World) -> None:
    async def program() -> None:
        await trio.sleep(1)
        work()

    [step] = steps_of(world, "node-1/1", program)
    assert step.cpu_s > BUDGET_S
    assert [line.split()[-1] for line in step.stack] == ["program", "work", "compute"]


def test_steps_of_clients_do_not_count(world: World) -> None:
    async def program() -> None:
        work()

    assert steps_of(world, "client-1", program) == []


@pytest.mark.parametrize(("afterwards", "count"), [(int, 0), (work, 1)], ids=["nothing", "work"])
def test_what_a_thread_does_does_not_count(world: World, afterwards: Callable[[], object], count: int) -> None:
    disk = SimulatedDisk(Random(1), now_ms=lambda: 0, directories=["/data"]).attach()

    async def program() -> None:
        await disk.run(compute)
        afterwards()

    assert len(steps_of(world, "node-1/1", program)) == count


def test_what_happens_after_the_end_of_a_machine_does_not_count(world: World) -> None:
    async def ends() -> None:
        await trio.sleep(1)

    with long_steps_of_nodes() as found:
        world.boot("node-1/1", "host", ends)
        world.at(2, compute)
        world.at(3, world.boot, "node-2/1", "host", ends)
        world.run_until(10)
    assert those_that_compute(found) == []


def test_a_step_counts_with_the_least_of_its_times_and_only_if_it_is_in_all_runs() -> None:
    one, other, gone = (Place("node-1/1", number, "task") for number in range(3))
    first = {place: LongStep("task", cpu_s, 0.0, ()) for place, cpu_s in ((one, 0.03), (other, 0.04), (gone, 1.0))}
    second = {place: LongStep("task", cpu_s, 0.0, ()) for place, cpu_s in ((one, 0.035), (other, 0.025))}
    assert {place: step.cpu_s for place, step in confirmed(first, second).items()} == {one: 0.03, other: 0.025}
