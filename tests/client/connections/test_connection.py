"""One connection: request order, matching of responses, malformed responses, timeouts, version negotiation."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest
from support.fake_network import FakeNetwork, HangUp

from minikafka.client.connections.connection import Connection, open_connection
from minikafka.client.connections.seams import Seams
from minikafka.protocol.apis import api_of
from minikafka.protocol.errors import NetworkError, UnsupportedVersionError
from minikafka.protocol.headers import response_parts
from minikafka.protocol.message import MalformedMessage, UnencodableMessage
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.list_offsets import ListOffsetsRequest
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest
from minikafka.protocol.messages.produce import ProduceRequest

pytestmark = pytest.mark.anyio


async def connect(network: FakeNetwork, timeout_ms: float = 60_000) -> Connection:
    return await open_connection(
        "a", 1, client_id="test", seams=network.seams(), task_group=None, timeout_ms=timeout_ms
    )


def answers(**handlers: Any) -> FakeNetwork:
    network = FakeNetwork()
    network.broker("a", 1, {ListGroupsRequest: handlers["groups"]})
    return network


@pytest.mark.parametrize("host", ["\u0663", "\xad", "a" * 64, "a..b", ".", "h\0st", "xn--a", "\udcff", "h\u2028"])
async def test_a_name_that_no_host_has_is_an_error_of_the_network(host: str) -> None:
    with pytest.raises(NetworkError, match="cannot connect to"):
        await open_connection(host, 1, client_id="c", seams=Seams(), task_group=None, timeout_ms=60_000)


async def test_requests_are_pipelined_and_responses_matched() -> None:
    network = answers(
        groups=lambda request, version: ListGroupsResponse(groups=[ListedGroup(group_id=request.states_filter[0])])
    )
    connection = await connect(network)
    replies: list[str] = []
    for name in "abc":
        connection.post(
            ListGroupsRequest(states_filter=[name]),
            lambda reply: replies.append(reply.groups[0].group_id),
            deadline=1e9,
        )
    assert replies == ["a", "b", "c"]
    assert (connection.in_flight, connection.deadline) == (0, float("inf"))


async def test_a_closed_connection_fails_all_requests() -> None:
    network = answers(groups=lambda request, version: None)
    connection = await connect(network)
    replies: list[Any] = []
    for _ in range(2):
        connection.post(ListGroupsRequest(), replies.append, deadline=1e9)
    assert (connection.in_flight, connection.deadline) == (2, 1e9)
    network.brokers[0].hang_up()
    assert [type(reply) for reply in replies] == [NetworkError, NetworkError]
    assert "the broker closed the connection" in str(replies[0])
    with pytest.raises(NetworkError, match="is closed"):
        connection.post(ListGroupsRequest(), replies.append, deadline=1e9)


async def test_a_request_that_gets_no_response_is_in_flight_until_the_socket_accepts_it() -> None:
    network = answers(groups=lambda request, version: None)
    network.brokers[0].handlers[ProduceRequest] = lambda request, version: None
    connection = await connect(network)
    replies: list[Any] = []
    post = partial(connection.post, ProduceRequest(), replies.append, deadline=1e9, is_answered=False)
    post()
    assert (connection.in_flight, replies) == (0, [None])
    network.brokers[0].streams[0].is_full = True
    connection.post(ListGroupsRequest(), lambda reply: replies.append("groups"), deadline=2e9)
    post()
    post()
    assert (connection.in_flight, connection.deadline, replies) == (3, 1e9, [None])
    connection.on_sent()
    assert (connection.in_flight, connection.deadline, replies) == (1, 2e9, [None] * 3)
    post()
    network.brokers[0].streams[0].say(b"".join(response_parts(ListGroupsResponse(), 5, connection.oldest)))
    assert replies == [None, None, None, "groups"]
    with pytest.raises(MalformedMessage, match="no request is in flight"):
        connection.on_frame(bytearray(8))
    connection.close()
    assert [type(reply) for reply in replies[4:]] == [NetworkError]
    connection.on_sent()
    assert len(replies) == 5


async def test_a_request_without_a_response_times_out() -> None:
    connection = await connect(answers(groups=lambda request, version: None))
    with pytest.raises(NetworkError, match="no response to ListGroupsRequest within 20 ms"):
        await connection.request(ListGroupsRequest(), timeout_ms=20)
    assert connection.closed


async def test_a_cancelled_request_leaves_the_connection_in_order() -> None:
    network = answers(groups=lambda request, version: None)
    connection = await connect(network)
    with anyio.move_on_after(0.01):
        await connection.request(ListGroupsRequest(), timeout_ms=60_000)
    assert (connection.closed, connection.in_flight) == ("", 1)
    late = response_parts(ListGroupsResponse(), 5, 2)
    network.brokers[0].streams[0].say(b"".join(late))
    assert (connection.closed, connection.in_flight) == ("", 0)


@pytest.mark.parametrize("frame", [b"", b"\x00\x00", b"\x00\x00\x00\x63", b"\x00\x00\x00\x02\x00\xff\xff\xff"])
async def test_malformed_responses_are_rejected(frame: bytes) -> None:
    connection = await connect(answers(groups=lambda request, version: None))
    replies: list[Any] = []
    connection.post(ListGroupsRequest(), replies.append, deadline=1e9)
    with pytest.raises(MalformedMessage):
        connection.on_frame(bytearray(frame))
    assert "malformed response" in str(replies[0])


async def test_unexpected_responses_are_rejected() -> None:
    connection = await connect(answers(groups=lambda request, version: None))
    with pytest.raises(MalformedMessage, match="no request is in flight"):
        connection.on_frame(bytearray(8))


def offering(message: Any, version: int) -> FakeNetwork:
    """A broker with this version of the request's API at most."""
    network = FakeNetwork()
    network.broker("a", 1)
    offered = [ApiVersion(api_key=api_of(type(message)).key, min_version=0, max_version=version)]
    network.brokers[0].handlers[ApiVersionsRequest] = lambda *_: ApiVersionsResponse(api_keys=offered)
    return network


