"""What the watch over the states of partitions notices, with nodes that only say what they have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.controller.metadata.image import PartitionState
from simulation.partition_checks import PartitionStates

WELL = {"leader": 1, "leader_epoch": 3, "partition_epoch": 5, "replicas": (1, 2, 3), "isr": (1, 2)}


def watch(*states: dict[str, Any], fenced: tuple[int, ...] = ()) -> str:
    """What is broken after a partition had these states, one after the other."""
    brokers = {node_id: SimpleNamespace(fenced=node_id in fenced) for node_id in (1, 2, 3)}
    cluster: Any = SimpleNamespace(hosts={}, world=SimpleNamespace(trace=lambda host, text: None))
    watching = PartitionStates(cluster)
    for offset, state in enumerate(states):
        topic = SimpleNamespace(name="t", id=b"id", partitions=[PartitionState(**{**WELL, **state})])
        image = SimpleNamespace(brokers=brokers, topics={"t": topic})
        cluster.hosts = {"a": SimpleNamespace(name="a", controller=SimpleNamespace(offset=offset, image=image))}
        watching.look()
    return watching.broken


def test_states_that_may_follow_each_other_are_well() -> None:
    assert watch({}, {"leader": 2, "leader_epoch": 4, "partition_epoch": 6}, fenced=(3,)) == ""
    assert watch({"leader": -1, "isr": (1,)}, fenced=(1,)) == "", "the last one stays"


@pytest.mark.parametrize(
    ("state", "fenced", "what"),
    [
        ({"leader": 3}, (), "is led by 3, which is not in the ISR"),
        ({"isr": (1,)}, (1,), "is led by 1, which is fenced"),
        ({}, (2,), "has fenced brokers [2] in its ISR"),
        ({"isr": (1, 4)}, (), "and others in its ISR"),
        ({"elr": (2,)}, (), "which overlap"),
        ({"leader_epoch": 2}, (), "has leader epoch and partition epoch (2, 5), which were (3, 5)"),
        ({"leader": 2}, (), "has leaders 1 and 2 in epoch 3"),
    ],
)
def test_what_is_impossible_is_noticed(state: dict[str, Any], fenced: tuple[int, ...], what: str) -> None:
    assert what in (watch({}, state) if not fenced else watch(state, fenced=fenced))
