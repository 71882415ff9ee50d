"""A client without a login: the listener is asked only if it closes the connection at the first request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork, HangUp
from trio.testing import MockClock

from minikafka.client import Admin
from minikafka.client.connections.connection import Connection
from minikafka.client.connections.without_login import ASKED_S_MAX, WithoutLogin
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import IllegalSaslStateError, KafkaError, NetworkError
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

RETRYING_S = 10
EXPECTED = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["PLAIN", "OTHER"])
NOT_EXPECTED = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def hang_up(request: Any, version: int) -> Any:
    raise HangUp


def contact(network: FakeNetwork) -> tuple[KafkaError, float]:
    """The error of a client that connects to the broker a:1, and how many seconds that took."""
    raised: list[KafkaError] = []

    async def main() -> float:
        options: dict[str, Any] = {"socket_connection_setup_timeout_ms": RETRYING_S * 1000}
        with pytest.raises(KafkaError) as error:
            async with Admin(bootstrap_servers="a:1", seams=network.seams(), **options):
                pass
        raised.append(error.value)
        return trio.current_time()

    async def timed() -> float:
        began = trio.current_time()
        return await main() - began

    seconds = trio.run(timed, clock=MockClock(autojump_threshold=0))
    return raised[0], seconds


def listener(answer: Callable[[Any, int], Any]) -> FakeNetwork:
    """A broker that hangs up at Metadata, and answers a handshake so."""
    network = FakeNetwork()
    network.broker("a", 1, {MetadataRequest: hang_up, SaslHandshakeRequest: answer})
    return network


def test_a_listener_that_expects_a_login_is_named_with_its_mechanisms_at_once() -> None:
    error, seconds = contact(listener(lambda request, version: EXPECTED))
    assert isinstance(error, IllegalSaslStateError)
    assert str(error).startswith("a:1 expects a login by SASL (PLAIN, OTHER): security.protocol must be SASL_PLAINTEXT")
    assert seconds == 0


@pytest.mark.parametrize("answer", [lambda request, version: NOT_EXPECTED, hang_up])
def test_a_broker_that_stops_is_tried_again(answer: Callable[[Any, int], Any]) -> None:
    error, seconds = contact(listener(answer))
    assert isinstance(error, NetworkError)
    assert "the broker closed the connection" in str(error)
    assert seconds == RETRYING_S


def test_a_broker_that_hangs_up_and_is_silent_then_costs_a_bounded_time() -> None:
    lost: list[tuple[str | KafkaError, float]] = []
    connection = OneRequest(lost)

    async def silent() -> None:
        await trio.sleep_forever()

    async def main() -> None:
        with trio.fail_after(2 * ASKED_S_MAX):
            await lose_it()

    async def lose_it() -> None:
        async with trio.open_nursery() as nursery:
            receiver = WithoutLogin(connection, silent, nursery.start_soon)
            receiver.negotiated()
            connection.in_flight = 1
            began = trio.current_time()
            receiver.on_lost("the broker closed the connection")
            assert not lost
        ((why, ended),) = lost
        assert (why, ended - began) == ("the broker closed the connection", ASKED_S_MAX)

    trio.run(main, clock=MockClock(autojump_threshold=0))


class OneRequest(Connection):
    """A connection that notes when it is lost."""

    in_flight = 0

    def __init__(self, lost: list[tuple[str | KafkaError, float]]) -> None:
        super().__init__("a", 1, "client")
        self._lost = lost

    def on_lost(self, why: str | KafkaError) -> None:
        self._lost.append((why, trio.current_time()))


def test_a_broker_that_hangs_up_later_is_not_asked() -> None:
    network = FakeNetwork()
    broker = network.broker("a", 1, {ListGroupsRequest: hang_up})

    async def main() -> None:
        async with Admin(bootstrap_servers="a:1", seams=network.seams()) as admin:
            with pytest.raises(NetworkError):
                await admin.cluster.request(ListGroupsRequest(), timeout_ms=1000)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert ListGroupsRequest in map(type, broker.requests)
    assert SaslHandshakeRequest not in map(type, broker.requests)


def test_a_client_that_is_closed_while_the_listener_is_asked_ends() -> None:
    network = listener(lambda request, version: None)

    async def main() -> None:
        with trio.move_on_after(ASKED_S_MAX / 2) as scope:
            async with Admin(bootstrap_servers="a:1", seams=network.seams()):
                pass
        assert scope.cancelled_caught

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert SaslHandshakeRequest in map(type, network.brokers[0].requests)
    assert not any(stream.open for stream in network.brokers[0].streams)
