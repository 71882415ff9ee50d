"""The goals of the benchmark: fixed values, and values beside those of the other node in the same run."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

COLUMNS = ("minikafka", "Apache Kafka")
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`bench/results.py`, which is not on the path of the tests."""
    spec = spec_from_file_location("bench_results", ROOT / "bench" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_results", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("factor", "at_most", "ours", "cells"),
    [
        (1.5, False, 29.9, ["29.9 ✗", "20.0", "≥ 30.0", "1.5 × Kafka in this run"]),
        (1.5, False, 30.0, ["30.0", "20.0", "≥ 30.0", "1.5 × Kafka in this run"]),
        (1.0, True, 20.1, ["20.1 ✗", "20.0", "≤ 20.0", "Kafka in this run"]),
        (1.0, True, 19.9, ["19.9", "20.0", "≤ 20.0", "Kafka in this run"]),
    ],
)
def test_a_goal_beside_kafka_is_computed_from_its_column(
    results: ModuleType, factor: float, at_most: bool, ours: float, cells: list[str]
) -> None:
    figure = results.Figure("x", "ms", results.Beside(factor, at_most), {"minikafka": ours, "Apache Kafka": 20.0})
    assert figure.row(COLUMNS)[2:] == cells


@pytest.mark.parametrize(("at_most", "goal"), [(True, "≤ 10.0"), (False, "≥ 20.0")])
def test_the_stricter_of_a_limit_and_kafkas_value_counts(results: ModuleType, at_most: bool, goal: str) -> None:
    beside = results.Beside(at_most=at_most, limit=10.0)
    row = results.Figure("x", "ms", beside, {"minikafka": 15.0, "Apache Kafka": 20.0}).row(COLUMNS)
    assert row[2:5] == ["15.0 ✗", "20.0", goal]


def test_without_kafka_only_the_limit_counts(results: ModuleType) -> None:
    for columns in (COLUMNS, COLUMNS[:1]):
        free = results.Figure("x", "ms", results.Beside(at_most=True), {"minikafka": 15.0}).row(columns)
        assert (free[2], free[-2:]) == ("15.0", ["", ""])
        limited = results.Figure("x", "ms", results.Beside(at_most=True, limit=10.0), {"minikafka": 15.0}).row(columns)
        assert (limited[2], limited[-2:]) == ("15.0 ✗", ["≤ 10.0", ""])


def test_kafka_is_not_compared_with_itself(results: ModuleType) -> None:
    row = results.Figure("x", "ms", results.Beside(2.0), {"Apache Kafka": 20.0}).row(COLUMNS[1:])
    assert row == ["x", "ms", "20.0", "", ""]


def test_a_fixed_goal_is_the_same_for_all(results: ModuleType) -> None:
    row = results.Figure("x", "ms", results.Goal(1, True, "Kafka 3"), {"minikafka": 2, "Apache Kafka": 20}).row(COLUMNS)
    assert row == ["x", "ms", "2.00 ✗", "20.0", "≤ 1.00", "Kafka 3"]
