"""What a flag of a command says, `--option` may not say again: one of them would be ignored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from minikafka.cli.arguments.options import client_arguments
from minikafka.cli.main import cli
from minikafka.cli.reference_page import commands

COMMANDS = {
    " ".join(path): command for path, command in commands(cli) if "options" in {each.name for each in command.params}
}
WORDS = {"offset": "earliest", "since": "1970-01-01", "isolation_level": "read_committed", "acks": "all"}
"""A value that not every flag may have."""


class Captured(Exception):
    """The arguments of a client that a command would create."""


def arguments(command: click.Command, words: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | str:
    """The arguments of the client, or the usage error."""

    def capture(*given: Any, **named: Any) -> None:
        raise Captured(client_arguments(*given, **named))

    assert command.callback is not None
    monkeypatch.setattr(sys.modules[command.callback.__module__], "client_arguments", capture)
    ran = CliRunner().invoke(command, ["topic", *words])
    if not isinstance(ran.exception, Captured):
        assert ran.exit_code == 2, ran
        return ran.stderr
    found: dict[str, Any] = ran.exception.args[0]
    return found


def flags(command: click.Command) -> Iterator[tuple[str, list[str]]]:
    """Each flag of a command, and the words that give it."""
    for one in command.params:
        if isinstance(one, click.Option) and one.name not in ("options", "context", "command_config"):
            value = WORDS.get(one.name or "", str(one.type.choices[-1]) if isinstance(one.type, click.Choice) else "1")
            yield one.opts[0], [one.opts[0], *([] if one.is_flag else [value])]


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_of_the_client_that_a_flag_says_is_a_usage_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = COMMANDS[name]
    before = arguments(command, [], monkeypatch)
    assert isinstance(before, dict)
    said = {}
    for flag, words in flags(command):
        found = arguments(command, words, monkeypatch)
        if not isinstance(found, dict):  # This flag needs another one.
            assert flag == "--header", found
            continue
        default = {one.name: one.default for one in command.params}
        chosen = [key for key in found if found[key] != before.get(key, default.get(key))]
        for key in chosen:
            said[flag] = key
            for spelled in (key, key.replace("_", ".")):
                refused = arguments(command, [*words, "--option", f"{spelled}=x"], monkeypatch)
                assert isinstance(refused, str), f"{flag} is ignored"
                assert f"{flag} and --option {spelled} are mutually exclusive" in refused
            alone = arguments(command, ["--option", f"{key}=other"], monkeypatch)
            assert isinstance(alone, dict)
            assert alone[key] in ("other", ["other"]), "a default of the command is replaced"
    assert said["--bootstrap-server"] == "bootstrap_servers"
    assert name != "consume" or said.keys() >= {"--from-beginning", "--offset", "--group", "--exit"}


def test_where_an_offset_is_a_number_the_option_says_what_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--partition", "0", "--offset", "7", "--option", "auto.offset.reset=latest"]
    found = arguments(COMMANDS["consume"], words, monkeypatch)
    assert isinstance(found, dict)
    assert found["auto_offset_reset"] == "latest"
