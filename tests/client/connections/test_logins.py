"""Sessions of SASL are renewed on the open connection, and requests wait meanwhile (KIP-368)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from support.fake_network import FakeNetwork, HangUp, Later

from minikafka.client.connections.connection import Connection, open_connection
from minikafka.client.security.connection_security import ConnectionSecurity
from minikafka.client.security.sasl_exchange import ROUNDS_MAX
from minikafka.client.security.sasl_login import SaslLogin
from minikafka.client.security.token_source import LATE, TokenSource
from minikafka.protocol.errors import NetworkError, SaslAuthenticationFailedError
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

pytestmark = pytest.mark.anyio
LIFETIME_MS = 1_000_000
PLAIN = SaslLogin("PLAIN", "alice", "secret")
TOO_EARLY, DUE = 849, 951
"""Seconds after which a session of that lifetime is never renewed yet, and always."""


class Clock:
    """The clock of a session, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Tasks:
    """Background tasks that a test runs itself."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], Awaitable[None]]] = []

    def start_soon(self, task: Callable[[], Awaitable[None]]) -> None:
        self.waiting.append(task)

    async def run(self) -> None:
        while self.waiting:
            await self.waiting.pop(0)()


class Secured:
    """A connection whose broker asks for a login; its answers to SaslAuthenticate are `answers`, the last one again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.tasks, self.network = Clock(), Tasks(), FakeNetwork()
        lasting = SaslAuthenticateResponse(error_message=None, session_lifetime_ms=LIFETIME_MS)
        self.answers: list[Any] = [lasting]
        handlers: dict[Any, Any] = {
            SaslHandshakeRequest: lambda request, version: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            SaslAuthenticateRequest: self._answer,
            ListGroupsRequest: lambda request, version: ListGroupsResponse(),
            ProduceRequest: lambda request, version: None,
        }
        self.broker = self.network.broker("a", 1, handlers)
        monkeypatch.setattr("minikafka.client.connections.connection.event_loop_clock", lambda: self.clock)

    def _answer(self, request: Any, version: int) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is HangUp:
            raise HangUp
        return answer

    async def open(self, login: SaslLogin = PLAIN, *, timeout_ms: float = 60_000) -> Connection:
        return await open_connection(
            "a",
            1,
            client_id="c",
            seams=replace(self.network.seams(), random_bytes=bytes),
            task_group=self.tasks,
            timeout_ms=timeout_ms,
            security=ConnectionSecurity(login=login),
        )

    def received(self) -> list[str]:
        """The requests that the broker has received since the last call."""
        names = [type(request).__name__.removesuffix("Request") for request in self.broker.requests]
        self.broker.requests.clear()
        return names


@pytest.fixture
def secured(monkeypatch: pytest.MonkeyPatch, anyio_backend: str) -> Secured:
    return Secured(monkeypatch)


def post(connection: Connection, replies: list[Any], **given: Any) -> None:
    message, deadline = given.pop("message", ListGroupsRequest()), given.pop("deadline", 9e9)
    connection.post(message, replies.append, deadline=deadline, **given)


async def test_a_session_is_renewed_before_it_ends_and_requests_wait_in_order(secured: Secured) -> None:
    connection = await secured.open()
    assert secured.received() == ["ApiVersions", "SaslHandshake", "SaslAuthenticate"]
    replies: list[Any] = []
    secured.clock.now = TOO_EARLY
    post(connection, replies)
    assert (secured.received(), len(secured.tasks.waiting)) == (["ListGroups"], 0)
    secured.clock.now = DUE
    post(connection, replies)
    post(connection, replies, message=ProduceRequest(), is_answered=False, deadline=5)
    assert (secured.received(), connection.in_flight, connection.deadline, len(replies)) == ([], 2, 5, 1)
    await secured.tasks.run()
    assert secured.received() == ["SaslHandshake", "SaslAuthenticate", "ListGroups", "Produce"]
    assert [type(reply).__name__ for reply in replies[1:]] == ["ListGroupsResponse", "NoneType"]
    assert connection.in_flight == 0
    secured.clock.now += TOO_EARLY
    post(connection, replies)
    assert secured.received() == ["ListGroups"]
    secured.clock.now += DUE - TOO_EARLY
    post(connection, replies)
    await secured.tasks.run()
    assert secured.received() == ["SaslHandshake", "SaslAuthenticate", "ListGroups"]


