"""What of the product's code the seeds reach: lines, branches and functions, measured by coverage.py."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage

from simulation.schedule import draw
from simulation.trial import try_schedule

ROOT = Path(__file__).parents[2]
PACKAGES = ("broker", "controller", "storage", "client", "protocol")
LISTED = ("broker", "controller", "storage")
"""The packages whose unreached parts are listed."""
BRANCHES_MAX = 2000


@dataclass
class Unreached:
    """A function that no seed calls, or a branch of one that no seed takes.

    Attributes:
        where: The file, a line and the function.
        lines: How many statements of it no seed runs.
    """

    where: str
    lines: int


def measure(seeds: range) -> list[str]:
    """Run seeds in this process; lines for a person: shares, functions never called, branches never taken."""
    sources = [str(ROOT / package) for package in PACKAGES]
    with tempfile.TemporaryDirectory() as folder:
        measured = coverage.Coverage(data_file=None, branch=True, source=sources, config_file=False)
        measured.start()
        try:
            failed = [seed for seed in seeds if try_schedule(draw(seed)).outcome is None]
        finally:
            measured.stop()
        path = Path(folder, "coverage.json")
        measured.json_report(outfile=str(path))
        files = json.loads(path.read_text())["files"]
    lines = [f"{len(seeds)} seeds, of which {len(failed)} failed: {failed}"]
    return [*lines, *_report({_relative(name): found for name, found in files.items()})]


def _relative(name: str) -> str:
    path = Path(name).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else name


def _report(files: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["", "package: statements, branches reached"]
    lines += [f"  {package}: {_shares(files, package)}" for package in PACKAGES]
    listed = {name: found for name, found in files.items() if name.startswith(LISTED)}
    functions = list(_functions(listed))
    lines += ["", f"{len(functions)} functions of {', '.join(LISTED)} that no seed calls, with their statements"]
    lines += [f"  {one.lines:4} {one.where}" for one in functions]
    branches = list(_branches(listed))
    lines += ["", f"{len(branches)} branches in functions that some seed calls, which no seed takes"]
    return [*lines, *(f"  {one.where}" for one in branches[:BRANCHES_MAX])]


def _shares(files: dict[str, dict[str, Any]], package: str) -> str:
    """Within functions, as modules are imported before the measurement begins."""
    regions = [one["functions"] for name, one in files.items() if name.startswith(f"{package}/")]
    found = [region["summary"] for functions in regions for name, region in functions.items() if name]
    statements = sum(one["covered_lines"] for one in found), sum(one["num_statements"] for one in found)
    branches = sum(one["covered_branches"] for one in found), sum(one["num_branches"] for one in found)
    return ", ".join(f"{reached / total:.0%}" for reached, total in (statements, branches) if total)


def _functions(files: dict[str, dict[str, Any]]) -> Iterator[Unreached]:
    for name, found in sorted(files.items()):
        for function, region in found["functions"].items():
            if function and region["missing_lines"] and not region["executed_lines"]:
                yield Unreached(f"{name}:{region['missing_lines'][0]} {function}", len(region["missing_lines"]))


def _branches(files: dict[str, dict[str, Any]]) -> Iterator[Unreached]:
    """The branches whose line some seed reaches."""
    for name, found in sorted(files.items()):
        for function, region in found["functions"].items():
            for source, target in region["missing_branches"] if region["executed_lines"] else ():
                if source in region["executed_lines"]:
                    to = f"to line {target}" if target > 0 else "to its end"
                    yield Unreached(f"{name}:{source} {to} in {function or 'the module'}", 0)
