"""The entry point: finds the subcommand, turns errors into one line."""

import importlib
import sys
from typing import NoReturn

import click

from minikafka import __version__

COMMANDS = {
    "server": ("minikafka.cli.server:server", "Run a node."),
    "cluster": ("minikafka.cli.cluster:cluster", "Run a local cluster, each node a process."),
    "topics": ("minikafka.cli.topics:topics", "Create, list, describe, alter and delete topics."),
    "produce": ("minikafka.cli.produce:produce", "Send lines as records."),
    "consume": ("minikafka.cli.consume:consume", "Print records as lines."),
    "quorum": ("minikafka.cli.quorum:quorum", "Show the quorum of controllers."),
    "elect-leaders": ("minikafka.cli.elect_leaders:elect_leaders", "Have preferred replicas lead again."),
    "reassign": ("minikafka.cli.reassign:reassign", "Move partitions to other brokers."),
    "dump-log": ("minikafka.cli.dump_log:dump_log", "Show the files of a log in words."),
    "perf": ("minikafka.cli.perf:perf", "Measure how fast records go in and out."),
}
"""Where each subcommand is, and what it does in a few words: `minikafka --help` imports none of them."""


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Kafka in Python: run nodes, and use them or any other Kafka.

    Example: minikafka server --port 9092
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; exits with 0, 1 (it failed), 2 (it was used wrongly) or 130 (Ctrl-C)."""
    from minikafka.protocol.errors import KafkaError

    try:
        sys.exit(cli.main(arguments, prog_name="minikafka", standalone_mode=False))
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        show(error)
        sys.exit(error.exit_code)
    except KafkaError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        click.echo(f"Error: {error.strerror or error}{where}", err=True)
        sys.exit(1)


def show(error: click.ClickException) -> None:
    """One line: what was wrong, and where to read how it is done where that would help."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    context = getattr(error, "ctx", None)
    hint = f" (see `{context.command_path} --help`)" if context is not None else ""
    click.echo(f"Error: {error.format_message()}{hint}", err=True)


if __name__ == "__main__":
    main()