@pytest.mark.parametrize(
    ("message", "version", "lacks"),
    [
        (MetadataRequest(topics=[], allow_auto_topic_creation=False), 3, "no allow_auto_topic_creation"),
        (ListOffsetsRequest(isolation_level=1), 1, "no isolation_level"),
        (FindCoordinatorRequest(key="x", key_type=1), 0, "no key_type"),
        (OffsetFetchRequest(group_id="g", topics=None), 1, "topics|NoneType"),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_a_request_that_needs_a_newer_version_is_refused(message: Any, version: int, lacks: str) -> None:
    connection = await connect(offering(message, version))
    with pytest.raises(UnsupportedVersionError, match=f"version {version} is the newest in common .*: .*({lacks})"):
        await connection.request(message, timeout_ms=1000)
    assert (connection.in_flight, connection.closed) == (0, "")


async def test_a_request_that_no_version_can_express_is_no_matter_of_versions() -> None:
    message = FindCoordinatorRequest(key="x" * 40_000)
    connection = await connect(offering(message, 0))
    with pytest.raises(UnencodableMessage):
        await connection.request(message, timeout_ms=1000)


async def test_the_newest_common_version_is_used() -> None:
    seen: list[int] = []
    network = answers(groups=lambda request, version: seen.append(version) or ListGroupsResponse())
    network.api_versions = lambda request, version: ApiVersionsResponse(  # type: ignore[method-assign]
        api_keys=[ApiVersion(api_key=16, min_version=1, max_version=3), ApiVersion(api_key=999, max_version=1)]
    )
    network.brokers[0].handlers[ApiVersionsRequest] = network.api_versions
    connection = await connect(network)
    await connection.request(ListGroupsRequest(), timeout_ms=60_000)
    await connection.request(ListGroupsRequest(), timeout_ms=60_000, highest=2)
    assert seen == [3, 2]
    with pytest.raises(UnsupportedVersionError, match=r"client supports versions 3 to 13.*does not offer it"):
        await connection.request(ProduceRequest(), timeout_ms=60_000)


async def test_a_controller_is_named_as_such() -> None:
    network = answers(groups=lambda request, version: ListGroupsResponse())
    network.brokers[0].handlers[ApiVersionsRequest] = lambda request, version: ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=18, max_version=4), ApiVersion(api_key=62, max_version=4)]
    )
    connection = await connect(network)
    with pytest.raises(UnsupportedVersionError, match=r"^a:1 is a controller's address, .* need that of a broker$"):
        await connection.request(MetadataRequest(topics=[]), timeout_ms=60_000)
    with pytest.raises(UnsupportedVersionError, match="does not offer it"):
        await connection.request(ProduceRequest(), timeout_ms=60_000)


async def test_an_old_broker_gets_a_version_that_it_supports() -> None:
    network = answers(groups=lambda request, version: ListGroupsResponse())
    versions: list[int] = []

    def old(request: Any, version: int) -> ApiVersionsResponse:
        versions.append(version)
        code = 35 if version > 2 else 0
        return ApiVersionsResponse(error_code=code, api_keys=[ApiVersion(api_key=18, max_version=2)])

    broker = network.brokers[0]
    broker.handlers[ApiVersionsRequest] = old
    serve = broker.serve

    def as_version_0(frame: bytearray, stream: Any) -> None:
        """Kafka answers an unsupported version with a response of version 0."""
        if frame[2:4] == b"\x00\x04":
            versions.append(4)
            stream.say(bytes.fromhex("00000010" + frame[4:8].hex() + "0023" + "00000001" + "0012" + "0000" + "0002"))
        else:
            serve(frame, stream)

    broker.serve = as_version_0  # type: ignore[method-assign]
    connection = await connect(network)
    assert versions == [4, 2]
    assert connection.offer.versions == {18: (0, 2)}


async def test_connection_errors_name_the_address() -> None:
    network = FakeNetwork()
    with pytest.raises(NetworkError, match="cannot connect to a:1: nobody listens at a:1"):
        await connect(network)
    network.broker("a", 1, {ApiVersionsRequest: lambda request, version: None})
    with pytest.raises(NetworkError, match="cannot connect to a:1"):
        await connect(network, timeout_ms=20)
    network.brokers[0].handlers[ApiVersionsRequest] = _hang_up
    with pytest.raises(NetworkError, match="the broker closed the connection"):
        await connect(network)


def _hang_up(request: Any, version: int) -> None:
    raise HangUp
