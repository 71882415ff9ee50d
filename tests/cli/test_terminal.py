"""No command prints what a terminal obeys: neither names that others chose, nor what was typed, nor keys and values."""

from __future__ import annotations

import ast
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.command_line import Minikafka, patient_command
from support.node import NodeProcess

from minikafka.cli.main import COMMANDS, cli
from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.protocol.visible import visible

CLI = Path(sys.modules["minikafka.cli"].__path__[0])
NASTY = "n\x1b[31m\r\x07\x9b2J\u202e\x7fx\nFORGED"
TYPED = "t\x1b[31m\r\x07\x9b2J\u202e\x7f\udc80x"
"""On the command line, where bytes that are not UTF-8 are lone surrogates."""
OWN_SCREEN = {"output.py", "reference_page.py", "progress.py", "redraw.py", "cluster_view.py", "__main__.py"}
"""These print for all others, or draw on the terminal themselves; `__main__.py` ends a line, and can import nothing."""
RUNS_ON = {"server", "cluster", "testing serve", "top", "perf produce", "perf consume"}
"""Commands that may not end by themselves."""


def check(text: str) -> None:
    """Fail if a text holds what a terminal obeys, or a line that a name has forged."""
    assert visible(text, lines=True) == text
    assert not any(line.startswith("FORGED") for line in text.splitlines())


def leaves(group: click.Group = cli, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaves(found, *path, name)
        if not isinstance(found, click.Group) or found.invoke_without_command:
            yield (*path, name), found


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node of this module, whose groups and ids have nasty names."""
    with NodeProcess(tmp_path_factory.mktemp("terminal") / "data", settings={"broker.rack": "r\x1b[31m"}) as node:
        name_everything(node.bootstrap)
        yield node


def name_everything(bootstrap: str) -> None:
    from minikafka.client import TopicPartition

    with Admin(bootstrap) as admin:
        admin.create_topic("plain", partitions=1)
        admin.alter_group_offsets(f"idle {NASTY}", {TopicPartition("plain", 0): 0})
    with Producer(bootstrap, transactional_id=NASTY, client_id=NASTY) as producer, producer.transaction():
        producer.send("plain", NASTY.encode() + b"\xff", key=NASTY.encode(), headers=[(NASTY, NASTY.encode())]).result()


def test_no_module_prints_by_another_way() -> None:
    for path in sorted(CLI.glob("*.py")):
        for found in ast.walk(ast.parse(path.read_text())):
            if isinstance(found, ast.Call) and path.name not in OWN_SCREEN:
                called = ast.unparse(found.func)
                assert called not in ("print", "click.echo", "click.secho", "click.echo_via_pager"), path.name
                assert not called.endswith(("stdout.write", "stderr.write")), path.name


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", [" ".join(path) for path, _ in leaves() if " ".join(path) not in RUNS_ON])
def test_what_was_typed_is_escaped(name: str, minikafka: Minikafka, tmp_path: Path) -> None:
    command = next(found for path, found in leaves() if " ".join(path) == name)
    words = name.split()
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    options = [one for one in command.params if isinstance(one, click.Option) and not one.is_flag]
    given = [TYPED] * len(arguments)
    for more in [[], [f"--{TYPED}"], *([one.opts[0], TYPED] for one in options)]:
        ran = minikafka(*words, *more, *given)
        check(ran.out)
        check(ran.err)
    assert minikafka("--", TYPED).code == 2
    check(minikafka(*words, "--json", *given).err)


@pytest.mark.parametrize(
    "words",
    [
        ["groups", "list"],
        ["groups", "describe"],
        ["groups", "members"],
        ["groups", "lag"],
        ["groups", "lag", f"idle {NASTY}"],
        ["groups", "reset-offsets", f"idle {NASTY}", "--all-topics", "--to-latest"],
        ["transactions", "list"],
        ["transactions", "describe", NASTY],
        ["producers", "plain"],
        ["configs", "describe", "client", NASTY],
        ["brokers"],
        ["health"],
        ["top", "--count", "1"],
    ],
    ids=" ".join,
)
def test_what_others_have_named_is_escaped(words: list[str], minikafka: Minikafka, node: NodeProcess) -> None:
    ids = {"group_id": f"busy {NASTY}", "client_id": NASTY, "group_instance_id": NASTY}
    with Consumer(bootstrap_servers=node.bootstrap, **ids) as member:
        member.subscribe(["plain"])
        member.poll(0)
        ran = minikafka(*words)
        check(ran.out)
        check(ran.err)
        assert ran.code == 0, ran.err
        as_json = minikafka(*words, "--json")
    check(as_json.out)
    for line in as_json.out.splitlines():
        json.loads(line)


def test_logs_are_shown_escaped(minikafka: Minikafka, node: NodeProcess) -> None:
    files = sorted(str(path) for path in node.data_dir.glob("*-*/*.log"))
    assert len(files) > 50
    ran = minikafka("dump-log", *files)
    assert "FORGED" in ran.out
    check(ran.out)
    ran = minikafka("dump-log", "--json", *[one for one in files if "/plain-0/" in one])
    check(ran.out)
    assert json.loads(json.loads(ran.lines[0])["key"]) == NASTY


FORMAT = ("--format", "%k|%v|%h")


@pytest.mark.parametrize("words", [(), FORMAT, ("--json",)])
def test_a_terminal_obeys_no_record(words: tuple[str, ...], node: NodeProcess) -> None:
    ours, theirs = pty.openpty()
    asked = patient_command(["consume", "plain", "--from-beginning", "--exit", "-b", node.bootstrap, *words])
    with subprocess.Popen(asked, stdout=theirs, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        shown = b""
        while more := read_terminal(ours):
            shown += more
    os.close(ours)
    text = shown.decode().replace("\r\n", "\n")
    assert visible(text, lines=True) == text
    assert "\\x1b" in text or "\\u001b" in text
    assert process.returncode == 0


def read_terminal(descriptor: int) -> bytes:
    """What a terminal receives; nothing at its end."""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""


def test_a_pipe_receives_the_bytes_of_records(node: NodeProcess) -> None:
    words = ["consume", "plain", "--from-beginning", "--exit", "-b", node.bootstrap, *FORMAT]
    ran = subprocess.run(patient_command(words), capture_output=True, check=True)
    nasty = NASTY.encode()
    assert ran.stdout == nasty + b"|" + nasty + b"\xff|" + nasty + b"=" + nasty + b"\n"


def test_every_command_is_known() -> None:
    assert {path[0] for path, _ in leaves()} == set(COMMANDS)
