"""The entry point: dispatches to subcommands and reports errors in one line."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from minikafka import __version__
from minikafka.cli.terminal.failures import closest, failures_of, wants_json
from minikafka.cli.terminal.output import echo, echo_json
from minikafka.cli.terminal.standard_streams import (
    TerminalClosed,
    failure_before,
    forget_readers,
    is_of_closed_terminal,
    is_unread,
    prepare_streams,
    read_by_nobody,
)

COMMANDS = {
    "server": "Run a node.",
    "storage": "Format data directories, and show what they contain.",
    "cluster": "Run a local cluster, one process per node.",
    "testing": "Run clusters for tests, with faults on demand.",
    "topics": "Create, list, describe, alter and delete topics.",
    "configs": "Describe and alter settings, and the quotas of clients.",
    "produce": "Send lines as records.",
    "consume": "Print records as lines.",
    "groups": "List and describe consumer groups, show their lag, reset their offsets.",
    "offsets": "Show the first offset and the end of partitions, or the offset at a time.",
    "delete-records": "Delete the oldest records of partitions.",
    "top": "Watch brokers, groups and topics with their rates.",
    "health": "Check a cluster; the exit code says whether it is well.",
    "brokers": "List brokers, and how many partitions each leads and has.",
    "log-dirs": "Show the data directories of brokers, and their replicas.",
    "features": "Describe and change features and their levels.",
    "api-versions": "List the APIs of a broker, and their versions.",
    "quorum": "Describe the controller quorum, add and remove voters.",
    "unregister-broker": "Remove a broker that has left the cluster for good.",
    "elect-leaders": "Elect preferred replicas as leaders.",
    "reassign": "Reassign partitions to other brokers.",
    "transactions": "List and describe transactions, find and abort hanging ones.",
    "producers": "Show the producers that partitions know.",
    "acls": "List, add and remove ACLs.",
    "users": "List users of SCRAM, set and delete their passwords.",
    "tokens": "Create, list, renew and end delegation tokens.",
    "dump-log": "Print the contents of log files.",
    "context": "Name clusters, and choose the one that commands use.",
    "completion": "Print a script with which a shell completes commands.",
    "perf": "Measure throughput and latency.",
}
"""Each subcommand's line in `minikafka --help`."""


def module_of(command: str) -> str:
    """The module of a subcommand; the function in it has the module's name."""
    return f"minikafka.cli.commands.{command.replace('-', '_')}"


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is called."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. If nobody reads its output any more, as with `| head`, that is no failure: the exit code is 0.

        Raises TerminalClosed if the terminal is closed, and the failure of the command if it had failed before its
        output was closed.
        """
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except OSError as error:
            if not is_unread(error):
                raise
            end = TerminalClosed() if is_of_closed_terminal(error) else click.exceptions.Exit(0)
            forget_readers()
            failure = failure_before(error)
            if failure is not None:
                raise failure from failure.__cause__
            raise end from None
        return result

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the subcommands, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand. Returns None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(module_of(cmd_name))
        command: click.Command = getattr(module, module.__name__.rpartition(".")[2])
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand of the arguments. Raises click.UsageError for an unknown name, with the closest one."""
        if args[0] not in COMMANDS and (meant := closest(args[0], COMMANDS)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands in the help, from COMMANDS."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Kafka in Python: run nodes, and work with them or with any other Kafka cluster.

    Example: minikafka server --port 9092
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line. Exits with 0, 1 (failure), 2 (usage error) or 130 (Ctrl-C)."""
    from minikafka.protocol.errors import KafkaError

    prepare_streams()
    typed = sys.argv[1:] if arguments is None else arguments
    as_json = wants_json(typed)
    try:
        sys.exit(cli.main(arguments, prog_name="minikafka", standalone_mode=False))
    except click.Abort:
        sys.exit(130)
    except ValueError as error:
        refused = usage_error(error, typed)
        if refused is None:
            raise
        show(refused, as_json=as_json)
        sys.exit(refused.exit_code)
    except (click.ClickException, KafkaError, OSError) as error:
        show(error, as_json=as_json)
        sys.exit(error.exit_code if isinstance(error, click.ClickException) else 1)


def usage_error(error: ValueError, typed: Sequence[str]) -> click.UsageError | None:
    """The usage error for an argument that cannot be sent, as the client has found; None if the error is a bug."""
    from minikafka.client.argument_kinds import BadValue
    from minikafka.protocol.message_errors import UnencodableMessage

    if not all(map(is_utf8, typed)):
        return click.UsageError(f"an argument is not UTF-8, as names and texts must be: {error}")
    if isinstance(error, BadValue):
        return click.UsageError(error.for_users)
    return click.UsageError(f"an argument cannot be sent: {error}") if isinstance(error, UnencodableMessage) else None


def is_utf8(argument: str) -> bool:
    """Whether the bytes of an argument were UTF-8. Other bytes are lone surrogates in the argument."""
    return argument.isascii() or argument.encode(errors="ignore").decode() == argument


def show(error: Exception, *, as_json: bool) -> None:
    """Print an error, unless standard error is closed."""
    with read_by_nobody():
        print_error(error, as_json=as_json)


def print_error(error: Exception, *, as_json: bool) -> None:
    """Print an error in one line, with a hint to the command's help for usage errors; or as JSON."""
    if as_json:
        echo_json({"errors": failures_of(error)}, err=True)
        return
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    context = getattr(error, "ctx", None)
    hint = f" (see `{context.command_path} --help`)" if context is not None else ""
    said = "\n".join(one["message"] for one in failures_of(error))
    echo(f"Error: {said}{hint}", err=True)


if __name__ == "__main__":
    main()
