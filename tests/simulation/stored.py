"""Schedules as text: the files in `failed/`, and the options of the command that make a seed's schedule smaller.

What a number means changes with the code that draws from it. So a schedule that failed is kept whole, in TOML:

    found = "what was broken, and why"
    seed = 123
    layout = "3"
    quorum = "fixed"
    secured = true
    durable = false
    transaction_versions = [2]
    lasts_s = 4.2
    programs = ["0 idempotent producer"]
    groups = ["eager 2"]
    faults = [
        "0.371 s: 3 kill",
    ]

    [settings]
    "min.insync.replicas" = "2"
"""

from __future__ import annotations

import json
import tomllib
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from simulation.schedule import FaultAt, ProgramAt, Schedule, draw
from simulation.world.quorums import FIXED

FAILED = Path(__file__).parent / "failed"


def to_toml(schedule: Schedule, found: str) -> str:
    """The text of a file in `failed/`.

    Args:
        found: What was broken, and why.
    """
    faults = "".join(f"    {_quoted(f'{one.at_s} s: {one.number} {one.kind}')},\n" for one in schedule.faults)
    lines = [
        f"found = {_quoted(found)}",
        f"seed = {schedule.seed}",
        f"layout = {_quoted(schedule.layout)}",
        f"quorum = {_quoted(schedule.quorum)}",
        *(["secured = true"] if schedule.secured else []),
        f"durable = {str(schedule.durable).lower()}",
        f"transaction_versions = {list(schedule.transaction_versions)}",
        f"lasts_s = {float(schedule.lasts_s)}",
        f"programs = [{', '.join(_quoted(f'{one.number} {one.name}') for one in schedule.programs)}]",
        f"groups = [{', '.join(_quoted(f'{name} {count}') for name, count in schedule.groups)}]",
        f"faults = [\n{faults}]",
        "",
        "[settings]",
        *(f"{_quoted(name)} = {_quoted(value)}" for name, value in schedule.settings),
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A basic string of TOML, which is one of JSON."""
    return json.dumps(text, ensure_ascii=False)


def from_toml(text: str) -> Schedule:
    """The schedule of a file in `failed/`. Raises KeyError, ValueError."""
    given: dict[str, Any] = tomllib.loads(text)
    return Schedule(
        given["seed"],
        given["layout"],
        tuple(given["settings"].items()),
        given["durable"],
        tuple(ProgramAt(int(number), name) for number, _, name in (one.partition(" ") for one in given["programs"])),
        tuple((name, int(count)) for name, _, count in (one.rpartition(" ") for one in given["groups"])),
        given["lasts_s"],
        tuple(map(_fault, given["faults"])),
        tuple(given.get("transaction_versions", (2,))),
        given.get("quorum", FIXED),
        given.get("secured", False),
    )


def _fault(text: str) -> FaultAt:
    at_s, _, what = text.partition(" s: ")
    number, _, kind = what.partition(" ")
    return FaultAt(int(number), float(at_s), kind)


def to_options(schedule: Schedule) -> list[str]:
    """The options with which the command runs this schedule, which is that of its seed without some parts."""
    kinds = [one.kind for one in schedule.faults]
    whole = draw(schedule.seed)
    options = ["--seed", str(schedule.seed)]
    if not {*kinds} <= {one.kind for one in whole.faults}:
        return options  # other kinds were asked for: the file has them
    kept = {name for name, _ in schedule.settings}
    if schedule.layout != whole.layout:
        options += ["--layout", schedule.layout]
    if schedule.lasts_s != whole.lasts_s:
        options += ["--lasts", f"{schedule.lasts_s:g}"]
    if schedule.faults != whole.faults:
        options += ["--only-faults", ",".join(str(one.number) for one in schedule.faults)]
    if schedule.programs != whole.programs:
        options += ["--only-programs", ",".join(str(one.number) for one in schedule.programs)]
    if schedule.groups != whole.groups:
        options += ["--groups", ",".join(f"{name}={count}" for name, count in schedule.groups)]
    if schedule.settings != whole.settings:
        options += ["--defaults", ",".join(name for name, _ in whole.settings if name not in kept)]
    return options


def from_options(options: Namespace) -> Schedule:
    """The schedule of the seed in these options, without the parts that they leave out. Raises ValueError."""
    schedule = draw(options.seed, options.faults.split(",") if options.faults else [])
    if options.layout is not None:
        schedule = replace(schedule, layout=options.layout)
    if options.lasts is not None:
        schedule = replace(schedule, lasts_s=options.lasts)
    if options.only_faults is not None:
        schedule = schedule.without("faults", _others(schedule, "faults", options.only_faults))
    if options.only_programs is not None:
        schedule = schedule.without("programs", _others(schedule, "programs", options.only_programs))
    if options.groups is not None:
        pairs = (one.partition("=") for one in _split(options.groups))
        schedule = replace(schedule, groups=tuple((name, int(count)) for name, _, count in pairs))
    if options.defaults is not None:
        schedule = schedule.without("settings", _split(options.defaults))
    return schedule


def _others(schedule: Schedule, kind: str, kept: str) -> list[Any]:
    numbers = [int(number) for number in _split(kept)]
    return [part for part in schedule.parts()[kind] if part not in numbers]


def _split(text: str) -> list[str]:
    return text.split(",") if text else []
