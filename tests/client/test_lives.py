"""Programs end, wherever their clients live and whatever has become of the broker, with what they have delivered."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.lives import KINDS, RECORDS, WHERE
from support.node import NodeProcess

from minikafka.client.blocking import Admin, Consumer, Producer

TESTS = Path(__file__).parents[1]
END_TIMEOUT_S = 60
"""The programs end within a few seconds; this is how long they have got on a busy machine."""
TIMEOUT_MS = {"well": 60_000, "killed": 5_000, "frozen": 5_000}
"""Of the programs' calls, by what becomes of the broker. Their clients open meanwhile, on a busy machine as well."""
COMPLAINTS = ("Traceback", "never awaited", "never retrieved", "Unraisable", "Exception ignored", "Fatal Python error")
BROKER = {
    "well": lambda node: None,
    "killed": lambda node: node.kill(),
    "frozen": lambda node: os.kill(node.pid, signal.SIGSTOP),
}
CASES = [("idle", "well"), ("idle", "frozen"), ("in flight", "well"), ("in flight", "killed"), ("in flight", "frozen")]
PLACES = [one for one in WHERE if one != "uvloop" or importlib.util.find_spec("uvloop")]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    settings = {"num.partitions": 1, "group.initial.rebalance.delay.ms": 0}
    with NodeProcess(tmp_path / "data", settings=settings) as one:
        with Admin(one.bootstrap) as admin:
            admin.create_topic("lives", partitions=1)
        with Producer(one.bootstrap, transactional_id="the first one waits until the coordinator has its topic"):
            pass
        yield one


def start(where: str, what: str, address: str, timeout_ms: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "support.lives", address, where, what, where.replace(" ", "-")]
    settings = {"PYTHONPATH": str(TESTS), "LIVES_TIMEOUT_MS": str(timeout_ms)}
    environment = {**os.environ, **settings, "PYTHONWARNINGS": "default::RuntimeWarning"}
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, text=True, env=environment, **pipes)


def outcomes(what: str, node: NodeProcess, broker: str) -> dict[str, Any]:
    """Run one program for each place; return the outcomes and complaints by place."""
    programs: dict[str, subprocess.Popen[str]] = {}
    said: dict[str, Any] = {}
    try:
        for place in PLACES:
            program = programs[place] = start(place, what, node.bootstrap, TIMEOUT_MS[broker])
            assert program.stdout is not None
            said[place] = []
            while (line := program.stdout.readline()) != "ready\n":
                assert line, f"{place}: {program.communicate()[1]}"
                said[place].append(line.strip())
        BROKER[broker](node)
        for program in programs.values():
            assert program.stdin is not None
            program.stdin.write("go\n")
            program.stdin.flush()
        for place, program in programs.items():
            out, err = program.communicate(timeout=END_TIMEOUT_S)
            said[place] += out.splitlines()
            said[place] += [f"exit code {program.returncode}"] if program.returncode else []
            said[place] += [line for line in err.splitlines() if any(one in line for one in COMPLAINTS)]
    finally:
        for program in programs.values():
            program.kill()
            program.communicate()
    return said


def expected(place: str, what: str, broker: str) -> set[str]:
    """Lines that each program prints."""
    children = {"fork": {f"child-{kind} ok" for kind in KINDS}, "spawn": {"child ok"}}.get(place, set())
    if broker == "well" or what == "idle" or place == "left by another thread":
        return {*(f"{kind} ok" for kind in KINDS), *children}
    return {"producer ok", *children}


@pytest.mark.sweep
@pytest.mark.parametrize(("what", "broker"), CASES)
def test_every_program_ends(what: str, broker: str, node: NodeProcess) -> None:
    said = outcomes(what, node, broker)
    wrong = {place: lines for place, lines in said.items() if not expected(place, what, broker) <= set(lines)}
    assert not wrong, wrong
    kinds = {f"{kind} " for kind in KINDS} | {"child"}
    assert not {place: lines for place, lines in said.items() if not all(one.startswith(tuple(kinds)) for one in lines)}
    for place, lines in said.items():
        counts = Counter(line.split()[0] for line in lines)
        assert all(counts[kind] == 1 for kind in KINDS), (place, lines)
    if broker == "well" and what == "in flight":
        assert delivered(node) == {place.replace(" ", "-"): 2 * RECORDS for place in PLACES if "another" not in place}


def delivered(node: NodeProcess) -> dict[str, int]:
    """The records by the program that sent them."""
    with Consumer(
        "lives", bootstrap_servers=node.bootstrap, stop_at="end", auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        counts = Counter((record.value or b"").decode() for record in consumer)
    del counts["of a child"]
    return dict(counts)
