"""Each version of each API refuses what its neighbours refuse: a check that one version lacks is a way around all.

`authorization_requests.txt` has a version or two of each API, with the answers of Apache Kafka. Here the same requests
are sent in all versions that have their fields, under the same grants; the error codes have to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing
from support.authorization_matrix import A_TOKEN, OTHER_TOPIC, ROWS, TOPIC, Row, body_of, columns, preparations, shown
from support.authorized_node import ALICE, AuthorizedNode, authorized_node
from support.conversation_values import API_BY_NAME, to_message

from minikafka.broker.connections.request_context import Disconnect
from minikafka.broker.connections.routes import Route
from minikafka.protocol.apis import APIS
from minikafka.protocol.message import encode, fields_of
from minikafka.protocol.message_errors import UnencodableMessage

IMMATERIAL = (
    *("include_topic_authorized_operations", "include_cluster_authorized_operations", "include_authorized_operations"),
    *("allow_auto_topic_creation", "protocol_type", "protocol_name", "rebalance_timeout_ms", "validate_only"),
)
"""Fields of requests that decide nothing about who may do it: versions without them are asked as well."""
OTHER_ERRORS: dict[str, tuple[int, ...]] = {
    "Metadata by id": (10, 11),  # KIP-516: refuse all ids
    "SyncGroup without a protocol": (0, 1, 2, 3, 4),  # in which it may lack
    "DescribeGroups": (0, 1, 2, 3, 4, 5),  # KIP-1043: a group that does not exist is an error from version 6 on
    "DescribeGroups v4": (6,),
    "DescribeLogDirs": (1, 2),  # KIP-784: an error of the whole response from version 3 on
    "DescribeLogDirs v2": (3, 4, 5),
    "CreateTopics": (2, 3, 4),  # KIP-525: the error about configs from version 5 on
}
"""The versions whose protocol differs, by row."""
WITHOUT_ROWS = {"ApiVersions", "SaslHandshake", "SaslAuthenticate", "GetTelemetrySubscriptions", "PushTelemetry"}
"""APIs that need no right."""
Codes = dict[int, dict[str, frozenset[int | str]]]
"""The error codes of the answers to a row, by version and column."""


def fitting(cls: Any, version: int, body: dict[str, Any]) -> dict[str, Any] | None:
    """The body of a request in another version; None if that version lacks a field that matters."""
    fields = {field.name: field for field in fields_of(cls) if version in field.versions}
    kept: dict[str, Any] = {}
    for name, value in body.items():
        field = fields.get(name)
        if field is None:
            if value not in (0, -1, None) and name not in IMMATERIAL:
                return None
        elif field.struct is None or value is None:
            kept[name] = value
        else:
            parts = [fitting(field.struct, version, one) for one in (value if field.is_array else [value])]
            if None in parts:
                return None
            kept[name] = parts if field.is_array else parts[0]
    return kept


def bodies(row: Row, route: Route[Any], body: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The versions in which a row can be asked, each with its body."""
    request = API_BY_NAME[row.api].request
    for version in range(route.min_version, route.max_version + 1):
        if version in OTHER_ERRORS.get(row.name, ()) or (fitted := fitting(request, version, body)) is None:
            continue
        try:
            encode(to_message(request, version, fitted), version)
        except UnencodableMessage:
            continue
        yield version, fitted


def error_codes(answer: Any) -> Iterator[int]:
    if isinstance(answer, list):
        for one in answer:
            yield from error_codes(one)
    elif isinstance(answer, dict):
        for name, value in answer.items():
            if name.endswith("error_code"):
                yield value
            else:
                yield from error_codes(value)


async def codes(node: AuthorizedNode, api: str, version: int, body: dict[str, Any]) -> frozenset[int | str]:
    try:
        response = await node.ask(ALICE, api, version, body)
    except Disconnect:
        return frozenset({"disconnected"})
    return frozenset(error_codes(shown((api, version, body), response))) - {0}


@pytest.fixture(scope="module")
def found() -> dict[str, Codes]:
    """The error codes of minikafka by row, version and column."""

    async def main() -> dict[str, Codes]:
        asked: dict[str, Codes] = {}
        settings = {"delegation.token.secret.key": "secret", "auto.create.topics.enable": "false"}
        async with authorized_node(**settings) as node:
            topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (TOPIC, OTHER_TOPIC)]
            await node.prepare(("CreateTopics", 7, {"topics": topics, "timeout_ms": 9000}), *preparations())
            described = await node.prepare(("Metadata", 12, {"topics": [{"name": TOPIC}]}))
            topic_id, hmac = described.topics[0].topic_id, (await node.prepare(A_TOKEN)).hmac
            for row in ROWS:
                route = node.routes[API_BY_NAME[row.api].key]
                by_version = dict(bodies(row, route, body_of(row, topic_id, hmac)))
                asked[row.name] = {version: {} for version in by_version}
                for label, grants in columns().items():
                    node.grants.granted = grants
                    for version, body in by_version.items():
                        asked[row.name][version][label] = await codes(node, row.api, version, body)
            assert_all_are_asked(asked, {APIS[key].name: route for key, route in node.routes.items()})
        return asked

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def assert_all_are_asked(asked: dict[str, Codes], served: dict[str, Route[Any]]) -> None:
    """Assert that each version of each API that a broker serves is asked by some row."""
    rows: dict[str, set[int]] = {}
    for row in ROWS:
        rows.setdefault(row.api, set()).update(asked[row.name])
    lacking = {
        (api, version)
        for api, route in served.items()
        if api not in WITHOUT_ROWS
        for version in range(route.min_version, route.max_version + 1)
        if version not in rows.get(api, ())
    }
    assert not lacking, "add rows to authorization_requests.txt"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_version_refuses_what_the_recorded_one_refuses(row: Row, found: dict[str, Codes]) -> None:
    by_version = found[row.name]
    expected = by_version[row.version]
    for version, answered in by_version.items():
        different = {label: (answered[label], codes) for label, codes in expected.items() if answered[label] != codes}
        assert not different, f"version {version}, not {row.version}"
