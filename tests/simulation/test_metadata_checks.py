"""What the watch over the committed metadata notices, with nodes that only say what they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from simulation.metadata_checks import CommittedMetadata


@dataclass
class FakeController:
    """A controller with a log of epochs: one for each record."""

    log: list[int]
    committed_offset: int
    leader_epoch: int
    is_active: bool = False
    stored: Any = field(init=False)
    _static: Any = field(init=False)
    leader_id: int = field(init=False)

    def __post_init__(self) -> None:
        epochs = SimpleNamespace(epoch_of=lambda offset: self.log[offset])
        self.leader_id, self._static = 1 if self.is_active else -1, SimpleNamespace(node_id=1)
        self.stored = SimpleNamespace(_log=SimpleNamespace(epochs=epochs, start_offset=0, end_offset=len(self.log)))


def watch(*states: dict[str, FakeController]) -> str:
    """What is broken after these states, one after the other."""
    cluster: Any = SimpleNamespace(hosts={}, world=SimpleNamespace(trace=lambda host, text: None))
    watching = CommittedMetadata(cluster)
    for state in states:
        cluster.hosts = {name: SimpleNamespace(name=name, controller=one) for name, one in state.items()}
        watching.look()
    return watching.broken


def test_a_log_that_grows_under_new_leaders_is_well() -> None:
    first = {"a": FakeController([1, 1], 2, 1, is_active=True), "b": FakeController([1, 1], 1, 1)}
    second = {"a": FakeController([1, 1], 2, 1, is_active=True), "b": FakeController([1, 1, 2], 3, 2, is_active=True)}
    assert watch(first, second) == ""


def test_a_committed_record_that_another_replaces_is_noticed() -> None:
    assert "a record of epoch 2 before offset 2, where 1 was committed" in watch(
        {"a": FakeController([1, 1], 2, 1)}, {"b": FakeController([1, 2], 2, 2)}
    )


def test_a_leader_without_a_committed_record_is_noticed() -> None:
    assert "b leads and has records up to offset 1; 2 was committed" in watch(
        {"a": FakeController([1, 1], 2, 1)}, {"b": FakeController([1], 1, 2, is_active=True)}
    )


def test_a_leader_of_before_the_commit_need_not_have_the_record() -> None:
    assert watch({"a": FakeController([1, 2], 2, 2)}, {"b": FakeController([1], 1, 1, is_active=True)}) == ""


def test_two_leaders_of_an_epoch_are_noticed() -> None:
    leaders = {name: FakeController([1], 1, 1, is_active=True) for name in "ab"}
    assert watch(leaders) == "epoch 1 has two leaders: a and b"
