"""Commands whose output is closed, full, or a terminal that obeys no escape sequences."""

from __future__ import annotations

import os
import pty
import subprocess
from io import StringIO
from pathlib import Path

import click
import pytest
from support.command_line import command
from support.node import NodeProcess

from minikafka.cli.terminal.progress import NoProgress, progress
from minikafka.cli.terminal.redraw import Redrawing
from minikafka.cli.terminal.standard_streams import failure_before

WRITE = [
    "topics list --json",
    "brokers",
    "health",
    "api-versions",
    "top --count 1",
    "top --count 1 --json",
    "quorum describe",
    "features describe",
    "dump-log FILE",
    "--help",
]


def environment(node: NodeProcess) -> dict[str, str]:
    return {**os.environ, "MINIKAFKA_BOOTSTRAP_SERVER": node.bootstrap}


def words(line: str, tmp_path: Path) -> list[str]:
    (tmp_path / "a-0").mkdir()
    log = tmp_path / "a-0" / "00000000000000000000.log"
    log.write_bytes(b"")
    return command([str(log) if one == "FILE" else one for one in line.split()])


@pytest.mark.parametrize("line", WRITE)
def test_a_full_disk_is_told_once(line: str, node: NodeProcess, tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            words(line, tmp_path), stdout=full, stderr=subprocess.PIPE, env=environment(node), check=False, text=True
        )
    assert ran.returncode == 1
    (said,) = [one for one in ran.stderr.splitlines() if "still waiting" not in one]
    assert "cannot write: No space left on device" in said


@pytest.mark.parametrize(("line", "exit_code"), [("consume --help", 0), ("consume…", 2)])
def test_what_an_output_cannot_encode_is_escaped(line: str, exit_code: int) -> None:
    """The help of `consume` has an ellipsis on standard output, and the error quotes one on standard error."""
    ran = subprocess.run(
        command(line.split()), capture_output=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"}, check=False
    )
    assert ran.returncode == exit_code
    assert rb"\u2026" in ran.stdout + ran.stderr
    assert b"Traceback" not in ran.stderr


@pytest.mark.parametrize("line", [one for one in WRITE if one != "--help"])
def test_output_that_nobody_reads_is_no_failure(line: str, node: NodeProcess, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        words(line, tmp_path), stdout=writing, stderr=subprocess.PIPE, env=environment(node), check=False, text=True
    )
    os.close(writing)
    assert ran.returncode == 0
    assert [one for one in ran.stderr.splitlines() if "still waiting" not in one] == []


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("line", WRITE)
def test_streams_that_are_closed_are_no_failure(
    line: str, closed: tuple[int, ...], node: NodeProcess, tmp_path: Path
) -> None:
    shell = f'exec "$@" {" ".join(f"{number}>&-" for number in closed)}'
    ran = subprocess.run(
        ["sh", "-c", shell, "sh", *words(line, tmp_path)],
        capture_output=True, env=environment(node), check=False, text=True,
    )  # fmt: skip
    assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), ran.stderr


def ended_unread(line: list[str], stdin: bytes, *, err: bool) -> int:
    """The exit code of a command whose output, of errors too, nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = subprocess.run(
            command(line), input=stdin, stdout=writing, stderr=writing if err else None, check=False
        )
    finally:
        os.close(writing)
    return ran.returncode


@pytest.mark.slow
@pytest.mark.parametrize(("stdin", "code"), [(b'{"value": "x"}\n', 0), (b'{"value": "x"}\n{\n', 1)])
def test_a_failure_is_one_though_nobody_reads_of_it(stdin: bytes, code: int, node: NodeProcess, topic: str) -> None:
    line = ["produce", topic, "--json", "--bootstrap-server", node.bootstrap]
    assert ended_unread(line, stdin, err=True) == code


def test_a_usage_error_is_one_though_nobody_reads_it() -> None:
    assert ended_unread(["topics", "describe", "--nonsense"], b"", err=True) == 2


@pytest.mark.parametrize(("before", "found"), [
    (ValueError("why"), True), (click.ClickException("why"), True), (click.exceptions.Exit(1), True),
    (click.exceptions.Exit(0), False), (BrokenPipeError(), False), (None, False),
])  # fmt: skip
def test_the_failure_before_the_output_is_found(before: Exception | None, found: bool) -> None:
    unread = BrokenPipeError()
    unread.__context__ = BrokenPipeError()
    unread.__context__.__context__ = before
    assert failure_before(unread) is (before if found else None)


@pytest.mark.parametrize(("term", "has_escapes"), [("xterm", True), ("dumb", False)])
def test_a_dumb_terminal_gets_no_escape_sequences(
    term: str, has_escapes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        screen = Redrawing(terminal)
        screen.show(["one"])
        screen.show(["two"])
        drawn = b""
        while b"two" not in drawn:
            drawn += os.read(ours, 1000)
        monkeypatch.setattr("sys.stderr", terminal)
        assert (type(progress()) is NoProgress) != has_escapes
    os.close(ours)
    assert (b"\x1b" in drawn) == has_escapes
    assert b"one" in drawn


def test_what_is_no_terminal_gets_no_escape_sequences() -> None:
    out = StringIO()
    screen = Redrawing(out)
    screen.show(["one"])
    screen.show(["two"])
    assert out.getvalue() == "one\n\ntwo\n"
