"""Declares options of clients, with functions that describe which values each may have; `parse_addresses`."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from minikafka.client.argument_kinds import TEXT, Refused, shown
from minikafka.protocol.records.record import Headers

Check = Callable[[Any], "str | None"]
"""Returns None for an allowed value, else a description of the allowed values."""
INT32_MAX = (1 << 31) - 1
DEFAULT_BOOTSTRAP_SERVERS = "localhost:9092"
BootstrapServers: TypeAlias = str | Sequence[str]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
TokenProvider = Callable[[], str | Awaitable[str]]
"""A function, async or blocking, that returns a token of OAUTHBEARER."""


@runtime_checkable
class RecordSerializer(Protocol):
    """A serializer that is told the topic and the headers of the record. Source: Kafka's `Serializer`."""

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Return the bytes of a key or value. Not called for bytes and None, which are sent as they are."""


Serializer = Callable[[Any], bytes | None] | RecordSerializer
"""A function of the object, such as `str.encode`; or an object whose `serialize` has topic and headers as well."""


@runtime_checkable
class RecordDeserializer(Protocol):
    """A deserializer that is told the topic and the headers of the record. Source: Kafka's `Deserializer`."""

    def deserialize(self, topic: str, headers: Headers, data: bytes) -> Any:
        """Return the object for the bytes of a key or value. Not called for null, which becomes None."""


Deserializer = Callable[[bytes], Any] | RecordDeserializer
"""A function of the bytes, such as `json.loads`; or an object whose `deserialize` has topic and headers as well."""


def option(default: Any, check: Check, meaning: str, kafka: str | None = None, *, secret: bool = False) -> Any:
    """A field of an options class.

    Args:
        check: describes the allowed values for InvalidOption.
        meaning: what it does, in a sentence with the unit; docstrings and the page of options have it.
        kafka: Kafka's name of it, "" if it has none; by default the name with dots.
        secret: whether neither `repr` nor error messages may show the value.
    """
    metadata = {"check": check, "meaning": meaning, "kafka": kafka, "secret": secret}
    return field(default=default, repr=not secret, metadata=metadata)


def kafka_name(name: str, metadata: Mapping[str, Any]) -> str:
    """Kafka's name of an option, "" if Kafka has none."""
    given = metadata["kafka"]
    return name.replace("_", ".") if given is None else str(given)


def between(low: int, high: int = INT32_MAX) -> Check:
    """A check for a whole number between two bounds, both included."""

    def check(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if fits else f"a whole number from {low} to {high}"

    return check


def one_of(*values: Any) -> Check:
    """A check for one of the given values, of the same type."""

    def check(value: Any) -> str | None:
        fits = any(type(value) is type(one) and value == one for one in values)
        return None if fits else "one of " + ", ".join(map(repr, values))

    return check


def boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "True or False"


def plain(value: Any) -> Any:
    """Convert integers of other libraries, and subclasses of `int` and `str`, to `int` and `str`; keep other values."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        return value
    try:
        return operator.index(value)
    except Exception:  # noqa: BLE001 (`__index__` of an application: the check says what is allowed)
        return value


def text(value: Any) -> str | None:
    try:
        TEXT(value)
    except Refused as error:
        return error.allowed
    return None


def nonempty_text(value: Any) -> str | None:
    return text(value) if value != "" else "a non-empty string"


def optional(check: Check) -> Check:
    """A check for None, or a value that passes `check`."""

    def checked(value: Any) -> str | None:
        allowed = None if value is None else check(value)
        return f"{allowed}, or None" if allowed else None

    return checked


def function(value: Any) -> str | None:
    return None if callable(value) else "a callable"


def deserializer(value: Any) -> str | None:
    fits = callable(value) or isinstance(value, RecordDeserializer)
    return None if fits else "a callable, or an object with a method deserialize(topic, headers, data)"


def serializer(value: Any) -> str | None:
    fits = callable(value) or isinstance(value, RecordSerializer)
    return None if fits else "a callable, or an object with a method serialize(topic, headers, data)"


def texts(*allowed: str) -> Check:
    """A check for a list of texts, each one of `allowed`, or any if none are given."""

    def check(value: Any) -> str | None:
        listed = isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)
        if listed and (not allowed or (value and set(value) <= set(allowed))):
            return None
        return f"a list of {', '.join(map(repr, allowed)) or 'strings'}"

    return check


def objects(kind: type) -> Check:
    """A check for a list of objects of a class."""

    def check(value: Any) -> str | None:
        fits = isinstance(value, list | tuple) and all(isinstance(one, kind) for one in value)
        return None if fits else f"a list of {kind.__name__} objects"

    return check


def addresses(value: Any) -> str | None:
    try:
        parse_addresses(value)
    except ValueError as error:
        return f"'host1:9092,host2:9092' or a list of such addresses ({error})"
    return None


def parse_addresses(value: str | Sequence[str]) -> list[tuple[str, int]]:
    """Parse a `bootstrap.servers` list into (host, port) pairs. Raises ValueError."""
    parts = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Sequence) else [value]
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{shown(value)} is neither a string nor a list of strings")
    addresses = [parse_address(part.strip()) for part in parts if part.strip()]
    if not addresses:
        raise ValueError("no address")
    return addresses


def _is_in_no_host(letter: str) -> bool:
    """Whether no host name has a letter, by Kafka's `Utils.HOST_PORT_PATTERN`; letters of other scripts are allowed."""
    return letter.isspace() or (letter.isascii() and not (letter.isalnum() or letter in "-%._:[]"))


def parse_address(part: str) -> tuple[str, int]:
    """Parse `HOST:PORT` or, as in a broker's setting, `PLAINTEXT://HOST:PORT` into (host, port). Raises ValueError.

    As in Kafka, the protocol says nothing: the option `security_protocol` does.
    """
    protocol, slashes, address = part.rpartition("://")
    if slashes and protocol.upper() not in get_args(SecurityProtocol):
        known = ", ".join(get_args(SecurityProtocol))
        raise ValueError(f"{shown(part)} has the protocol {shown(protocol)}: must be one of {known}")
    host, colon, port = address.rpartition(":")
    named = colon and host and host.isprintable() and not any(map(_is_in_no_host, host))
    if not named or not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise ValueError(f"{shown(part)} is not HOST:PORT")
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ValueError(f"{shown(part)} is not HOST:PORT, as no host has that name: {error}") from None
    return host.strip("[]"), int(port)
