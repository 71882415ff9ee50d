"""Who may ask a controller at its listener. The codes of Apache Kafka 4.3.1 were recorded for a client without ACLs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from support.authorized_node import ALICE, Grants, allow
from support.conversation_values import API_BY_NAME, to_message

from minikafka.broker.apis.at_controllers import CONTROLLER_HANDLERS
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.request_context import ConnectionInfo
from minikafka.broker.connections.routes import routes_of
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.message import fields_of

OTHER = {"cluster_id": "other"}
ENVELOPE = {"request_data": "", "request_principal": "", "client_host_address": ""}
ALTER, ACTION = AclOperation.ALTER, AclOperation.CLUSTER_ACTION
INVALID, INCONSISTENT = ErrorCode.INVALID_REQUEST, ErrorCode.INCONSISTENT_CLUSTER_ID
REQUESTS = [
    ("DescribeCluster", 0, {}, ALTER, INVALID),
    ("DescribeCluster", 1, {"endpoint_type": 1}, ALTER, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
    ("DescribeCluster", 2, {"endpoint_type": 9}, ALTER, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ("Vote", 0, {}, ACTION, INVALID),
    ("Vote", 2, OTHER, ACTION, INCONSISTENT),
    ("Fetch", 12, OTHER, ACTION, INCONSISTENT),
    ("FetchSnapshot", 1, OTHER, ACTION, INCONSISTENT),
    ("BeginQuorumEpoch", 1, OTHER, ACTION, INCONSISTENT),
    ("EndQuorumEpoch", 1, OTHER, ACTION, INCONSISTENT),
    ("Envelope", 0, ENVELOPE, ACTION, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
    ("ControllerRegistration", 0, {}, ACTION, INVALID),
    ("AddRaftVoter", 0, OTHER, ALTER, INCONSISTENT),
    ("RemoveRaftVoter", 0, OTHER, ALTER, INCONSISTENT),
]
"""Each request with the operation on the cluster that it needs, and the error that only who has it learns."""


def error_of(api: str, version: int, body: dict[str, Any], *operations: AclOperation) -> ErrorCode:
    """What alice is answered at a controller, if she may do `operations` with the cluster."""
    grants = Grants()
    grants.granted = [allow(operation, AclResourceType.CLUSTER, CLUSTER_NAME) for operation in operations]
    services: Any = SimpleNamespace(image=SimpleNamespace(cluster_id="ours"))
    dispatcher = Dispatcher(services, routes_of(CONTROLLER_HANDLERS), clock=lambda: 0.0, authorizer=grants)
    frame = bytearray(encode_request(to_message(API_BY_NAME[api].request, version, body), version, 1, "c")[4:])
    parts, _ = trio.run(dispatcher.answer, frame, ConnectionInfo("SSL", "127.0.0.1", principal=ALICE))
    response = decode_response(API_BY_NAME[api].response, version, b"".join(parts)[4:])[1]
    return ErrorCode(response.error_code)


@pytest.mark.parametrize(("api", "version", "body", "operation", "then"), REQUESTS)
def test_who_may_not_send_a_request_learns_nothing_else(
    api: str, version: int, body: dict[str, Any], operation: AclOperation, then: ErrorCode
) -> None:
    others = [one for one in (ALTER, ACTION, AclOperation.CREATE) if one is not operation]
    for granted in ([], others):
        assert error_of(api, version, body, *granted) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert error_of(api, version, body, operation) == then


EVERY_VERSION = [
    (api, version, ENVELOPE if api == "Envelope" else {})
    for api in sorted({request[0] for request in REQUESTS} | {"UpdateRaftVoter"})
    for route in [routes_of(CONTROLLER_HANDLERS)[API_BY_NAME[api].key]]
    for version in range(route.min_version, route.max_version + 1)
    if version in next(field.versions for field in fields_of(API_BY_NAME[api].response) if field.name == "error_code")
]
"""Fetch has an error of the whole response from version 7 on."""


@pytest.mark.parametrize(("api", "version", "body"), EVERY_VERSION)
def test_each_version_needs_the_right(api: str, version: int, body: dict[str, Any]) -> None:
    assert error_of(api, version, body) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_who_may_not_act_as_a_node_is_not_told_of_the_leader() -> None:
    for granted in ([], [ALTER]):
        assert error_of("UpdateRaftVoter", 0, OTHER, *granted) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
