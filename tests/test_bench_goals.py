"""The goals of the benchmark: fixed values, and values beside those of the other node in the same run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

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


def test_steps_above_the_budget_are_counted_from_the_nodes_logs(
    bench: Callable[[str], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = bench("steps")

    def rows() -> list[list[str]]:
        return [figure.row(COLUMNS[:1])[:4] for figure in steps.steps_above_budget(tmp_path, "minikafka")]

    assert rows() == [["steps of the nodes above 20 ms of CPU", "number", "0", "≤ 0"]]
    for node, line in (("one", {"cpu_ms": 21.5, "left_out": 0}), ("two", {"cpu_ms": 31.0, "left_out": 4})):
        (tmp_path / node).mkdir()
        logged = json.dumps({"level": "warning", "event": "long step", "task": node, **line})
        (tmp_path / node / "server.log").write_text(f'{{"event": "other"}}\nno JSON\n{logged}\n')
    assert rows() == [
        ["steps of the nodes above 20 ms of CPU", "number", "6.00 ✗", "≤ 0"],
        ["longest step of the nodes", "ms of CPU", "31.0", ""],
    ]
    assert '"task": "two"' in capsys.readouterr().err


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the benchmark."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: import_module(f"bench.{name}")


NODE = SimpleNamespace(name="minikafka", resident_bytes=lambda: 1 << 20)


def marked(figures: Iterable[Any], kafka: float) -> dict[tuple[str, str], tuple[str, bool]]:
    """The goal of each row beside this value of Apache Kafka, and whether ours misses it."""
    rows = {}
    for figure in figures:
        figure.values["Apache Kafka"] = kafka
        subject, unit, ours, _, goal, _ = figure.row(COLUMNS)
        rows[subject, unit] = goal, ours.endswith("✗")
    return rows


@pytest.mark.parametrize(("kafka_ms", "misses"), [(20.0, True), (30.0, False)])
def test_the_99th_percentile_of_many_connections_is_to_be_below_kafkas(
    bench: Callable[[str], Any], kafka_ms: float, misses: bool
) -> None:
    connections = bench("connections")
    load = connections.Load(times=[0.025] * 200_000, seconds=1.0, cpu_s=1.0)
    for goal in (True, False):
        rows = marked(connections.figures(NODE, "requests", "requests", load, goal=goal), kafka_ms)
        assert rows["requests", "ms, p99"] == ((f"≤ {kafka_ms}", misses) if goal else ("", False))
        assert rows["requests", "requests/s"] == (("≥ 20,000", False) if goal else ("", False))


@pytest.mark.parametrize(("many_s", "misses"), [(6.9, False), (7.1, True)])
def test_a_follower_is_to_catch_up_at_kafkas_rate(
    bench: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, many_s: float, misses: bool
) -> None:
    three_nodes = bench("three_nodes")
    times = iter([1.0, many_s])
    monkeypatch.setattr(three_nodes, "caught_up_s", lambda cluster, count: next(times))
    rows = marked(three_nodes.catching_up("minikafka", None, 600_000), 100.0)
    assert rows == {("a follower catches up", "MB/s"): ("≥ 100", misses)}
    assert "catching-up" in bench("run").CASES


@pytest.mark.parametrize(
    ("kafka", "goals_in", "goals_out"),
    [
        (1_000_000.0, ("≥ 1,500,000", "≥ 2,000,000"), ("≥ 1,100,000", "≥ 1,100,000")),
        (100_000.0, ("≥ 1,000,000", "≥ 200,000"), ("≥ 1,000,000", "≥ 110,000")),
    ],
)
def test_rates_of_one_client_are_beside_kafkas_and_its_processor_time_is_at_most_half(
    bench: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    kafka: float,
    goals_in: tuple[str, str],
    goals_out: tuple[str, str],
) -> None:
    throughput = bench("throughput")
    monkeypatch.setattr(throughput, "warm_up", lambda node: None)
    monkeypatch.setattr(throughput, "in_and_out", lambda *_: (1.0, 2.0, 0.5 * kafka + 1))
    rows = marked(throughput.measure_confluent(NODE, False), kafka)
    for size, goal_in, goal_out in zip((100, 1000), goals_in, goals_out, strict=True):
        assert rows[f"confluent-kafka in, {size} B", "records/s"] == (goal_in, True)
        assert rows[f"confluent-kafka out, {size} B", "records/s"] == (goal_out, True)
        cpu = rows[f"confluent-kafka out, {size} B", "s of CPU for a million"]
        assert cpu == (f"≤ {0.5 * kafka:,.0f}", True)


def test_over_tls_rates_are_to_be_kafkas_and_half_as_many_handshakes(
    bench: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    security = bench("security")
    secured = security.SecuredNode(NODE, dict.fromkeys(security.LISTENERS, 1), tmp_path)
    monkeypatch.setattr(security, "in_and_out", lambda *_, **client: (39_000.0, 41_000.0, 1.0))
    rows = marked(security.throughput(secured, quick=False), 40.0)
    for protocol in ("SSL", "SASL_SSL"):
        assert rows[f"{protocol}: confluent-kafka in, 1000 B", "MB/s"] == ("≥ 40.0", True)
        assert rows[f"{protocol}: confluent-kafka out, 1000 B", "MB/s"] == ("≥ 40.0", False)
    monkeypatch.setattr(security, "salt_password", lambda address: b"")
    monkeypatch.setattr(security, "cpu_s", lambda node: 0.0)
    for count, misses in ((19, True), (21, False)):
        monkeypatch.setattr(security, "repeated", lambda connect, seconds, count=count: (count, 1.0))
        rows = marked(security.new_connections(secured, 1), 40.0)
        assert rows["TLS 1.3 handshakes, 8 clients", "connections/s"] == ("≥ 20.0", misses)


@pytest.mark.parametrize(("with_acls_us", "misses"), [(104.0, True), (102.0, False)])
def test_an_authorizer_is_to_cost_three_percent_of_small_requests(
    bench: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, with_acls_us: float, misses: bool
) -> None:
    pairs, security = bench("pairs"), bench("security")
    monkeypatch.setattr(
        pairs, "_two_nodes", lambda what, *_: {subject: [(100.0, with_acls_us)] for subject in what.cases}
    )
    rows = marked(pairs.measure_pairs(security.AUTHORIZER, SimpleNamespace(name="minikafka"), tmp_path, 2, 1), 0.0)
    for subject in security.AUTHORIZER.cases:
        assert rows[f"{subject}, more with 10,000 ACLs", "%"] == ("≤ 3.00", misses)
    assert "security" in bench("run").CASES


def test_each_table_has_the_steps_of_our_nodes(bench: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run, nodes = bench("run"), bench("nodes")

    def measure(case: str, kind: Any, folder: Path, quick: bool) -> Iterator[Any]:
        (folder / "server.log").write_text('{"event": "long step", "cpu_ms": 30.0, "left_out": 0}\n')
        yield from ()

    monkeypatch.setattr(run, "measure", measure)
    ours, kafkas = [list(run.reported("latency", kind, quick=True)) for kind in (nodes.Node, nodes.KafkaNode)]
    assert [figure.row(COLUMNS[:1])[2] for figure in ours] == ["1.00 ✗", "30.0"]
    assert kafkas == []
