"""Prints the results of commands, as a table for people or JSON for programs; has words that commands share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from minikafka.cli.terminal.failures import fail_if
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

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result and errors as JSON.")


def output(details: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print `details` as JSON in one line, or print `lines`; a newline within a line is escaped."""
    if as_json:
        echo_json(details)
    elif text := "\n".join(map(visible, lines)):
        click.echo(text)


def report(details: Any, lines: Iterable[str], errors: Iterable[object], *, done: int, as_json: bool) -> None:
    """Print the result of a command that may have failed in part, like `output`; print nothing if all of it failed.

    Raises `Failed` with the errors, if there are any.
    """
    failed = list(errors)
    if done or not failed:
        output(details, lines, as_json=as_json)
    fail_if(failed)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text, on standard error with `err`. Commands print everything but records and progress with `echo`.

    Control characters other than newlines and tabs are escaped, because the text may contain names and errors that come
    from other systems.
    """
    click.echo(visible(text, lines=True), err=err, nl=nl)


def echo_json(details: Any, *, err: bool = False) -> None:
    """Print JSON in one line."""
    click.echo(visible_json(json.dumps(details)), err=err)
