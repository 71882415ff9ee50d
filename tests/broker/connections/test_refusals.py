"""Refusals of whole requests: whatever the API and its version, a client finds the error, beside what it named."""

from collections.abc import Iterator
from typing import Any

import pytest

from minikafka.broker.apis.at_controllers import CONTROLLER_HANDLERS
from minikafka.broker.apis.handler_table import HANDLERS
from minikafka.broker.connections.refusals import refusal_of
from minikafka.broker.connections.routes import Route, routes_of
from minikafka.protocol.codec.schema import fresh
from minikafka.protocol.errors import FetchSessionIdNotFoundError, InvalidConfigError
from minikafka.protocol.message import decode, encode, fields_of

TEXT, NUMBER = "named", 7
ROUTES: dict[int, Route[Any]] = routes_of(CONTROLLER_HANDLERS) | routes_of(HANDLERS)  # type: ignore[operator]
NAMELESS = {"CreateAcls", "DeleteAcls", "DescribeLogDirs"}
"""Their results have no name, and are in the order of the request, or have that of a directory."""


def filled(cls: Any, version: int) -> Any:
    """A message in which every array has one element, every text is `TEXT` and every number `NUMBER`."""
    message = fresh(cls)
    for field in fields_of(cls):
        if version not in field.versions:
            continue
        kind = field.kind.name if field.kind else ""
        if field.struct is not None:
            value = filled(field.struct, version)
        else:
            value = {"string": TEXT, "uuid": bytes(16), "bytes": b"", "records": b"", "bool": True}.get(kind, NUMBER)
        setattr(message, field.name, [value] if field.is_array else value)
    return message


def values_in(message: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of all fields that are neither structs nor arrays."""
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        for one in value if isinstance(value, list) else [value]:
            if hasattr(one, "__declaration__"):
                yield from values_in(one)
            else:
                yield field.name, one


@pytest.mark.parametrize("key", ROUTES, ids=lambda key: ROUTES[key].name)
def test_every_version_of_every_api_says_the_error(key: int) -> None:
    route = ROUTES[key]
    for version in range(route.min_version, route.max_version + 1):
        request = filled(route.request, version)
        refused = refusal_of(request, route.response, version, InvalidConfigError("no"))
        found = list(values_in(decode(route.response, version, encode(refused, version))))
        codes = [value for name, value in found if name.endswith("error_code") and value]
        assert set(codes) == {InvalidConfigError.code}, found
        texts = {value for name, value in found if name == "error_message"}
        assert texts <= {"no", None, ""}, found
        whole = any(one.name == "error_code" and version in one.versions for one in fields_of(route.response))
        named = [value for name, value in found if value in (TEXT, NUMBER)]
        assert whole or named or route.name in NAMELESS, found


def test_users_are_answered_once_and_old_names_of_topics_like_new_ones() -> None:
    users = filled(ROUTES[51].request, 0)
    assert len(refusal_of(users, ROUTES[51].response, 0, InvalidConfigError()).results) == 1
    topics = filled(ROUTES[20].request, 5)
    assert [one.name for one in refusal_of(topics, ROUTES[20].response, 5, InvalidConfigError()).responses] == [TEXT]


def test_a_refused_fetch_repeats_its_partitions_below_version_13() -> None:
    for version, partitions in ((4, 1), (12, 1), (13, 0)):
        request = filled(ROUTES[1].request, version)
        topics = refusal_of(request, ROUTES[1].response, version, InvalidConfigError()).responses
        found = [partition for topic in topics for partition in topic.partitions]
        assert [(one.error_code, one.high_watermark, one.records) for one in found] == [
            (InvalidConfigError.code, -1, b"")
        ] * partitions


def test_an_unknown_session_repeats_no_partitions() -> None:
    request = filled(ROUTES[1].request, 12)
    assert refusal_of(request, ROUTES[1].response, 12, FetchSessionIdNotFoundError()).responses == []
