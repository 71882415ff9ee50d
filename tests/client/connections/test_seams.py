"""The outside world enters the client through `seams.py`, the two socket files and `blocking/`, and nowhere else.

`security/daemon_calls.py` calls functions of the application that may never return.

`user_code.py` has a variable of each thread, for `blocking/`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[3] / "client"
ALLOWED = {
    "connections/seams.py": {"os", "time", "sniffio"},
    "connections/asyncio_socket.py": {"asyncio", "sniffio"},
    "connections/trio_socket.py": {"trio", "socket"},
    "security/tls_contexts.py": {"os", "tempfile"},  # Python's `ssl` reads private keys from files only.
    "blocking/consumer.py": {"threading"},
    "blocking/loop_thread.py": {"threading", "asyncio", "sniffio", "time"},
    "blocking/blocking_client.py": {"os", "time"},
    "security/daemon_calls.py": {"asyncio", "sniffio", "threading", "trio"},
    "user_code.py": {"threading"},  # What a thread of `blocking/` does with an error that ends the program.
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


@pytest.mark.parametrize("path", sorted(CLIENT.rglob("*.py")), ids=lambda path: path.relative_to(CLIENT).as_posix())
def test_only_listed_files_touch_the_world(path: Path) -> None:
    used = imports(path) & WORLD
    assert used <= ALLOWED.get(path.relative_to(CLIENT).as_posix(), set())
    assert {name for name in imports(path) if name.startswith("random.")} <= {"random.Random"}
