"""Reads JSON files that people write, with an error in one sentence for every kind of malformed content."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from minikafka.protocol.shortened import shortened

T = TypeVar("T")
SIZE_BYTES_MAX = 256 << 20
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""The errors that `json` raises, also for thousands of brackets, and that parsing an unexpected structure raises."""


def read_input(path: Path) -> bytes:
    """Read a file, or standard input for `-`. Raises OSError; click.ClickException above `SIZE_BYTES_MAX`, since a
    device has no end."""
    is_input = str(path) == "-"
    with open(0 if is_input else path, "rb", closefd=not is_input) as file:
        data = file.read(SIZE_BYTES_MAX + 1)
    if len(data) > SIZE_BYTES_MAX:
        raise click.ClickException(f"{path} has more than {SIZE_BYTES_MAX >> 20} MiB")
    return data


def read_json(path: Path, parse: Callable[[Any], T], what: str, hint: str) -> T:
    """Read the JSON in a file, or in standard input for `-`, and return the result of `parse` for it.

    Raises OSError, and click.ClickException for malformed content, with the text "PATH is not WHAT: the error HINT".
    """
    data = read_input(path)
    try:
        return parse(json.loads(data))
    except _MALFORMED as error:
        raise click.ClickException(f"{path} is not {what}: {shortened(repr(error))}{hint}") from None
