"""What commands print: a table for people or JSON for programs, and words that several commands have in common."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from minikafka.cli.failures import fail_if
from minikafka.protocol.visible import visible, visible_json

SET_BY = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "server file",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}
"""The source of a setting by its number in Kafka's protocol (`ConfigSource`)."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, of errors too.")


def output(details: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print `details` as JSON in one line, or `lines`; a newline within one of them is escaped."""
    if as_json:
        echo_json(details)
    elif text := "\n".join(map(visible, lines)):
        click.echo(text)


def report(details: Any, lines: Iterable[str], errors: Iterable[object], *, done: int, as_json: bool) -> None:
    """Print what was done of what a command was to do, as `output`, and nothing if all of it failed.

    Raises `Failed` with the errors, as `fail_if`.
    """
    failed = list(errors)
    if done or not failed:
        output(details, lines, as_json=as_json)
    fail_if(failed)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text, on standard error with `err`: the only way of commands to a terminal, but for records and progress.

    Control characters other than newlines and tabs are escaped, as names and errors are from others.
    """
    click.echo(visible(text, lines=True), err=err, nl=nl)


def echo_json(details: Any, *, err: bool = False) -> None:
    """Print JSON in one line."""
    click.echo(visible_json(json.dumps(details)), err=err)
