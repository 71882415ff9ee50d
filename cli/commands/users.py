"""`minikafka users`: the users that log in with SCRAM, and their passwords (KIP-554)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import client_options
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import json_option, output, report
from minikafka.cli.terminal.tables import table
from minikafka.protocol.shortened import shortened
from minikafka.protocol.visible import visible

if TYPE_CHECKING:
    from minikafka.client import Admin

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_mechanism = click.option(
    "--mechanism", type=click.Choice(MECHANISMS), default="SCRAM-SHA-512", show_default=True, help="SCRAM mechanism."
)


@click.group()
def users() -> None:
    """List users that log in with SCRAM; set and delete their passwords.

    Example: minikafka users set alice
    """


@users.command("list")
@client_options
@click.argument("names", nargs=-1, metavar="[USER]...")
@json_option
def list_users(bootstrap_server: str, names: tuple[str, ...], as_json: bool) -> None:
    """List users with their mechanisms and iterations. Nobody can read a password.

    Example: minikafka users list
    """

    async def work(admin: Admin) -> None:
        from minikafka.client import KafkaError

        found = await admin.describe_user_scram_credentials(names or None)
        errors = [one for one in found.values() if isinstance(one, KafkaError)]
        known = {user: one for user, one in found.items() if not isinstance(one, KafkaError)}
        rows = [[user, mechanism, count] for user, kinds in known.items() for mechanism, count in sorted(kinds.items())]
        lines = table(("user", "mechanism", "iterations"), rows) if rows else ["No users."]
        report(known, lines, errors, done=len(known), as_json=as_json)

    with_admin(bootstrap_server, work)


@users.command("set")
@client_options
@click.argument("user")
@_mechanism
@click.option(
    "--iterations", type=Whole(4096, 16_384), default=4096, show_default=True, help="More rounds make guessing slower."
)
@click.option(
    "--password-file",
    type=click.File(),
    metavar="FILE",
    help="Read the password from the first line of a file, or of standard input for -; otherwise it is asked for.",
)
@json_option
def set_password(
    bootstrap_server: str, user: str, mechanism: str, iterations: int, password_file: TextIO | None, as_json: bool
) -> None:
    """Set the password of a USER, who may be new.

    Example: minikafka users set alice --password-file secret.txt
    """
    password = _asked(user) if password_file is None else password_file.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("the password is empty")

    async def work(admin: Admin) -> None:
        await admin.upsert_user_scram_credential(user, password, mechanism=mechanism, iterations=iterations)
        lines = [f"Set the password of {user} for {mechanism}."]
        output({"user": user, "mechanism": mechanism, "iterations": iterations}, lines, as_json=as_json)

    with_admin(bootstrap_server, work)


def _asked(user: str) -> str:
    """Ask for a password on the terminal. Raises click.UsageError if there is none."""
    if not sys.stdin.isatty():
        raise click.UsageError("standard input is no terminal to ask for the password on: give --password-file")
    text = f"Password of {visible(shortened(user))}"
    return str(click.prompt(text, hide_input=True, confirmation_prompt=True, err=True))


@users.command()
@client_options
@click.argument("user")
@_mechanism
@json_option
def delete(bootstrap_server: str, user: str, mechanism: str, as_json: bool) -> None:
    """Delete the password of a USER for a mechanism. Open connections stay.

    Example: minikafka users delete alice
    """

    async def work(admin: Admin) -> None:
        await admin.delete_user_scram_credential(user, mechanism=mechanism)
        lines = [f"Deleted the password of {user} for {mechanism}."]
        output({"user": user, "mechanism": mechanism}, lines, as_json=as_json)

    with_admin(bootstrap_server, work)