async def test_a_response_that_was_asked_for_before_a_renewal_comes_first(secured: Secured) -> None:
    later = Later()
    connection = await secured.open()
    secured.broker.in_order = True
    secured.broker.handlers[ListGroupsRequest] = lambda request, version: later
    replies: list[Any] = []
    post(connection, replies)
    secured.clock.now = DUE
    post(connection, replies, message=ProduceRequest(), is_answered=False)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(secured.tasks.run)
        await anyio.wait_all_tasks_blocked()
        later.answer(ListGroupsResponse())
    assert [type(reply).__name__ for reply in replies] == ["ListGroupsResponse", "NoneType"]


@pytest.mark.parametrize("refusal", ["refused", "hung up"])
async def test_a_connection_whose_session_cannot_be_renewed_is_lost(secured: Secured, refusal: str) -> None:
    connection = await secured.open()
    refused = SaslAuthenticateResponse(error_code=58, error_message="Invalid username or password")
    secured.answers = [HangUp if refusal == "hung up" else refused]
    replies: list[Any] = []
    secured.clock.now = DUE
    post(connection, replies)
    await secured.tasks.run()
    assert [type(reply) for reply in replies] == [NetworkError]
    assert replies[0].retriable
    assert connection.closed
    assert connection.in_flight == 0


async def test_a_lost_connection_fails_what_waits(secured: Secured) -> None:
    connection = await secured.open()
    replies: list[Any] = []
    secured.clock.now = DUE
    post(connection, replies)
    secured.broker.hang_up()
    assert [type(reply) for reply in replies] == [NetworkError]
    assert connection.in_flight == 0


async def test_a_session_without_an_end_is_not_renewed(secured: Secured) -> None:
    secured.answers = [SaslAuthenticateResponse(error_message=None)]
    connection = await secured.open()
    secured.clock.now = 1e12
    post(connection, [])
    assert secured.tasks.waiting == []


async def test_a_broker_that_asks_on_and_on_is_left(secured: Secured) -> None:
    """It challenges a client of OAUTHBEARER again and again."""
    secured.answers = [SaslAuthenticateResponse(error_message=None, auth_bytes=b"{}")]
    with pytest.raises(SaslAuthenticationFailedError, match="refuses the token"):
        await secured.open(SaslLogin("OAUTHBEARER", tokens=TokenSource(lambda: "abc")))
    assert secured.received().count("SaslAuthenticate") <= ROUNDS_MAX


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=0000,s=c2FsdA==,i=4095", "does not begin with|iterations"),
        (b"r=%s1,s=c2FsdA==,i=4095" % (b"0" * 48), "asks for 4095 iterations"),
        (b"r=%s1,s=c2FsdA==,i=999999999" % (b"0" * 48), "asks for 999999999 iterations"),
        (b"", "malformed"),
    ],
)
async def test_a_broker_that_lies_is_not_trusted(secured: Secured, challenge: bytes, reason: str) -> None:
    secured.answers = [SaslAuthenticateResponse(error_message=None, auth_bytes=challenge)]
    with pytest.raises(SaslAuthenticationFailedError, match=reason):
        await secured.open(SaslLogin("SCRAM-SHA-256", "alice", "secret"))


async def test_a_broker_that_does_not_know_the_password_is_not_trusted(secured: Secured) -> None:
    first = b"r=%s1,s=c2FsdA==,i=4096" % (b"0" * 48)
    answer = partial(SaslAuthenticateResponse, error_message=None)
    secured.answers = [answer(auth_bytes=first), answer(auth_bytes=b"v=AAAA"), answer()]
    with pytest.raises(SaslAuthenticationFailedError, match="its signature is wrong"):
        await secured.open(SaslLogin("SCRAM-SHA-256", "alice", "secret"))


async def test_a_provider_that_does_not_return_is_why_there_is_no_connection(secured: Secured) -> None:
    login = SaslLogin("OAUTHBEARER", tokens=TokenSource(anyio.sleep_forever))  # type: ignore[arg-type]
    with pytest.raises(NetworkError, match=f"{LATE} within 50 ms"):
        await secured.open(login, timeout_ms=50)
