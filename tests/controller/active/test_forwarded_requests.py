"""Requests that other nodes forward: what is malformed or too large is answered, and a large one leaves the loop."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio

from minikafka.controller.active import forwarded_requests
from minikafka.controller.active.forwarded_requests import SIZE_BYTES_AT_ONCE, ForwardedRequests, request_body
from minikafka.controller.active.leadership_term import Outcome
from minikafka.controller.decisions.decision import Decision
from minikafka.controller.security.access import ANONYMOUS, UNRESTRICTED, Access, Principal
from minikafka.controller.security.decision_log import DecisionLog
from minikafka.controller.security.standard_authorizer import StandardAuthorizer
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

VERSION = 7
AUTHORIZER = StandardAuthorizer(
    frozenset(), open_without_acls=False, levels={"root": "INFO"}, log=DecisionLog(lambda: 0)
)


class Disk:
    """Counts the functions that it runs, and has the access of the last request."""

    def __init__(self) -> None:
        self.calls = 0
        self.access: Access | None = None

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        self.calls += 1
        await trio.lowlevel.checkpoint()
        return function(*args)


def answer(body: Mapping[str, Any], disk: Disk) -> Mapping[str, Any]:
    async def carry_out(request: Any, version: int, access: Access) -> Outcome[Any]:
        disk.access = access
        return Outcome(Decision([], CreateTopicsResponse()), len(request.topics))

    replies: list[Mapping[str, Any]] = []
    requests = ForwardedRequests(carry_out, disk, AUTHORIZER)
    trio.run(requests.answer, body, replies.append)
    assert requests.unanswered == 0
    [reply] = replies
    return reply


def creating(topics: int, access: Access = UNRESTRICTED) -> dict[str, Any]:
    return request_body(CreateTopicsRequest(topics=[CreatableTopic(name="t")] * topics), VERSION, access)


def test_a_large_request_is_decoded_in_a_thread() -> None:
    disk = Disk()
    assert answer(creating(1), disk)["offset"] == 1
    assert disk.calls == 0
    topics = SIZE_BYTES_AT_ONCE // 4
    assert answer(creating(topics), disk)["offset"] == topics
    assert disk.calls == 1


@pytest.mark.parametrize("topics", [10, 10_000], ids=["small", "large"])
def test_a_request_of_too_many_elements_is_refused(topics: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarded_requests, "ELEMENTS_MAX", topics - 1)
    reply = answer(creating(topics), Disk())
    assert reply == {"error": ErrorCode.UNKNOWN_SERVER_ERROR, "message": f"more than {topics - 1} elements"}
    assert answer(creating(topics - 1), Disk())["offset"] == topics - 1


def test_the_requests_of_a_large_cluster_are_below_the_bound() -> None:
    """100,000 partitions with topics of their own, and three replicas in sync each."""
    assert forwarded_requests.ELEMENTS_MAX > 100_000 * (1 + 1 + 3)


@pytest.mark.parametrize(
    "body",
    [{}, {"api": 19}, {"api": 19, "version": 99, "data": b""}, {"api": 19, "version": 7, "data": b"\xff" * 50_000}],
)
def test_a_malformed_request_is_answered(body: dict[str, Any]) -> None:
    assert answer(body, Disk())["error"] == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("client", [Principal("User", "alice"), Principal("Group", "alice"), ANONYMOUS], ids=str)
@pytest.mark.parametrize("of_node", [None, AUTHORIZER], ids=["without an authorizer", "with one"])
def test_the_client_is_the_one_that_asked_the_forwarding_node(
    of_node: StandardAuthorizer | None, client: Principal
) -> None:
    """Otherwise an anonymous client could do what a node may do, by way of a node."""
    disk = Disk()
    assert "offset" in answer(creating(1, Access(of_node, client, "10.0.0.1", "app")), disk)
    assert disk.access == Access(AUTHORIZER, client, "10.0.0.1", "app")


def test_a_request_of_the_node_itself_has_no_client() -> None:
    disk = Disk()
    assert "client" not in creating(1)
    assert "offset" in answer(creating(1), disk)
    assert disk.access == UNRESTRICTED


@pytest.mark.parametrize("client", [[], ["User", "alice"], ["User", "alice", "10.0.0.1", 1], "User:alice", None])
def test_a_malformed_client_is_refused(client: object) -> None:
    disk = Disk()
    assert "error" in answer(creating(1) | {"client": client}, disk)
    assert disk.access is None
