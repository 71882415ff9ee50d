"""Listeners are opened once the ACLs are loaded, except those that may be opened before (`early.start.listeners`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from support.memory_node import MemoryListeners, config, system
from support.node import NodeProcess

from minikafka.broker.node.controller_listener import ControllerListener
from minikafka.client import Acl
from minikafka.client.blocking import Admin
from minikafka.controller.metadata.image import Image
from minikafka.controller.quorum.node_logins import PeerSecurity
from minikafka.controller.security.decision_log import DecisionLog
from minikafka.controller.security.standard_authorizer import CLASS_NAME, StandardAuthorizer
from minikafka.storage.disks.memory_disk import MemoryDisk


class Controller:
    """A controller whose ACLs are loaded once `loaded` is set; `serves` tells whether tools are served."""

    def __init__(self) -> None:
        self.image, self.log_levels, self.loaded, self.serves = Image(), dict[str, str](), False, False
        self.security = PeerSecurity()
        self.authorizer = StandardAuthorizer(
            frozenset(), open_without_acls=False, levels={}, log=DecisionLog(lambda: 0), is_loaded=lambda: self.loaded
        )

    def subscribe(self, subscriber: object) -> None:
        pass

    def serve_clients(self, serve: object) -> None:
        self.serves = True


@pytest.mark.parametrize(
    ("early", "is_early"),
    [({}, True), ({"early_start_listeners": "PLAINTEXT"}, False), ({"early_start_listeners": "controller"}, True)],
    ids=["by-default", "another", "named"],
)
def test_a_controller_listener_is_opened_early_unless_others_are_named(early: dict[str, str], is_early: bool) -> None:
    settings = config(
        1,
        listeners="PLAINTEXT://node:9092,CONTROLLER://node:9093",
        controller_listener_names="CONTROLLER",
        controller_quorum_voters="1@node:9093",
        authorizer_class_name=CLASS_NAME,
        **early,
    )

    async def main() -> None:
        controller: Any = Controller()
        async with trio.open_nursery() as nursery:
            await nursery.start(ControllerListener(settings, system(MemoryDisk(), MemoryListeners()), controller).run)
            await trio.sleep(1)
            assert controller.serves is is_early
            controller.loaded = True
            await trio.sleep(1)
            assert controller.serves
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.slow
@pytest.mark.parametrize("early", ["", "PLAINTEXT"], ids=["later", "early"])
def test_the_first_client_of_a_broker_is_judged_by_the_acls(tmp_path: Path, early: str) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f'{module} user_admin="a" user_alice="b";',
        "authorizer.class.name": CLASS_NAME,
        "super.users": "User:admin",
        **({"early.start.listeners": early} if early else {}),
    }
    login: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    with NodeProcess(tmp_path / "node", settings=settings) as node:
        with Admin(node.bootstrap, sasl_username="admin", sasl_password="a", **login) as admin:
            admin.create_topic("t")
            admin.create_acls([Acl("topic", "t", "User:alice", "read")])
        for _ in range(3):
            node.restart()
            with Admin(node.bootstrap, sasl_username="alice", sasl_password="b", **login) as alice:
                assert list(alice.list_topics()) == ["t"]
