"""Nodes log in at each other by SASL before the handshake, and renew their sessions on the open connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from support.memory_network import MemoryNetwork

from minikafka.broker.apis.at_controllers import CONTROLLER_HANDLERS
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.security.guards import guard_of
from minikafka.broker.security.mechanisms import Credentials
from minikafka.broker.security.node_guests import NodeGuest, OnlyLogins
from minikafka.broker.security.token_keys import TokenKeys
from minikafka.broker.settings.node_config import load_config
from minikafka.client.connections.seams import Seams
from minikafka.client.security.sasl_login import SaslLogin
from minikafka.controller.metadata.image import Image
from minikafka.controller.quorum.handshake import Hello, hello_map
from minikafka.controller.quorum.node_logins import Admitted, NodeLogins, PeerSecurity
from minikafka.controller.quorum.peer_connection import Reply
from minikafka.controller.quorum.peer_frames import FrameStream, encode_frame
from minikafka.controller.quorum.peers import LOGIN_BACKOFF_S, Peers, Unreachable
from minikafka.controller.security.access import Principal
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.storage.disks.memory_disk import MemoryDisk

VOTERS = {1: ("node-1", 9093), 2: ("node-2", 9093)}
SESSION_S = 4.0
PREFIX = "listener.name.controller"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CONFIG = load_config(
    settings={
        "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:2",
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"{PREFIX}.sasl.enabled.mechanisms": "PLAIN",
        f"{PREFIX}.connections.max.reauth.ms": str(int(SESSION_S * 1000)),
        f"{PREFIX}.plain.sasl.jaas.config": f'{MODULE} username="node" password="among-us" user_node="among-us";',
    }
)


def guest(stream: trio.abc.Stream) -> NodeGuest:
    token_keys = TokenKeys(Image(), None, Random(1), MemoryDisk())
    credentials = Credentials(Image(), Random(1), lambda settings: pytest.fail("no tokens"), token_keys)
    (listener,) = CONFIG.listeners.for_controllers
    guard = guard_of(CONFIG, listener, OnlyLogins(), routes_of(CONTROLLER_HANDLERS), credentials, lambda: 0)
    return NodeGuest(guard, "CONTROLLER", "127.0.0.1")


def logins(password: str = "among-us") -> NodeLogins:
    return NodeLogins(SaslLogin("PLAIN", "node", password), Seams(now_ms=lambda: 0, random=Random(1)), "node-2")


class Node:
    """Peers that respond to every request, and remember who was admitted."""

    def __init__(self, network: MemoryNetwork, node_id: int, security: PeerSecurity) -> None:
        self.admitted: list[Principal | None] = []
        self.asked: list[str] = []
        self.lost: list[int] = []
        self.refused: list[str] = []
        self.network = network.of(node_id)
        self.peers = Peers(
            node_id,
            network=self.network,
            voters=VOTERS,
            cluster_id=lambda: "a",
            on_cluster_id=lambda cluster_id: None,
            on_request=self._on_request,
            on_connection_lost=lambda node_id, is_dead: self.lost.append(node_id),
            on_refused=lambda node, reason: self.refused.append(reason),
        )
        self.peers.security = replace(security, admission=self._admission)

    def _admission(self, stream: trio.abc.Stream, principal: Principal | None) -> Admitted:
        self.admitted.append(principal)
        return lambda: True

    def _on_request(self, sender: int, kind: str, body: dict[str, Any], reply: Reply) -> None:
        self.asked.append(kind)
        reply({})

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        await self.peers.run(await self.network.listen("", 0), task_status=task_status)


SECURED = PeerSecurity(guest=guest)
Scenario = Callable[[Node, Node], Awaitable[None]]


def with_nodes(scenario: Scenario, accepting: PeerSecurity, opening: PeerSecurity) -> None:
    async def main() -> None:
        network = MemoryNetwork()
        one, two = Node(network, 1, accepting), Node(network, 2, opening)
        async with trio.open_nursery() as nursery:
            await nursery.start(one.run)
            await nursery.start(two.run)
            await scenario(one, two)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_node_logs_in_and_is_known_by_its_principal() -> None:
    async def scenario(one: Node, two: Node) -> None:
        await two.peers.request(1, "raft", {})
        assert one.admitted == [Principal("User", "node")]
        assert one.asked == ["raft"]

    with_nodes(scenario, SECURED, PeerSecurity(logins=logins()))


def test_who_has_logged_in_and_may_not_act_as_a_node_is_named_by_its_principal() -> None:
    async def scenario(one: Node, two: Node) -> None:
        one.peers.security = replace(one.peers.security, admission=lambda stream, principal: lambda: False)
        with capture_logs() as lines, pytest.raises(Unreachable):
            await two.peers.request(1, "raft", {})
        (refused,) = [line["reason"] for line in lines if line["event"] == "peer handshake refused"]
        assert refused.startswith("User:node at ")
        assert "CLUSTER_ACTION" in refused

    with_nodes(scenario, SECURED, PeerSecurity(logins=logins()))


def test_sessions_are_renewed_before_they_end_on_the_open_connection() -> None:
    async def scenario(one: Node, two: Node) -> None:
        for _ in range(10):
            await two.peers.request(1, "raft", {})
            await trio.sleep(SESSION_S * 0.8)
        assert one.admitted == [Principal("User", "node")], "one connection"
        assert one.lost == two.lost == []

    with_nodes(scenario, SECURED, PeerSecurity(logins=logins()))


def test_a_refused_login_is_told_and_tried_again_after_a_pause_without_end() -> None:
    async def scenario(one: Node, two: Node) -> None:
        with capture_logs() as lines:
            began = trio.current_time()
            while trio.current_time() < began + 10:
                with pytest.raises(Unreachable):
                    await two.peers.request(1, "raft", {})
                await trio.sleep(0.05)
        failures = [line for line in lines if line["event"] == "authentication failed"]
        assert 2 <= len(failures) <= 10 / LOGIN_BACKOFF_S + 1
        (refused,) = [line for line in lines if "refused PLAIN for user 'node'" in line.get("reason", "")]
        assert refused["reason"].endswith("Authentication failed: Invalid username or password")
        assert two.refused == [], "a node goes on: the password may be changed"
        assert one.admitted == one.asked == []

    with_nodes(scenario, SECURED, PeerSecurity(logins=logins("wrong")))


@pytest.mark.parametrize(
    ("accepting", "opening", "told"),
    [
        (SECURED, PeerSecurity(), "this listener expects a login by SASL"),
        (PeerSecurity(), PeerSecurity(logins=logins()), "this listener takes no login"),
    ],
    ids=["only-the-listener", "only-the-node"],
)
def test_a_node_of_another_protocol_is_refused_and_told(
    accepting: PeerSecurity, opening: PeerSecurity, told: str
) -> None:
    async def scenario(one: Node, two: Node) -> None:
        with pytest.raises(Unreachable, match=told):
            await two.peers.request(1, "raft", {})
        assert two.refused == []
        assert one.asked == []

    with_nodes(scenario, accepting, opening)


async def connected(node: Node) -> tuple[trio.abc.Stream, FrameStream]:
    stream = await node.network.connect(*VOTERS[1])
    return stream, FrameStream(stream, 1 << 20)


async def log_in(stream: trio.abc.Stream, frames: FrameStream, pause_s: float = 0.0) -> int:
    """Log in, with a pause before each request. Returns how long the session lasts, in ms."""

    async def ask(request: bytes) -> bytes:
        await trio.sleep(pause_s)
        await stream.send_all(encode_frame({"kind": "login", "request": request}))
        answer = await frames.next()
        assert answer is not None, "the connection was closed"
        return bytes(answer["response"])

    return await logins().log_in(ask, "node-1")


def test_a_session_that_is_not_renewed_ends_the_connection_at_the_next_request() -> None:
    async def scenario(one: Node, two: Node) -> None:
        stream, frames = await connected(two)

        assert await log_in(stream, frames) == SESSION_S * 1000
        await stream.send_all(encode_frame(hello_map(Hello(2, 1, "a", {}))))
        await frames.next()
        for wait_s, asked in ((SESSION_S - 0.1, 1), (0.2, 1)):
            await trio.sleep(wait_s)
            await stream.send_all(encode_frame({"kind": "ask", "id": 1, "what": "raft", "body": {}}))
            await trio.sleep(0.01)
            assert len(one.asked) == asked
        assert (await frames.next()) == {"kind": "answer", "id": 1, "body": {}}
        assert await frames.next() is None

    with_nodes(scenario, SECURED, PeerSecurity())


def test_before_the_login_other_requests_of_kafka_are_not_carried_out() -> None:
    async def scenario(one: Node, two: Node) -> None:
        for message, version in ((MetadataRequest(topics=None), 9), (ApiVersionsRequest(), 2)):
            stream, frames = await connected(two)
            began, request = trio.current_time(), encode_request(message, version, 0, "x")[4:]
            await stream.send_all(encode_frame({"kind": "login", "request": request}))
            assert await frames.next() is None
            assert trio.current_time() < began + 1, "at once"
        assert one.admitted == []

    with_nodes(scenario, SECURED, PeerSecurity())


@pytest.mark.parametrize("count", [60, 200, pytest.param(1000, marks=pytest.mark.slow)])
def test_strangers_keep_no_slow_node_out(count: int) -> None:
    """Some are silent, others begin a login; all of them connect again as soon as they are closed. The node takes its
    time for each message, and more of it for the handshake once it has logged in."""
    begins = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 0, "x")[4:]
    begun = encode_frame({"kind": "login", "request": begins})

    async def scenario(one: Node, two: Node) -> None:
        one.peers.security = replace(one.peers.security, strangers_max=24)
        sent = trio.Event()

        async def stranger(number: int) -> None:
            while True:
                stream, frames = await connected(two)
                if number % 3:
                    await stream.send_all(begun)
                    sent.set()
                while await frames.next():
                    pass

        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(stranger, number)
            await sent.wait()
            stream, frames = await connected(two)

            with trio.fail_after(10):
                await log_in(stream, frames, 0.06)
                await trio.sleep(0.9)
                await stream.send_all(encode_frame(hello_map(Hello(2, 1, "a", {}))))
                answer = await frames.next()
            assert answer is not None
            assert answer["kind"] == "hello"
            nursery.cancel_scope.cancel()

    with_nodes(scenario, SECURED, PeerSecurity())


@pytest.mark.parametrize("wrong", [False, True], ids=["two-at-a-time", "after-a-refusal"])
def test_an_admitted_node_that_logs_in_out_of_turn_is_closed(*, wrong: bool) -> None:
    async def scenario(one: Node, two: Node) -> None:
        stream, frames = await connected(two)

        await log_in(stream, frames)
        await stream.send_all(encode_frame(hello_map(Hello(2, 1, "a", {}))))
        await frames.next()
        await trio.sleep(SESSION_S / 2)
        name = "UNHEARD-OF" if wrong else "PLAIN"
        handshake = encode_request(SaslHandshakeRequest(mechanism=name), 1, 0, "x")[4:]
        asked = [
            encode_frame({"kind": "ask", "id": number, "what": "login", "body": {"request": handshake}})
            for number in (1, 2)
        ]
        with capture_logs() as lines:
            if wrong:
                await stream.send_all(asked[0])
                assert await frames.next() == {"kind": "answer", "id": 1, "body": {"response": b""}}
                await stream.send_all(asked[1])
            else:
                await stream.send_all(asked[0] + asked[1])
            assert await frames.next() is None
            await trio.testing.wait_all_tasks_blocked()
        (line,) = [line for line in lines if line["event"] == "peer disconnected"]
        assert "a request of a login before the last one was answered" in line["error"]

    with_nodes(scenario, SECURED, PeerSecurity())
