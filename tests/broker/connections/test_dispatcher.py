"""The steps of a request: their order, what each is given, and what a refusal or a bug leads to."""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
import structlog.testing
import trio

from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.request_context import (
    ANONYMOUS,
    Answer,
    ConnectionInfo,
    Disconnect,
    Principal,
    RequestContext,
)
from minikafka.broker.connections.request_log import RequestLog
from minikafka.broker.connections.routes import ApiHandler, routes_of
from minikafka.controller.failures import FAILURES
from minikafka.protocol.errors import ClusterAuthorizationFailedError, ErrorCode, RequestTimedOutError
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

CLIENT = ConnectionInfo("SASL", "10.0.0.1", "10.0.0.2", 9092)
ALICE = Principal("User", "alice")


@dataclass
class Steps:
    """Every step of a dispatcher: each notes that it was called."""

    called: list[str] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    refused: bool = False
    throttle_ms: int = 0

    def principal_of(self, connection: ConnectionInfo) -> Principal:
        self.called.append("principal")
        assert connection is CLIENT
        return ALICE

    def authorize(self, request: Any, context: RequestContext[Any]) -> None:
        self.called.append("authorize")
        assert context.principal is ALICE
        if self.refused:
            raise ClusterAuthorizationFailedError("not alice")

    async def handle(self, request: HeartbeatRequest, context: RequestContext[str]) -> HeartbeatResponse:
        self.called.append("handle")
        assert (context.services, context.version, context.client_id) == ("services", 4, "me")
        return HeartbeatResponse()

    def throttle_time_ms(self, request: Any, response: Any, context: Any, **measured: Any) -> int:
        self.called.append("throttle")
        self.measured |= measured
        return self.throttle_ms

    @property
    def enabled(self) -> bool:
        return True

    def request_completed(self, api: str, context: RequestContext[Any], **measured: Any) -> None:
        self.called.append("measure")
        self.measured |= {"api": api, **measured}

    def dispatcher(self) -> Dispatcher[str]:
        routes = routes_of([ApiHandler(HeartbeatRequest, "0-4", self.handle)])
        times = count(0, 0.5)
        return Dispatcher(
            "services",
            routes,
            clock=lambda: float(next(times)),
            principal_of=self.principal_of,
            authorizer=self,
            quotas=self,
            observer=self,
        )


def frame_of(request: Any, version: int) -> bytearray:
    """A request's frame without its size."""
    return bytearray(encode_request(request, version, 7, "me")[4:])


def run(answer: Awaitable[Answer]) -> Answer:
    async def main() -> Answer:
        return await answer

    return trio.run(main)


def heartbeat_response(answer: Answer) -> HeartbeatResponse:
    frame = b"".join(answer[0])
    _, response = decode_response(HeartbeatResponse, 4, frame[4:])
    return response


def test_the_steps_are_called_in_their_order() -> None:
    steps = Steps()
    frame = frame_of(HeartbeatRequest(group_id="g"), 4)
    answer = run(steps.dispatcher().answer(frame, CLIENT))
    assert steps.called == ["principal", "authorize", "handle", "throttle", "measure"]
    assert heartbeat_response(answer).error_code == 0
    assert steps.measured == {
        "api": "Heartbeat",
        "handled_s": 0.5,
        "duration_s": 1.0,
        "request_size_bytes": len(frame),
        "response_size_bytes": len(b"".join(answer[0])),
        "throttle_ms": 0,
    }


def test_a_request_that_is_not_authorized_never_reaches_its_handler() -> None:
    steps = Steps(refused=True)
    answer = run(steps.dispatcher().answer(frame_of(HeartbeatRequest(group_id="g"), 4), CLIENT))
    assert steps.called == ["principal", "authorize", "throttle", "measure"]
    assert heartbeat_response(answer).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_refusal_is_answered_also_where_the_response_has_fields_without_defaults() -> None:
    async def refuse(request: UnregisterBrokerRequest, context: RequestContext[str]) -> UnregisterBrokerResponse:
        raise RequestTimedOutError("nobody is active")

    routes = routes_of([ApiHandler(UnregisterBrokerRequest, "0", refuse)])
    dispatcher = Dispatcher("services", routes, clock=count().__next__)
    parts, _ = run(dispatcher.answer(frame_of(UnregisterBrokerRequest(broker_id=7), 0), CLIENT))
    _, response = decode_response(UnregisterBrokerResponse, 0, b"".join(parts)[4:])
    assert (response.error_code, response.error_message) == (ErrorCode.REQUEST_TIMED_OUT, "nobody is active")


