"""Requests that name one thing thousands of times, and say of it once that it has thousands of parts.

Where a handler looks up what a request says of a name, the response could have all parts for each time it is named, the
square of what was sent. Made from the declarations, for each array within another one of each API.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.clients_raw import RawConnection, request
from support.grammar import FIXED
from support.node import ServerProcess
from support.oracle import Oracle

from minikafka.broker.apis.handler_table import HANDLERS
from minikafka.broker.apis.repeats import REPEATED_SIZE_BYTES_MAX
from minikafka.protocol.apis import api_of
from minikafka.protocol.codec.schema import Field, default_of, fields_of

TIMES = 1_800
"""Times the same is more than 20 MB, in a request of some 20 KB that is not large."""


def repeated(cls: Any, version: int, *, given_last: bool) -> Iterator[tuple[str, Any]]:
    """Requests by the arrays that are long in them."""
    for outer in _arrays(cls, version):
        for place, with_parts in _with_parts(outer.struct, version) if outer.struct else ():
            many = [_filled(outer.struct, version)] * (TIMES - 1)
            message = _filled(cls, version)
            setattr(message, outer.name, [*many, with_parts] if given_last else [with_parts, *many])
            yield f"{outer.name}.{place}", message


def _with_parts(cls: Any, version: int) -> Iterator[tuple[str, Any]]:
    """Structs of which one array, or one in the only element of an array, is long."""
    for field in _arrays(cls, version):
        whole = _filled(cls, version)
        setattr(whole, field.name, [_element(field, version, number) for number in range(TIMES)])
        yield field.name, whole
        for place, element in _with_parts(field.struct, version) if field.struct else ():
            whole = _filled(cls, version)
            setattr(whole, field.name, [element])
            yield f"{field.name}.{place}", whole


def _element(field: Field, version: int, number: int) -> Any:
    """Elements of different numbers differ."""
    if field.struct is not None:
        return _filled(field.struct, version, number)
    assert field.kind is not None
    return f"t{number}" if field.kind.name == "string" else number


def _arrays(cls: Any, version: int) -> list[Field]:
    return [field for field in fields_of(cls) if field.is_array and version in field.versions]


def _filled(cls: Any, version: int, number: int = 0) -> Any:
    """A struct without elements; its names are "t", and its partition and other indexes the number."""
    values = {}
    for field in fields_of(cls):
        values[field.name] = default_of(field)
        if version not in field.versions:
            continue
        if field.is_array:
            values[field.name] = []
        elif field.kind is not None and field.kind.name == "string":
            values[field.name] = f"t{number or ''}"
        elif field.name in FIXED:
            values[field.name] = FIXED[field.name]
        elif "partition" in field.name or "index" in field.name:
            values[field.name] = number
    return cls(**values)


CASES = {
    f"{api_of(handler.REQUEST).name} v{version}, {place}, {'last' if given_last else 'first'}": (message, version)
    for handler in HANDLERS
    for version in sorted({int(end) for end in handler.VERSIONS.split("-")})
    for given_last in (False, True)
    for place, message in repeated(handler.REQUEST, version, given_last=given_last)
}


@pytest.fixture(scope="module", autouse=True)
def of_this_node(node: ServerProcess) -> None:
    """Skips Apache Kafka, which answers AddPartitionsToTxn with 23 MB, and AlterConfigs after more than ten seconds."""
    if isinstance(node, Oracle):
        pytest.skip("about this node's bounds")


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_of_a_name_once_is_not_answered_each_time(node: ServerProcess, name: str) -> None:
    message, version = CASES[name]
    sent = request(message, version)
    with RawConnection(node.address) as connection:
        connection.send(sent)
        try:
            answer = connection.receive_frame()
        except ConnectionError:  # It is refused.
            answer = b""
    assert len(answer) < REPEATED_SIZE_BYTES_MAX + 40 * len(sent)
