"""No command ends with a trace because of a value: too long, too large, negative, of another kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.command_line import Minikafka
from support.node import NodeProcess

from minikafka.cli.main import cli
from minikafka.cli.reference_page import commands
from minikafka.client.blocking import Admin

LONG = "a" * 33_000
"""Longer than a string of the protocol."""
HUGE = "9" * 25
VALUES = [LONG, HUGE, f"plain:{HUGE}", f"a={HUGE}", f"{LONG}=1", f"retention.ms={LONG}", "-1", "nan", "inf", ""]
WITHOUT_END = {"server", "cluster", "top", "perf produce", "perf consume", "perf latency", "context use"}
ENDS = {"consume": ["--exit"]}


COMMANDS = {
    name: command
    for path, command in commands(cli)
    if (name := " ".join(path[1:] if path[:1] == ("minikafka",) else path)) not in WITHOUT_END
    and (not isinstance(command, click.Group) or command.invoke_without_command)
}


def given(parameter: click.Parameter, value: str) -> list[str]:
    """The words of an argument or option; the first choice where there is one."""
    if isinstance(parameter.type, click.Choice):
        value = str(parameter.type.choices[0])
    return [parameter.opts[0], value] if isinstance(parameter, click.Option) else [value]


def lines(command: click.Command, value: str) -> Iterator[list[str]]:
    """The value for all arguments and required options, and for each option in turn."""
    needed = [one for one in command.params if one.required or isinstance(one, click.Argument)]
    yield [word for one in needed for word in given(one, value)]
    for option in command.params:
        if isinstance(option, click.Option) and not option.is_flag and option not in needed:
            rest = [word for one in needed for word in given(one, "plain")]
            yield [*given(option, value), *rest]
            yield [*given(option, value), *(word for one in needed for word in given(one, value))]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node of this module, since commands may change it."""
    with NodeProcess(tmp_path_factory.mktemp("careless") / "data") as node:
        with Admin(node.bootstrap) as admin:
            admin.create_topic("plain", partitions=1)
        yield node


@pytest.mark.usefixtures("impatient", "node")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_value_that_cannot_be_is_an_error_in_one_line(
    name: str, minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in VALUES:
        for words in lines(COMMANDS[name], value):
            ran = minikafka(*name.split(), *words, *ENDS.get(name, []))
            assert ran.code in (0, 1, 2), ran
