"""Parses records from JSON lines, in the format that `minikafka consume --json` prints. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minikafka.cli.records.lines import BadLine, shortened

if TYPE_CHECKING:
    from minikafka.protocol.records.record import Headers

JSON_SIZE_FACTOR = 7
"""The factor by which the JSON of a record may be longer than the record: a control character takes six characters."""
KNOWN = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})
_TIMESTAMP_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class JsonRecord:
    """The fields of a line that are sent. Its topic, partition and offset say where it was read, and are not sent."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None


def parse_record(line: bytes) -> JsonRecord:
    """Parse the record of a line. It must have a key or a value; all other fields may be missing. Raises BadLine."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"no JSON object: {error} in {shortened(line)}") from None
    if not isinstance(found, dict) or not found.keys() & {"key", "value"}:
        raise BadLine(f'no JSON object with a "value" or a "key": {shortened(line)}')
    unknown = sorted(found.keys() - KNOWN)
    if unknown:
        raise BadLine(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(KNOWN))}")
    return JsonRecord(
        json_value(found.get("key"), "key"),
        json_value(found.get("value"), "value"),
        _headers(found.get("headers", [])),
        _timestamp(found.get("timestamp")),
    )


def json_value(found: Any, name: str) -> bytes | None:
    """Decode a key or value: the bytes of a string or of {"base64": …}; None for null. Raises BadLine."""
    if found is None:
        return None
    try:
        if isinstance(found, str):
            return found.encode()
        if isinstance(found, dict) and found.keys() == {"base64"} and isinstance(found["base64"], str):
            return base64.b64decode(found["base64"], validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError) as error:
        raise BadLine(f"{name}: {error}") from None
    text = shortened(json.dumps(found).encode())
    raise BadLine(f'{name} is neither a string, nor null, nor {{"base64": "…"}}: {text}')


def _headers(found: Any) -> Headers:
    if not isinstance(found, list) or not all(
        isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) for one in found
    ):
        raise BadLine("headers are not a list of [name, value]")
    for name, _ in found:
        json_value(name, "a header's name")
    return tuple((name, json_value(value, f"header {name!r}")) for name, value in found)


def _timestamp(found: Any) -> int | None:
    """Check a timestamp. None, so that the record gets the current time, if it is missing or -1 (no timestamp)."""
    if found is None or (found == -1 and isinstance(found, int)):
        return None
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= _TIMESTAMP_MAX:
        raise BadLine(f"timestamp is not a number of milliseconds since 1970: {found!r}")
    return found
