"""The outside world enters the client through `seams.py`, the shells and `blocking.py`, and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[2] / "client"
ALLOWED = {
    "seams.py": {"time", "sniffio"},
    "shell_asyncio.py": {"asyncio", "sniffio"},
    "shell_trio.py": {"trio", "socket"},
    "blocking.py": {"threading"},
}
WORLD = {"time", "asyncio", "trio", "sniffio", "threading", "socket", "uuid", "os", "subprocess", "tempfile", "shutil"}


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
            if node.module == "random":
                names |= {f"random.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", sorted(CLIENT.glob("*.py")), ids=lambda path: path.name)
def test_only_listed_files_touch_the_world(path: Path) -> None:
    used = imports(path) & WORLD
    assert used <= ALLOWED.get(path.name, set())
    assert {name for name in imports(path) if name.startswith("random.")} <= {"random.Random"}
