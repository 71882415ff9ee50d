"""What a serializer returns is bytes or None; else the error names the serializer, not the application's value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minikafka.client.producer.serialization import NO_HEADERS, FieldSerializer
from minikafka.protocol.records.record import Headers


class OfRecords:
    """A `RecordSerializer` that returns what it is given."""

    def serialize(self, topic: str, headers: Headers, value: Any) -> Any:
        return value


def same(value: Any) -> Any:
    return value


@pytest.mark.parametrize("what", ["key", "value"])
@pytest.mark.parametrize("serializer", [same, OfRecords(), None])
@pytest.mark.parametrize("wrong", ["text", 5, 1.5, [b"a"]])
def test_a_wrong_result_is_that_of_the_serializer(what: str, serializer: Callable[[Any], Any], wrong: Any) -> None:
    field = FieldSerializer(what, serializer)
    kind = type(wrong).__name__
    said = f"a record's {what} must be bytes or None, not {kind}: encode it, or give the Producer a {what}_serializer"
    if serializer is not None:
        advice = ", as str.encode does" if kind == "str" else ""
        said = f"{what}_serializer returned {kind}: it must return bytes or None{advice}"
    with pytest.raises(TypeError) as raised:
        field(wrong, "t", NO_HEADERS)
    assert str(raised.value) == said
    assert [field(right, "t", NO_HEADERS) for right in (b"a", bytearray(b"a"), None)] == [b"a", b"a", None]
