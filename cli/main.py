"""The entry point: finds the subcommand, turns errors into one line."""

import importlib
import sys
from typing import NoReturn

import click

COMMANDS = {
    "server": "minikafka.cli.server:server",
    "topics": "minikafka.cli.topics:topics",
    "produce": "minikafka.cli.produce:produce",
    "consume": "minikafka.cli.consume:consume",
    "dump-log": "minikafka.cli.dump_log:dump_log",
    "perf": "minikafka.cli.perf:perf",
}


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one; None if there is no such command."""
        where = COMMANDS.get(cmd_name)
        if where is None:
            return None
        module, _, name = where.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="minikafka")
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
        error.show()
        sys.exit(error.exit_code)
    except KafkaError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        click.echo(f"Error: {error.strerror or error}{where}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
