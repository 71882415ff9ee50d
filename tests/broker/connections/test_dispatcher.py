"""The steps of a request: their order, what each is given, and what a refusal or a bug leads to."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing

from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.large_messages import LargeMessages
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect, RequestContext
from minikafka.broker.connections.request_log import RequestLog
from minikafka.broker.connections.routes import ApiHandler, routes_of
from minikafka.broker.quotas.request_meter import RequestMeter, RequestQuotas
from minikafka.controller.failures import FAILURES
from minikafka.controller.security.access import ANONYMOUS, Access, Principal
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ClusterAuthorizationFailedError, ErrorCode, RequestTimedOutError
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from minikafka.storage.waits import in_task

ALICE = Principal("User", "alice")
CLIENT = ConnectionInfo("SASL", "10.0.0.1", "10.0.0.2", 9092, principal=ALICE)


@dataclass
class Steps:
    """Every step of a dispatcher: each notes that it was called."""

    called: list[str] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    refused: bool = False
    throttle_ms: int = 0

    def allows(self, principal: Principal, host: str, *asked: object, log_denied: bool) -> bool:
        self.called.append("authorize")
        assert (principal, host, log_denied) == (ALICE, "10.0.0.1", True)
        assert asked == (AclOperation.READ, AclResourceType.GROUP, "g")
        return not self.refused

    def allows_any(self, *_: object) -> bool:
        raise AssertionError("the handler names the group")

    async def handle(self, request: HeartbeatRequest, context: RequestContext[str]) -> HeartbeatResponse:
        self.called.append("handle")
        if not context.access.allows(AclOperation.READ, AclResourceType.GROUP, request.group_id):
            raise ClusterAuthorizationFailedError("not alice")
        assert (context.services, context.version, context.client_id) == ("services", 4, "me")
        return HeartbeatResponse()

    @property
    def counted(self) -> set[bytes]:
        return {b"\x00\x0c"}

    def meter(self, user: str, client_id: str, size_bytes: int, began_s: float) -> Any:
        self.measured |= {"user": user, "client_id": client_id, "size_bytes": size_bytes}
        return self

    def waits(self) -> None:
        self.called.append("waits")

    def resumes(self) -> None:
        self.called.append("resumes")

    def throttle(self, request: Any, response: Any, access: Access) -> int:
        self.called.append("throttle")
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
    assert steps.called == ["handle", "authorize", "throttle", "measure"]
    assert heartbeat_response(answer).error_code == 0
    assert steps.measured == {
        "api": "Heartbeat",
        "user": "alice",
        "client_id": "me",
        "size_bytes": len(frame),
        "duration_s": 0.5,
        "request_size_bytes": len(frame),
        "response_size_bytes": len(b"".join(answer[0])),
        "throttle_ms": 0,
    }


def test_a_handler_that_its_access_refuses_is_answered_with_its_error() -> None:
    steps = Steps(refused=True)
    answer = run(steps.dispatcher().answer(frame_of(HeartbeatRequest(group_id="g"), 4), CLIENT))
    assert steps.called == ["handle", "authorize", "throttle", "measure"]
    assert heartbeat_response(answer).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("operation", AclOperation)
def test_without_an_authorizer_everything_is_allowed(operation: AclOperation) -> None:
    access = RequestContext(None, 0, "", ConnectionInfo("PLAINTEXT", "10.0.0.1")).access
    assert access == Access(None, ANONYMOUS, "10.0.0.1")
    assert access.is_open
    assert access.allows(operation, AclResourceType.TOPIC, "t")
    assert access.allows_any(operation, AclResourceType.TOPIC)
    assert access.operations({operation, AclOperation.READ}, AclResourceType.TOPIC, "t") == sum(
        1 << one for one in {operation, AclOperation.READ}
    )


def test_the_operations_are_those_that_the_authorizer_allows_and_no_denial_is_logged() -> None:
    class Reads(Steps):
        def allows(self, principal: Principal, host: str, *asked: object, log_denied: bool) -> bool:
            assert not log_denied
            return asked == (AclOperation.READ, AclResourceType.TOPIC, "t")

    context = RequestContext(None, 0, "", CLIENT, Reads())
    assert not context.access.is_open
    assert context.access.operations([AclOperation.READ, AclOperation.WRITE], AclResourceType.TOPIC, "t") == 1 << 3


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


def test_a_throttle_time_that_the_controller_sent_mutes_too() -> None:
    async def handle(request: HeartbeatRequest, context: RequestContext[str]) -> HeartbeatResponse:
        return HeartbeatResponse(throttle_time_ms=700)

    routes = routes_of([ApiHandler(HeartbeatRequest, "0-4", handle)])
    dispatcher = Dispatcher("services", routes, clock=lambda: 0.0, quotas=Steps(throttle_ms=250))
    answer = run(dispatcher.answer(frame_of(HeartbeatRequest(group_id="g"), 4), CLIENT))
    assert answer[1] == 700
    assert heartbeat_response(answer).throttle_time_ms == 700


def test_a_request_is_not_measured_while_it_waits() -> None:
    async def handle(request: HeartbeatRequest, context: RequestContext[str]) -> HeartbeatResponse:
        steps.called.append("begins")
        await in_task()
        steps.called.append("goes on")
        return HeartbeatResponse()

    steps = Steps()
    routes = routes_of([ApiHandler(HeartbeatRequest, "0-4", handle)])
    dispatcher = Dispatcher("services", routes, clock=lambda: 0.0, quotas=steps)
    run(dispatcher.answer(frame_of(HeartbeatRequest(group_id="g"), 4), CLIENT))
    assert steps.called == ["begins", "waits", "resumes", "goes on", "throttle"]


@pytest.mark.parametrize(("groups", "percent"), [(10, 300), (9_000, 500)])
def test_the_time_of_all_steps_counts_also_of_a_large_request_with_its_decoding(groups: int, percent: float) -> None:
    """The handler has three steps of 1 s with waits of 60 s; decoding 9,000 names in a thread takes 2 s."""
    now_s = 100.0

    def clock() -> float:
        return now_s

    async def handle(request: DescribeGroupsRequest, context: RequestContext[str]) -> DescribeGroupsResponse:
        nonlocal now_s
        for _ in range(2):
            now_s += 1
            await in_task()
            await lot.park()
        now_s += 1
        return DescribeGroupsResponse()

    async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
        nonlocal now_s
        now_s += 2
        return function(*args)

    recorded: list[float] = []

    def record(user: str, client_id: str, value: float, now_ms: float) -> int:
        recorded.append(value)
        return 0

    of_time: Any = SimpleNamespace(limits=SimpleNamespace(exist=True), record=record)
    limits: Any = RequestQuotas(None, None, of_time, clock)  # type: ignore[arg-type]
    quotas: Any = SimpleNamespace(counted={b"\x00\x0f"}, meter=partial(RequestMeter, limits))
    routes = routes_of([ApiHandler(DescribeGroupsRequest, "0-5", handle)])
    dispatcher = Dispatcher("s", routes, clock=clock, quotas=quotas, large_messages=LargeMessages(in_thread))
    frame = frame_of(DescribeGroupsRequest(groups=[f"g{number}" for number in range(groups)]), 5)

    async def main() -> None:
        nonlocal now_s
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dispatcher.answer, frame, CLIENT)
            await trio.testing.wait_all_tasks_blocked()
            while not recorded:
                now_s += 60
                lot.unpark()
                await trio.testing.wait_all_tasks_blocked()

    lot = trio.lowlevel.ParkingLot()
    trio.run(main)
    assert recorded == [percent]


def test_only_counted_requests_leave_the_shortcut() -> None:
    class Uncounted(Steps):
        @property
        def counted(self) -> set[bytes]:
            return set()

    routes = routes_of([ApiHandler(HeartbeatRequest, "0-4", Steps().handle)])
    frame = frame_of(HeartbeatRequest(group_id="g"), 4)
    for quotas, expected in ((Uncounted(), b"short"), (None, b"short")):
        shortcut = {b"\x00\x0c": lambda frame, connection: [b"short"]}
        dispatcher = Dispatcher("services", routes, clock=lambda: 0.0, quotas=quotas, shortcuts=shortcut)
        assert run(dispatcher.answer(frame, CLIENT)) == ([expected], 0)
    dispatcher = Dispatcher("services", routes, clock=lambda: 0.0, quotas=Steps(throttle_ms=9), shortcuts=shortcut)
    assert run(dispatcher.answer(frame, CLIENT))[1] == 9


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


@pytest.mark.parametrize("step", ["allows", "throttle", "request_completed"])
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
        assert (logs[0]["api"], logs[0]["principal"], logs[0]["client"]) == ("Heartbeat", str(ALICE), "me")
