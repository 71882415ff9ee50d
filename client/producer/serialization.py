"""`FieldSerializer`: turns the keys, or the values, of a producer's records into bytes."""

from __future__ import annotations

from typing import Any

from minikafka.client.options import RecordSerializer, Serializer
from minikafka.protocol.records.record import Headers


class FieldSerializer:
    """The keys or the values of records (`what`), with the serializer of the application, if there is one.

    A plain function is called for null as well; a `RecordSerializer` is not.
    """

    __slots__ = ("_plain", "_record", "_what")

    def __init__(self, what: str, serializer: Serializer | None) -> None:
        self._what = what
        self._record = serializer if isinstance(serializer, RecordSerializer) else None
        self._plain: Any = serializer if self._record is None else None

    def __call__(self, value: Any, topic: str, headers: Headers) -> bytes | None:
        """A key or value as bytes or None. Raises TypeError, and what the serializer raises."""
        if self._plain is not None:
            value = self._plain(value)
        elif self._record is not None and value is not None:
            value = self._record.serialize(topic, headers, value)
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise TypeError(
            f"a record's {self._what} must be bytes or None, not {type(value).__name__}: encode it, or give the"
            f" Producer a {self._what}_serializer"
        )


def checked(headers: Headers) -> Headers:
    """Headers as a tuple. Raises TypeError."""
    for name, value in headers:
        if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
            raise TypeError(f"headers must be pairs of str and bytes or None, not ({name!r}, {value!r})")
    return tuple(headers)
