"""Tests of the history checker: planted anomalies, legal histories beside them, and random histories."""

from __future__ import annotations

from typing import Protocol

import pytest

from chaos.checker import check
from chaos.checks.anomaly import Kind
from chaos.planted_histories import COMPACTED, HISTORIES, Script

TOPICS = {COMPACTED.topic}


class Planted(Protocol):
    __name__: str

    def __call__(self, it: Script, *, legal: bool) -> tuple[int, ...]: ...


CASES = [pytest.param(kind, plant, id=plant.__name__) for kind, some in HISTORIES.items() for plant in some]


@pytest.mark.parametrize(("kind", "plant"), CASES)
def test_an_anomaly_is_reported_with_its_evidence(kind: Kind, plant: Planted) -> None:
    it = Script()
    evidence = plant(it, legal=False)
    (anomaly,) = check(it.recorder.events, compacted=TOPICS)
    assert anomaly.kind is kind, anomaly
    assert set(evidence) == {one.id for one in anomaly.evidence}, anomaly


@pytest.mark.parametrize(("kind", "plant"), CASES)
def test_the_legal_history_beside_it_is_not_reported(kind: Kind, plant: Planted) -> None:
    it = Script()
    plant(it, legal=True)
    assert check(it.recorder.events, compacted=TOPICS) == []


def test_every_kind_is_planted() -> None:
    assert set(HISTORIES) == set(Kind)
