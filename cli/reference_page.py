"""Generates the reference page of the command line, `docs/cli.md`, from the declarations of all commands.

After a change of a command, run `make pages`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from minikafka.cli.arguments.numbers import limits
from minikafka.cli.main import cli

_INTRODUCTION = """\
# The command line

Made from the declarations in `cli/`; a test checks that this page is up to date. `minikafka COMMAND --help` prints the
same.

Results go to standard output; logs, progress and errors to standard error. Exit codes: 0 success, 1 failure,
2 usage error, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP (a closed terminal). `server` exits with 0 after
Ctrl-C, SIGTERM and SIGHUP, and `cluster` after SIGTERM: they have shut down cleanly.

With `--json` a command prints its result as one line of JSON (`consume`, `top` and `dump-log` one for each record or
look), and its errors as one line on standard error:
`{"errors": [{"code": "TOPIC_ALREADY_EXISTS", "number": 36, "message": "…"}]}`. `code` is the name of Kafka's error with
its number, that of the operating system (`ENOENT`), `USAGE`, or `FAILED` where there is no other. A command that has
done a part prints it and the errors. `produce --json` reads JSON, and prints errors as text.
"""


def cli_page() -> str:
    """The page, in Markdown."""
    return "\n".join([_INTRODUCTION, *(_section(path, command) for path, command in commands(cli, ("minikafka",)))])


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and all its subcommands, each with its path."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            if subcommand is not None:
                yield from commands(subcommand, (*path, name))


def _section(path: tuple[str, ...], command: click.Command) -> str:
    arguments = [_argument(one) for one in command.params if isinstance(one, click.Argument)]
    options = [_option(one) for one in command.params if isinstance(one, click.Option)]
    words = [*path, *(["[OPTIONS]"] if options else []), *_subcommand(command)]
    lines = [f"## {' '.join(path)}", "", *_fenced([" ".join([*words, *arguments])]), "", *_blocks(command.help or "")]
    lines += [*options, ""] if options else []
    return "\n".join(lines + _blocks(command.epilog or ""))


def _subcommand(command: click.Command) -> list[str]:
    if not isinstance(command, click.Group):
        return []
    return ["[COMMAND]" if command.invoke_without_command else "COMMAND"]


def _blocks(text: str) -> list[str]:
    r"""Help text as Markdown: examples and blocks that follow a `\b` are preformatted."""
    lines: list[str] = []
    for block in inspect.cleandoc(text).split("\n\n"):
        if not block:
            continue
        if block.startswith("\b\n"):
            title, *rest = block.removeprefix("\b\n").splitlines()
            lines += [title, "", *_fenced([line.removeprefix("  ") for line in rest])]
        elif block.startswith("Example: "):
            lines += ["Example:", "", *_fenced([block.removeprefix("Example: ")])]
        else:
            lines += block.splitlines()
        lines.append("")
    return lines


def _fenced(lines: list[str]) -> list[str]:
    return ["```text", *lines, "```"]


def _argument(argument: click.Argument) -> str:
    name = argument.metavar or (argument.name or "").upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required or argument.metavar else f"[{name}]"


def _option(option: click.Option) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    value = "" if option.is_flag else f" {_value(option)}"
    facts = [f"env var: {option.envvar}"] if option.show_envvar else []
    default = option.show_default if isinstance(option.show_default, str) else _shown(option.default)
    facts += [f"default: {default}"] if option.show_default else []
    suffix = f" [{'; '.join(facts)}]" if facts else ""
    return f"- `{names}{value}`: {' '.join((option.help or '').split())}{suffix}"


def _value(option: click.Option) -> str:
    """The placeholder of an option's value, with its limits."""
    kind = option.type
    if isinstance(kind, click.Choice):
        return "|".join(map(str, kind.choices))
    range_ = limits(kind) if isinstance(kind, click.IntRange | click.FloatRange) else ""
    return (option.metavar or kind.name.removesuffix(" range").upper()) + (f" ({range_})" if range_ else "")


def _shown(default: object) -> str:
    return default.decode() if isinstance(default, bytes) else str(default)


if __name__ == "__main__":
    click.echo(cli_page(), nl=False)
