"""Converts the arguments of `Producer.send`: `FieldSerializer` for keys and values, `read_arguments` for the others."""

from __future__ import annotations

from typing import Any, cast

from minikafka.client.argument_checks import read_argument
from minikafka.client.argument_kinds import HEADERS, PARTITION_INDEX, TIMESTAMP, TOPIC_NAME, Refused
from minikafka.client.option_checks import RecordSerializer, Serializer
from minikafka.protocol.records.record import Headers

NO_HEADERS: Headers = ()
SENT = ("topic", "value", "key", "partition", "timestamp_ms", "headers", "on_delivery")
"""The names of the arguments of `send`."""


class FieldSerializer:
    """Converts the keys or the values of records (`what`) to bytes, with the application's serializer, if there is one.

    A serializer that is a plain function is also called for None (null); a `RecordSerializer` is not.
    """

    __slots__ = ("_plain", "_record", "_what")

    def __init__(self, what: str, serializer: Serializer | None) -> None:
        self._what = what
        self._record = serializer if isinstance(serializer, RecordSerializer) else None
        self._plain: Any = serializer if self._record is None else None

    def __call__(self, value: Any, topic: str, headers: Headers) -> bytes | None:
        """Convert a key or value to bytes or None. Raises TypeError, and the errors of the serializer."""
        if self._plain is not None:
            value = self._plain(value)
        elif self._record is not None and value is not None:
            value = self._record.serialize(topic, headers, value)
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        kind, option = type(value).__name__, f"{self._what}_serializer"
        if self._plain is not None or self._record is not None:
            advice = ", as str.encode does" if isinstance(value, str) else ""
            raise TypeError(f"{option} returned {kind}: it must return bytes or None{advice}")
        raise TypeError(
            f"a record's {self._what} must be bytes or None, not {kind}: encode it, or give the Producer a {option}"
        )


def read_arguments(
    topic: Any, partition: Any, timestamp_ms: Any, headers: Any, on_delivery: Any
) -> tuple[str, int | None, int | None, Headers]:
    """Check and convert the arguments of `send` except key and value; return topic, partition, timestamp and headers.

    Raises TypeError, ValueError.
    """
    if on_delivery is not None and not callable(on_delivery):
        raise Refused(on_delivery, "a callable, or None").within("on_delivery").raised_by("send")
    return (
        read_argument("send", "topic", TOPIC_NAME, topic),
        None if partition is None else read_partition(partition),
        None if timestamp_ms is None else read_timestamp(timestamp_ms),
        headers if headers is NO_HEADERS else read_headers(headers),
    )


def read_partition(partition: Any, name: str = "partition") -> int:
    """Convert a partition's number, without checking that the partition exists. Raises TypeError, ValueError."""
    number: int = read_argument("send", name, PARTITION_INDEX, partition)
    return number


def read_timestamp(timestamp_ms: Any) -> int:
    """Convert a timestamp in ms since 1970. Raises TypeError, ValueError."""
    time: int = read_argument("send", "timestamp_ms", TIMESTAMP, timestamp_ms)
    return time


def read_headers(headers: Any) -> Headers:
    """Convert headers to pairs of a string and bytes or None. Raises TypeError, ValueError."""
    if type(headers) is not list and type(headers) is not tuple:
        return cast("Headers", read_argument("send", "headers", HEADERS, headers))
    for pair in headers:  # The usual forms are checked without a call for each pair.
        if type(pair) is not tuple or len(pair) != 2:
            break
        name, value = pair
        if type(name) is not str or not name.isascii() or (type(value) is not bytes and value is not None):
            break
    else:
        return tuple(headers)
    return cast("Headers", read_argument("send", "headers", HEADERS, headers))
