"""Long steps are found by their CPU time, with the task and where it was; others' time is never charged to them."""

from __future__ import annotations

import time

import pytest
import structlog.testing
import trio

from minikafka.broker.node.stack_sampler import StackSampler
from minikafka.broker.node.step_watch import LINES_MAX, PERIOD_S, TRIO_ITSELF, LongStep, StepLog, StepWatch

MS = 0.001


class Clocks:
    """The clock and the CPU clock of a thread, moved by the test."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cpu = 7.0

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.cpu += seconds

    def watch(self, found: list[LongStep]) -> StepWatch:
        return StepWatch(found.append, clock=lambda: self.now, cpu_clock=lambda: self.cpu)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def measured(clocks: Clocks, *works: float, waits: float = 0.0) -> list[LongStep]:
    """The long steps of one task that works so long in each of its steps; the machine stands still for `waits`."""
    found: list[LongStep] = []

    async def task() -> None:
        for seconds in works:
            clocks.work(seconds)
            clocks.now += waits
            await trio.lowlevel.checkpoint()

    trio.run(task, instruments=[clocks.watch(found)])
    return found


def test_steps_within_the_budget_are_not_reported(clocks: Clocks) -> None:
    assert measured(clocks, 19 * MS, 19 * MS, 1 * MS) == []


def test_a_long_step_is_reported_with_the_task_and_where_it_waits(clocks: Clocks) -> None:
    [step] = measured(clocks, 1 * MS, 21 * MS, 1 * MS)
    assert step.task.endswith("task")
    assert step.cpu_s == pytest.approx(21 * MS)
    assert step.waits_in[0].startswith("node/test_step_watch.py")
    assert step.waits_in[0].endswith(" task")


def test_the_last_step_of_a_task_is_measured(clocks: Clocks) -> None:
    found: list[LongStep] = []

    async def task() -> None:
        clocks.work(30 * MS)

    trio.run(task, instruments=[clocks.watch(found)])
    [step] = found
    assert step.waits_in == ()


def test_time_in_which_the_machine_runs_something_else_is_not_counted(clocks: Clocks) -> None:
    assert measured(clocks, 15 * MS, 15 * MS, waits=500 * MS) == []


def test_time_of_earlier_steps_of_a_round_is_not_counted(clocks: Clocks) -> None:
    found: list[LongStep] = []

    async def short() -> None:
        clocks.work(15 * MS)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(short)

    trio.run(main, instruments=[clocks.watch(found)])
    assert found == []


def test_collections_of_garbage_are_told_apart(clocks: Clocks) -> None:
    found: list[LongStep] = []
    watch = clocks.watch(found)

    async def task() -> None:
        watch.collection("start", {})
        clocks.work(100 * MS)
        watch.collection("stop", {})
        clocks.work(10 * MS)
        await trio.lowlevel.checkpoint()
        watch.collection("start", {})
        clocks.work(50 * MS)
        watch.collection("stop", {})
        clocks.work(25 * MS)

    trio.run(task, instruments=[watch])
    [step] = found
    assert step.cpu_s == pytest.approx(25 * MS)
    assert step.collection_s == pytest.approx(50 * MS)


def test_deadlines_are_a_step_of_the_loop_itself(clocks: Clocks) -> None:
    found: list[LongStep] = []
    watch = clocks.watch(found)
    watch.after_io_wait(0)
    clocks.work(30 * MS)
    watch.before_io_wait(0)
    assert [step.task for step in found] == [TRIO_ITSELF]
    watch.after_io_wait(0)
    assert watch.measured.rounds == 2


def test_a_sampler_shows_where_a_step_was_when_it_first_exceeded_the_budget(clocks: Clocks) -> None:
    found: list[LongStep] = []
    watch = clocks.watch(found)
    sampler = StackSampler(watch, lambda: clocks.now)

    def compute() -> None:
        """Works until the sampler's thread saw it."""
        clocks.work(21 * MS)
        while watch.sampled[0] != watch.began:
            time.sleep(0)

    async def task() -> None:
        compute()
        clocks.work(21 * MS)
        sampler.sample()

    trio.run(task, instruments=[watch])
    sampler.stop()
    [step] = found
    assert [name.split()[-1] for name in step.stack[:2]] == ["task", "compute"]


def test_the_log_is_limited_and_says_how_many_were_left_out(clocks: Clocks) -> None:
    steps = StepLog(lambda: clocks.now)
    step = LongStep("task", 0.5, 0.0, ())
    with structlog.testing.capture_logs() as lines:
        for _ in range(LINES_MAX + 5):
            steps.found(step)
        clocks.now += PERIOD_S + 1
        steps.found(step)
    assert [line["event"] for line in lines] == ["long step"] * (LINES_MAX + 1)
    assert lines[-1]["left_out"] == 5
    assert lines[0]["cpu_ms"] == 500.0


def test_what_a_step_did_before_anybody_was_served_does_not_count(clocks: Clocks) -> None:
    found: list[LongStep] = []
    watch = clocks.watch(found)

    async def task() -> None:
        clocks.work(1.0)
        watch.begin_anew()
        clocks.work(10 * MS)
        await trio.lowlevel.checkpoint()
        clocks.work(21 * MS)

    trio.run(task, instruments=[watch])
    assert [round(step.cpu_s / MS) for step in found] == [21]
