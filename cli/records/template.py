"""Formats records as lines: templates with kcat's letters, and JSON. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from minikafka.protocol.visible import visible, visible_json

if TYPE_CHECKING:
    from minikafka.client import ConsumerRecord
    from minikafka.protocol.records.record import Headers

Render = Callable[["ConsumerRecord"], bytes]
Shown = Callable[[bytes], bytes]
"""Converts keys, values and names for printing: `as_they_are` or `for_terminal`."""
Field = Callable[["ConsumerRecord", bytes], bytes]
"""Formats a field of a record; the second argument is the text for null."""

_JSON = json.JSONEncoder(ensure_ascii=False)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.?)|([^\\]+)", re.DOTALL)
_PART = re.compile(rb"%(.?)|([^%]+)", re.DOTALL)


def unescape(text: str) -> bytes:
    r"""Convert a text with the escapes \n, \t, \r, \0, \\ and \xHH to bytes. Raises ValueError for another escape."""
    parts: list[bytes] = []
    for code, letter, plain in _TOKEN.findall(text):
        if code:
            parts.append(bytes.fromhex(code))
        elif plain:
            parts.append(plain.encode(errors="surrogateescape"))
        elif letter in _ESCAPES:
            parts.append(_ESCAPES[letter])
        else:
            raise ValueError(rf"unknown escape \{letter}; known are \n \t \r \0 \\ and \xHH")
    return b"".join(parts)


def as_they_are(data: bytes) -> bytes:
    """Return the bytes unchanged, for pipes and files, whose readers want the bytes of the records."""
    return data


def for_terminal(data: bytes) -> bytes:
    r"""Escape bytes for terminals, which obey control characters: control characters, and bytes that are not UTF-8,
    become escapes like `\x1b`.

    Tabs and newlines are kept.
    """
    return visible(data.decode(errors="backslashreplace"), lines=True).encode()


def headers_text(headers: Headers, null: bytes) -> bytes:
    """The headers of a record as text, like kcat's %h: `name=value,name=value`."""
    return b",".join(name.encode() + b"=" + (null if value is None else value) for name, value in headers)


def iso_time(timestamp_ms: int) -> str:
    """A timestamp like 2026-01-31T12:00:00.250Z; `-` if it is negative or out of range."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return "-"
    return "-" if timestamp_ms < 0 else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _number(value: int) -> bytes:
    return str(value).encode()


def _size(value: bytes | None) -> bytes:
    return b"-1" if value is None else _number(len(value))


def _value(record: ConsumerRecord, null: bytes) -> bytes:
    return null if record.value is None else record.value


FIELDS: dict[str, tuple[str, Field]] = {
    "t": ("topic", lambda record, null: record.topic.encode()),
    "p": ("partition", lambda record, null: _number(record.partition)),
    "o": ("offset", lambda record, null: _number(record.offset)),
    "k": ("key", lambda record, null: null if record.key is None else record.key),
    "v": ("value", _value),
    "s": ("value, as in kcat", _value),
    "h": ("headers: name=value,name=value", lambda record, null: headers_text(record.headers, null)),
    "T": ("timestamp in ms since 1970", lambda record, null: _number(record.timestamp)),
    "I": ("timestamp in ISO 8601, UTC", lambda record, null: iso_time(record.timestamp).encode()),
    "K": ("size of the key in bytes, -1 for null", lambda record, null: _size(record.key)),
    "S": ("size of the value in bytes, -1 for null", lambda record, null: _size(record.value)),
}
"""Description and formatter of each letter after %, in the order of the help."""


def template(text: str, *, null: bytes = b"null", shown: Shown = as_they_are) -> Render:
    """A function that formats a record by a template such as ``%k\\t%v``; other text of the template stays as it is.

    Raises ValueError for an unknown letter or escape.
    """
    parts: list[bytes | Field] = []
    for letter, plain in _PART.findall(unescape(text)):
        if plain:
            parts.append(plain)
        elif letter == b"%":
            parts.append(b"%")
        else:
            parts.append(_field(letter.decode(errors="replace")))

    def render(record: ConsumerRecord) -> bytes:
        return b"".join([part if isinstance(part, bytes) else shown(part(record, null)) for part in parts])

    return render


def _field(letter: str) -> Field:
    if letter not in FIELDS:
        known = ", ".join(f"%{name} ({words})" for name, (words, _) in FIELDS.items())
        raise ValueError(f"unknown letter %{letter}; known are {known} and %% (a percent sign)")
    return FIELDS[letter][1]


def value_line(null: bytes = b"null", *, shown: Shown = as_they_are) -> Render:
    """The default format: the value alone."""
    return lambda record: shown(_value(record, null))


def json_line(record: ConsumerRecord) -> bytes:
    """A record as a JSON object on one line."""
    text = _JSON.encode(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": json_bytes(record.key),
            "value": json_bytes(record.value),
            "headers": [[name, json_bytes(value)] for name, value in record.headers],
        }
    )
    return visible_json(text).encode()


def json_bytes(value: bytes | None) -> str | dict[str, str] | None:
    """Convert bytes for JSON: to text if they are UTF-8, otherwise to {"base64": …}."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
