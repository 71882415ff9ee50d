"""The reports of seeds: a failure with its evidence, schedules as text and as options, what never happened."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from simulation import seeds, trial
from simulation.faults.chaos import Chaos
from simulation.faults.table import FAULTS
from simulation.report import last_events, report_failure
from simulation.scenario import Outcome
from simulation.schedule import KEPT_SETTINGS, FaultAt, ProgramAt, Schedule, draw
from simulation.stored import from_toml, to_options, to_toml
from simulation.tally import Tally
from simulation.trial import Result, try_schedule

SMALL = replace(
    draw(1),
    layout="3",
    settings=tuple((name, value) for name, value in draw(1).settings if name in KEPT_SETTINGS),
    durable=False,
    programs=(ProgramAt(0, "idempotent producer"), ProgramAt(1, "assigned consumer")),
    groups=(),
    lasts_s=6.0,
    faults=(FaultAt(0, 1.0, "kill"), FaultAt(1, 3.0, "isolate")),
)
PASSED = Outcome(seed=1, trace_hash="", virtual_s=60.0, steps=1, operations=10)


def lose_a_topic(chaos: Chaos, _: Random) -> None:
    """More than a correct cluster survives: all replicas of a topic are deleted while all nodes are down."""
    for host in chaos.hosts():
        chaos.cluster.kill(host)
        for name in host.disk.list("/data"):
            if name.startswith("steady-"):
                host.disk.remove_tree(f"/data/{name}")
        chaos.later(0.5, chaos.cluster.start, host)
    chaos.count("topic lost")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Schedule:
    """A schedule with a fault that loses acknowledged records."""
    monkeypatch.setitem(FAULTS, "lose a topic", (lose_a_topic, 0))
    return replace(SMALL, faults=(*SMALL.faults, FaultAt(7, 5.0, "lose a topic"), FaultAt(8, 5.5, "pause")))


@pytest.mark.slow
def test_a_failure_is_reported_with_its_invariant_the_events_of_each_host_and_a_smaller_schedule(
    failing: Schedule,
) -> None:
    result = try_schedule(failing)
    assert result.outcome is None
    assert result.coverage["fault: lose a topic"] == 1
    lines = report_failure(result, shrunk=True)
    text = "\n".join(lines)
    assert lines[0].startswith("FAILED seed 1: lost acknowledged write")
    assert "was acknowledged at steady-" in lines[0]
    for host in ("node-1", "node-2", "node-3"):
        assert f" {host}: " in text
    shrunk = from_toml(text.partition(".toml\n")[2].partition("\n\nthe whole seed")[0])
    assert [fault.number for fault in shrunk.faults] == [7]
    assert shrunk.programs == (ProgramAt(0, "idempotent producer"),)
    assert try_schedule(shrunk).invariant == result.invariant


def test_the_last_events_of_each_host_are_in_the_order_of_time() -> None:
    recent = {
        "a": ["   1.000000 a: first", "   2.000000 a: second", " 104.000000 a: third"],
        "b": ["   3.000000 b: only"],
    }
    assert last_events(recent, count=2) == ["   2.000000 a: second", "   3.000000 b: only", " 104.000000 a: third"]


def test_events_that_are_alike_are_one_line() -> None:
    lines = ["   1.000000 a: failed partition=1", "   1.100000 a: failed partition=2", "   1.200000 a: ended"]
    assert last_events({"a": lines}) == ["   1.000000 a: failed partition=1 (and 1 like it)", "   1.200000 a: ended"]


def test_a_schedule_is_the_same_after_it_was_written_to_a_file() -> None:
    for seed in range(20):
        assert from_toml(to_toml(draw(seed), 'a "cause"')) == draw(seed)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Schedule]:
    """The schedules that the command has run; nothing is run."""
    found: list[Schedule] = []

    def attempt(schedule: Schedule, _: object = None) -> Result:
        found.append(schedule)
        return Result(schedule, PASSED)

    monkeypatch.setattr(seeds, "try_schedule", attempt)
    return found


@pytest.mark.parametrize("kind", ["faults", "programs", "members", "settings"])
def test_the_options_of_a_schedule_run_it_exactly(ran: list[Schedule], kind: str) -> None:
    whole = replace(draw(3), lasts_s=7.25)
    parts = whole.parts()[kind]
    expected = [whole, whole.without(kind, parts[::2]), whole.without(kind, parts)]
    for schedule in expected:
        assert seeds.main(shlex.split(shlex.join(to_options(schedule)))) == 0
    assert ran == expected


def test_a_seed_without_options_is_run_whole(ran: list[Schedule]) -> None:
    assert to_options(draw(3)) == ["--seed", "3"]
    assert seeds.main(["--seed", "3"]) == 0
    assert ran == [draw(3)]


def test_a_tally_tells_what_never_happened() -> None:
    tally = Tally()
    first = Counter({"fault: kill": 2, "program: reader: poll": 1, "program: reader: seek: KafkaError": 3})
    tally.add(Result(draw(1), PASSED, coverage=first))
    tally.add(Result(draw(2), None, "loss", coverage=Counter({"program: reader: poll: KafkaError": 1})))
    tally.add(Result(draw(3), None, "loss"))
    assert tally.faults_without_effect(["kill", "pause"]) == ["pause"]
    assert tally.actions_without_success() == ["reader: seek"]
    assert [result.seed for result in tally.first_of_each()] == [2]


@pytest.mark.parametrize(("count", "code"), [(300, 1), (299, 0)])
def test_a_fault_that_never_has_an_effect_fails_many_seeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int, code: int
) -> None:
    coverage = Counter({f"fault: {kind}": 1 for kind in FAULTS if kind != "pause"})
    results = (Result(replace(SMALL, seed=seed), PASSED, coverage=coverage) for seed in range(count))
    monkeypatch.setattr(seeds, "try_seeds", lambda *_: results)
    assert seeds.main([]) == code
    assert "fault without an effect: pause\n" in capsys.readouterr().out


def test_processes_for_seeds_are_replaced_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SEEDS_PER_PROCESS", 1)
    assert list(trial.in_processes(2, abs, range(-6, 0))) == [6, 5, 4, 3, 2, 1]
