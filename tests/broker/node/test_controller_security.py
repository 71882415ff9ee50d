"""The logins at a controller's listener, of nodes and of tools, share what they know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import trio
import trio.testing
from cryptography.hazmat.primitives.asymmetric import ec
from support.memory_node import MemoryListeners, config, system
from support.signed_tokens import ec_entry, key_set

from minikafka.broker.node.controller_listener import ControllerListener
from minikafka.broker.node.controller_security import security_of_peers
from minikafka.controller.metadata.image import Image
from minikafka.controller.quorum.node_logins import PeerSecurity
from minikafka.storage.disks.memory_disk import MemoryDisk

PREFIX = "listener.name.controller"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
CALLBACKS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


class Controller:
    """A controller without an authorizer."""

    def __init__(self, security: PeerSecurity) -> None:
        self.image, self.log_levels, self.authorizer, self.security = Image(), dict[str, str](), None, security
        self.serves = trio.Event()

    def subscribe(self, subscriber: object) -> None:
        pass

    def serve_clients(self, serve: object) -> None:
        self.serves.set()


def test_the_keys_of_tokens_are_read_once_for_nodes_and_tools() -> None:
    settings = config(
        1,
        **{
            "listeners": "PLAINTEXT://node:9092,CONTROLLER://node:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@node:9093",
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"{PREFIX}.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            f"{PREFIX}.plain.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'username="node" password="among-us" user_node="among-us";'
            ),
            f"{PREFIX}.oauthbearer.sasl.jaas.config": f"{MODULE};",
            f"{PREFIX}.oauthbearer.sasl.server.callback.handler.class": CALLBACKS,
            f"{PREFIX}.sasl.oauthbearer.jwks.endpoint.url": "http://127.0.0.1:1/keys",
            f"{PREFIX}.sasl.oauthbearer.expected.audience": "kafka",
        },
    )
    read: list[str] = []

    def download(url: str) -> bytes:
        read.append(url)
        return key_set(ec_entry(ec.generate_private_key(ec.SECP256R1())))

    async def main() -> None:
        machine = replace(system(MemoryDisk(), MemoryListeners()), download=download)
        controller: Any = Controller(security_of_peers(settings, machine, Image(), None))
        assert len(read) == 1
        async with trio.open_nursery() as nursery:
            await nursery.start(ControllerListener(settings, machine, controller).run)
            await controller.serves.wait()
            nursery.cancel_scope.cancel()
        assert len(read) == 1

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
