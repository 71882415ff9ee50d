"""Simulation of three replicas under random faults, reproducible by seed (`support/replica_simulation.py`)."""

import logging
from collections.abc import Iterator

import pytest
import structlog
import trio
from support.replica_simulation import STEPS, Simulation

SEEDS_IN_A_TEST = 50


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 300, SEEDS_IN_A_TEST))
def test_acknowledged_records_survive_and_committed_records_never_change(first: int) -> None:
    for seed in range(first, first + SEEDS_IN_A_TEST):
        simulation = Simulation(seed)
        try:
            trio.run(simulation.run, STEPS)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {' '.join(simulation.history[-60:])}") from error


def test_a_run_is_determined_by_its_seed() -> None:
    histories = []
    for _ in range(2):
        simulation = Simulation(7)
        trio.run(simulation.run, 100)
        histories.append(simulation.history)
    assert histories[0] == histories[1]
