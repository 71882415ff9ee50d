"""No command ends with a trace because of a value: too long, too large, negative, of another kind."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import click
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as given_
from hypothesis import strategies as st
from support.command_line import Minikafka, Ran
from support.node import NodeProcess

from minikafka.broker.node.log_writer import LogWriter
from minikafka.cli.main import cli
from minikafka.cli.reference_page import commands
from minikafka.client.blocking import Admin
from minikafka.protocol.visible import visible

LONG = "a" * 33_000
"""Longer than a string of the protocol."""
HUGE = "9" * 25
VALUES = [LONG, HUGE, f"plain:{HUGE}", f"a={HUGE}", f"{LONG}=1", f"retention.ms={LONG}", "-1", "nan", "inf", ""]
ODD = [*VALUES, "b" * 5_000, "9" * 5_000, "-9223372036854775809", "٣", "²", "1_0", "\x1b[31m\n\u202e", "\udcff=\udcfe"]
ODD += ["plain", "plain:0", "plain:", ":", ",", "=", "--", "/", ".", "/dev/null", "0", "1", "%", "\\x", "{}", "é", " "]
ENDS = {
    "server": ["--set", "process.roles=nobody"],
    "cluster": ["--port", "99999"],
    "testing serve": ["--control", "nowhere"],
    "consume": ["--exit"],
    "top": ["--count", "1"],
    "perf produce": ["--records", "1"],
    "perf latency": ["--records", "1"],
    "perf consume": ["--timeout-ms", "1"],
}
"""What has a command end, whatever is before."""
TELL_OTHERWISE = {"health", "cluster status", "storage info"}
"""Their results are of things that are not well, with the exit code 1."""
COMMANDS = {
    " ".join(path): command
    for path, command in commands(cli)
    if path and (not isinstance(command, click.Group) or command.invoke_without_command)
}
CONNECTING = [name for name, one in COMMANDS.items() if "bootstrap_server" in {each.name for each in one.params}]


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


@pytest.mark.slow
@pytest.mark.usefixtures("impatient", "node")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_value_that_cannot_be_is_an_error_in_one_line(
    name: str, minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in VALUES:
        for words in lines(COMMANDS[name], value):
            check(name, minikafka(*name.split(), *words, *ENDS.get(name, [])))


@pytest.mark.usefixtures("impatient", "node")
@pytest.mark.parametrize("name", CONNECTING)
def test_an_address_without_a_broker_is_told_in_words_of_the_command_line(name: str, minikafka: Minikafka) -> None:
    needed = [one for one in COMMANDS[name].params if one.required or isinstance(one, click.Argument)]
    words = [word for one in needed for word in given(one, "1")]
    ran = minikafka(*name.split(), *words, *ENDS.get(name, []), "--bootstrap-server", "127.0.0.1:1")
    assert "bootstrap_server" not in ran.err, "that is the argument of the client"
    check(name, ran)


def check(name: str, ran: Ran) -> None:
    """Fail unless a command has succeeded, or told in short lines without escapes why not."""
    assert ran.code in (0, 1, 2), ran
    assert ran.code == 0 or name in TELL_OTHERWISE or "Error: " in ran.err or '{"errors": [' in ran.err, ran
    assert "Traceback" not in ran.err
    assert max(map(len, ran.err.split("\n"))) < 2_000, ran
    assert visible(ran.out + ran.err, lines=True) == ran.out + ran.err


@pytest.fixture(autouse=True)
def not_the_log_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """`server` runs here: its log would stay on a standard error that is closed."""
    monkeypatch.setattr("minikafka.broker.node.main.log_to_stderr", lambda levels, *, colors: LogWriter(StringIO()))


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A command with odd values for some of what it declares, and with some of its flags."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    words: list[str] = []
    for one in COMMANDS[name].params:
        if isinstance(one, click.Option) and not draw(st.booleans()):
            continue
        if isinstance(one, click.Option) and one.is_flag:
            words += one.opts[:1]
        elif isinstance(one.type, click.Choice) and draw(st.booleans()):
            words += given(one, "")
        else:
            words += [*one.opts[:1], draw(st.sampled_from(ODD))] if isinstance(one, click.Option) else []
            words += [draw(st.sampled_from(ODD))] if isinstance(one, click.Argument) else []
    return name, [one for one in words if one not in UNTIL_CTRL_C]


UNTIL_CTRL_C = ("--watch", "--help", "--attach")


@pytest.mark.slow
@pytest.mark.usefixtures("impatient", "node")
@settings(max_examples=400, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given_(command_lines())
def test_whatever_is_combined_ends_in_one_clear_sentence(
    minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: tuple[str, list[str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    name, words = line
    check(name, minikafka(*name.split(), *words, *ENDS.get(name, [])))
