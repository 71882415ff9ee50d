"""What commands print: a table for people or JSON for programs, and words that several commands have in common."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

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
    """Print `details` as JSON in one line, or `lines`."""
    text = json.dumps(details) if as_json else "\n".join(lines)
    if text:
        click.echo(text)
