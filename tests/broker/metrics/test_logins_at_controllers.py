"""The metrics of a node count the logins at its controller listener, those of nodes and those of tools."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from support.memory_node import MemoryListeners, config, system

from minikafka.broker.metrics.family import Collector
from minikafka.broker.node.controller_listener import ControllerListener
from minikafka.broker.node.main import make_node
from minikafka.broker.node.metrics_parts import broker_collectors, node_collectors
from minikafka.broker.node.node import Node
from minikafka.broker.node.system import System
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.quorum.peer_frames import PushedBackStream
from minikafka.controller.quorum.peers import ServeClient
from minikafka.controller.quorum_controller import QuorumController
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.storage.disks.memory_disk import MemoryDisk

CONTROLLER = "CONTROLLER://node:9093"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGINS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{MODULE} username="node" password="among-us" user_node="among-us";'
    ),
}
WRONG, RIGHT = b"\0node\0wrong", b"\0node\0among-us"


def settings_of(roles: str, logins: dict[str, str]) -> NodeConfig:
    named = {
        "process.roles": roles,
        "listeners": f"PLAINTEXT://node:9092,{CONTROLLER}" if "broker" in roles else CONTROLLER,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@node:9093",
        "sasl.mechanism.controller.protocol": "PLAIN",
    }
    return config(1, **{**named, **logins})


def made(settings: NodeConfig, machine: System) -> tuple[QuorumController, list[Collector]]:
    node = make_node(settings, machine)
    if isinstance(node, Node):
        return node.parts.controller, broker_collectors(settings, machine, node.parts, lambda: "")
    return node.controller, node_collectors(settings, machine, node.controller, lambda: "")


def counts(collectors: list[Collector], result: str) -> dict[str, float]:
    """The logins with a result, by listener."""
    name = f"kafka_server_socket_server_metrics_{result}_authentication"
    families = [one for collect in collectors for one in collect() if one is not None and one.name == name]
    (family,) = families
    return {listener: value for (listener,), value in family.samples}


async def log_in_as_node(controller: QuorumController, password: bytes) -> None:
    assert controller.security.guest is not None
    guest = controller.security.guest(trio.testing.memory_stream_pair()[0])
    for request in (
        encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 0, "node-2"),
        encode_request(SaslAuthenticateRequest(auth_bytes=password), 2, 1, "node-2"),
    ):
        await guest.answer(request[4:])


async def log_in_as_tool(serve: ServeClient, password: bytes) -> None:
    tool, accepted = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, PushedBackStream(accepted))
        await tool.send_all(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 0, "tool"))
        await tool.receive_some()
        await tool.send_all(encode_request(SaslAuthenticateRequest(auth_bytes=password), 2, 1, "tool"))
        await tool.receive_some()
        nursery.cancel_scope.cancel()


ROLES = pytest.mark.parametrize("roles", ["broker,controller", "controller"])


@ROLES
def test_logins_of_nodes_and_tools_are_counted(roles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, served = settings_of(roles, LOGINS), list[ServeClient]()

    async def main() -> None:
        machine = system(MemoryDisk(), MemoryListeners())
        controller, collectors = made(settings, machine)
        monkeypatch.setattr(controller, "serve_clients", served.append)
        async with trio.open_nursery() as nursery:
            await nursery.start(ControllerListener(settings, machine, controller).run)
            await log_in_as_node(controller, WRONG)
            assert counts(collectors, "failed")["CONTROLLER"] == 1
            await log_in_as_tool(served[0], WRONG)
            assert counts(collectors, "failed")["CONTROLLER"] == 2
            await log_in_as_node(controller, RIGHT)
            await log_in_as_tool(served[0], RIGHT)
            nursery.cancel_scope.cancel()
        assert counts(collectors, "failed")["CONTROLLER"] == 2
        assert counts(collectors, "successful")["CONTROLLER"] == 2

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@ROLES
def test_there_are_none_at_listeners_without_sasl(roles: str) -> None:
    async def main() -> None:
        _, collectors = made(settings_of(roles, {}), system(MemoryDisk(), MemoryListeners()))
        expected = ["PLAINTEXT", "CONTROLLER"] if "broker" in roles else ["CONTROLLER"]
        assert counts(collectors, "failed") == dict.fromkeys(expected, 0.0)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
