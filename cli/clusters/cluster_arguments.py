"""Checks the arguments of `LocalCluster`, as clients check theirs: an error names the argument of a wrong type."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from minikafka.client.argument_checks import read_argument
from minikafka.client.argument_kinds import FLAG, INT64, NUMBER, Kind, Refused, kind_of, whole_number

_NUMBER = whole_number(-INT64, INT64 - 1, "a whole number")
_PORT = whole_number(0, INT64 - 1, "a whole number, 0 or more")
_PATH = "a string or a Path, the name of a directory"


def _path(value: Any) -> Path:
    found = os.fspath(value)
    if not isinstance(found, str):
        raise Refused(value, _PATH)
    if not found or "\0" in found:
        raise Refused(value, _PATH, ValueError)
    return Path(found)


_KINDS = {
    "directory": Kind(_PATH, lambda value: isinstance(value, str | os.PathLike), _path),
    "brokers": kind_of(Annotated[int, _NUMBER] | None),
    "controllers": kind_of(Annotated[int, _NUMBER] | None),
    "isolated": FLAG,
    "port": kind_of(Annotated[int, _PORT] | None),
    "settings": kind_of(Mapping[str, Any] | None),
    "node_settings": kind_of(Mapping[Annotated[int, _NUMBER], Mapping[str, Any]] | None),
    "metrics": FLAG,
}


def read(name: str, value: Any) -> Any:
    """Check and convert an argument of the constructor. Raises TypeError, ValueError."""
    return read_argument("LocalCluster", name, _KINDS[name], value)


def read_timeout(method: str, timeout_s: Any) -> float:
    """Check and convert the timeout of a method, in seconds. Raises TypeError, ValueError."""
    return float(read_argument(method, "timeout_s", NUMBER, timeout_s))
