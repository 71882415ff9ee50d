"""`docs/cli.md` is up to date with the declarations of all commands, and every option has a help text."""

import re
from pathlib import Path

import click

from minikafka.cli.main import COMMANDS, cli
from minikafka.cli.reference_page import cli_page, commands

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == cli_page(), "run `.venv/bin/python -m minikafka.cli.reference_page > docs/cli.md`"


def test_every_command_and_option_has_a_sentence_of_help() -> None:
    helps = {" ".join(path): command.help or "" for path, command in commands(cli, ("minikafka",))}
    for path, command in commands(cli, ("minikafka",)):
        options = [one for one in command.params if isinstance(one, click.Option)]
        helps |= {f"{' '.join(path)} {one.opts[-1]}": one.help or "" for one in options}
    first_paragraphs = {name: text.partition("  [")[0].partition("\n\n")[0] for name, text in helps.items()}
    unfinished = [name for name, text in first_paragraphs.items() if not text.endswith(".")]
    assert unfinished == []


def test_the_list_of_commands_agrees_with_their_help() -> None:
    for path, command in commands(cli):
        if len(path) == 1:
            verb, summary = (command.help or "").split()[0], COMMANDS[path[0]]
            assert summary.startswith(verb), path


def test_the_comparison_names_commands_that_exist() -> None:
    text = (PAGE.parent / "tools.md").read_text()
    cells = [line.split("|")[2] for line in text.splitlines() if line.startswith("| ")]
    named = {part for cell in cells for part in re.findall(r"`([^`]+)`", cell)}
    known = {" ".join(path) for path, _ in commands(cli)}
    options = {one for _, command in commands(cli) for option in command.params for one in option.opts}
    assert sorted(named - known - options) == []
    assert set(COMMANDS) - {name.split()[0] for name in named} == {"server"}