def test_the_throttle_time_is_in_the_response_and_mutes_the_connection() -> None:
    steps = Steps(throttle_ms=250)
    answer = run(steps.dispatcher().answer(frame_of(HeartbeatRequest(group_id="g"), 4), CLIENT))
    assert answer[1] == 250
    assert heartbeat_response(answer).throttle_time_ms == 250


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    async def handle(request: ApiVersionsRequest, context: RequestContext[None]) -> ApiVersionsResponse:
        raise AssertionError("the handler of supported versions")

    routes = routes_of([ApiHandler(ApiVersionsRequest, "0-3", handle)])
    dispatcher = Dispatcher(None, routes, clock=lambda: 0.0)
    frame = frame_of(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    parts, _ = run(dispatcher.answer(frame, CLIENT))
    _, response = decode_response(ApiVersionsResponse, 0, b"".join(parts)[4:])
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in response.api_keys] == [(18, 0, 3)]


@pytest.mark.parametrize("step", ["authorize", "throttle_time_ms", "request_completed"])
def test_a_bug_in_any_step_is_answered(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    steps = Steps()
    monkeypatch.setattr(steps, step, broken)
    with structlog.testing.capture_logs() as logs:
        parts, _ = run(steps.dispatcher().answer(frame_of(HeartbeatRequest(group_id="g"), 4), CLIENT))
    assert decode_response(HeartbeatResponse, 4, b"".join(parts)[4:])[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [event["event"] for event in logs] == ["request failed"]


async def broken(request: Any, context: RequestContext[None]) -> Any:
    raise ZeroDivisionError


def broken_at_once(request: Any, context: RequestContext[None]) -> Any:
    raise ZeroDivisionError


async def too_long(request: Any, context: RequestContext[None]) -> Any:
    return ListGroupsResponse(groups=[ListedGroup(group_id="x" * 32_768)])


def too_long_at_once(request: Any, context: RequestContext[None]) -> Any:
    return ListGroupsResponse(groups=[ListedGroup(group_id="x" * 32_768)])


async def not_unicode(request: Any, context: RequestContext[None]) -> Any:
    return ListGroupsResponse(groups=[ListedGroup(group_id="\ud800")])


@pytest.mark.parametrize("handle", [broken, broken_at_once, too_long, too_long_at_once, not_unicode])
def test_a_bug_in_a_handler_is_answered_and_logged_and_counted_once(handle: Any) -> None:
    """So is a response that cannot be encoded."""
    failed = FAILURES["ListGroups"]
    dispatcher = Dispatcher(None, routes_of([ApiHandler(ListGroupsRequest, "0-5", handle)]), clock=lambda: 0.0)
    for version in range(6):
        with structlog.testing.capture_logs() as logs:
            parts, _ = run(dispatcher.answer(frame_of(ListGroupsRequest(), version), CLIENT))
        _, response = decode_response(ListGroupsResponse, version, b"".join(parts)[4:])
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        (event,) = logs
        assert (event["event"], event["api"], event["version"]) == ("request failed", "ListGroups", version)
        assert event["exc_info"]
    assert FAILURES["ListGroups"] == failed + 6


@pytest.mark.parametrize("acks", [0, 1])
def test_a_bug_in_a_produce_without_a_response_closes_the_connection(acks: int) -> None:
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=7, records=None)])
    request = ProduceRequest(acks=acks, timeout_ms=1, topic_data=[topic])
    dispatcher = Dispatcher(None, routes_of([ApiHandler(ProduceRequest, "3-12", broken)]), clock=lambda: 0.0)
    if not acks:
        with pytest.raises(Disconnect, match="Produce"):
            run(dispatcher.answer(frame_of(request, 12), CLIENT))
        return
    parts, _ = run(dispatcher.answer(frame_of(request, 12), CLIENT))
    _, response = decode_response(ProduceResponse, 12, b"".join(parts)[4:])
    answered = [(topic.name, one.index, one.error_code) for topic in response.responses
                for one in topic.partition_responses]
    assert answered == [("t", 7, ErrorCode.UNKNOWN_SERVER_ERROR)]


@pytest.mark.parametrize(("level", "events"), [("INFO", []), ("DEBUG", ["request completed"])])
def test_requests_are_logged_at_level_debug_only(level: str, events: list[str]) -> None:
    steps = Steps()
    dispatcher = Dispatcher(
        "services",
        routes_of([ApiHandler(HeartbeatRequest, "0-4", steps.handle)]),
        clock=lambda: 0.0,
        observer=RequestLog({"root": level}, "root"),
    )
    with structlog.testing.capture_logs() as logs:
        run(dispatcher.answer(frame_of(HeartbeatRequest(group_id="g"), 4), CLIENT))
    assert [event["event"] for event in logs] == events
    if logs:
        assert (logs[0]["api"], logs[0]["principal"], logs[0]["client"]) == ("Heartbeat", str(ANONYMOUS), "me")
