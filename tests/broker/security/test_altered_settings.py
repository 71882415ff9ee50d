"""Settings of security and of listeners that are altered while a node runs; Apache Kafka answers the same."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.conversation_player import Connection
from support.oracle import needs_oracle
from support.secured_nodes import SecuredNode, secured_kafka, secured_minikafka

from minikafka.protocol.errors import ErrorCode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
BROKER = 4
SET, DELETE = 0, 1
OF_ONE_BROKER = 2
"""The source of a value that was set for one broker while it ran."""
CLIENT_AUTH = "ssl.client.auth"
OF_TLS, OF_LOGIN = f"listener.name.tls.{CLIENT_AUTH}", "listener.name.login.plain.sasl.jaas.config"
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required;"
SILENT = {"super.users": "User:eve", "allow.everyone.if.no.acl.found": "true"}
REASONS = {
    "not-dynamic": "Cannot update these configs dynamically: [",
    "of-a-broker": "Cannot update these configs at default cluster level, broker id must be specified: [",
    "of-a-listener": "These security configs can be dynamically updated only per-listener using the listener prefix: [",
    "open": "Configs cannot be updated dynamically for existing listener ",
    "store": "alidation of dynamic config update",
}
"""A part of the message of each answer in `altered_settings.txt` that is a refusal."""


class Asked:
    """A node of which settings are altered, by way of a broker or of its controller."""

    def __init__(self, node: SecuredNode) -> None:
        self.node = node
        self.broker = Connection(("127.0.0.1", node.port))
        self.controller = Connection(("127.0.0.1", node.port + 100))

    def alter(
        self, settings: dict[str, str | None], broker: str = "1", *, validate_only: bool = False, at: str = "broker"
    ) -> str:
        """Set settings, or delete those with None; returns the answer, as in `altered_settings.txt`."""
        configs = [
            {"name": name, "config_operation": DELETE if value is None else SET, "value": value}
            for name, value in settings.items()
        ]
        resource = {"resource_type": BROKER, "resource_name": broker, "configs": configs}
        connection = self.broker if at == "broker" else self.controller
        body = {"resources": [resource], "validate_only": validate_only}
        answer = connection.ask("IncrementalAlterConfigs", 1, body).responses[0]
        if answer.error_code == ErrorCode.NONE:
            return "accepted"
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        return next((reason for reason, part in REASONS.items() if part in answer.error_message), answer.error_message)

    def described(self, *names: str, broker: str = "1") -> list[Any]:
        resource = {"resource_type": BROKER, "resource_name": broker, "configuration_keys": list(names)}
        answer = self.broker.ask("DescribeConfigs", 4, {"resources": [resource], "include_synonyms": True})
        return sorted(answer.results[0].configs, key=lambda config: str(config.name))

    def wait_until(self, name: str, *, is_set: bool) -> None:
        """Wait until the broker knows that a setting was set while it runs, or that it was deleted."""
        end = time.monotonic() + 30
        while any(config.config_source == OF_ONE_BROKER for config in self.described(name)) is not is_set:
            assert time.monotonic() < end
            time.sleep(0.02)

    def asks_for_a_certificate(self) -> bool:
        """Whether the listener TLS takes no connection without a certificate."""
        context = ssl.create_default_context(cafile=str(self.node.files.trusted))
        host, _, port = self.node.address("TLS").partition(":")
        with socket.create_connection((host, int(port)), 30) as raw:
            tls = context.wrap_socket(raw, server_hostname="localhost")
            tls.sendall(b"\0\0\0\x0e\0\x12\0\0\0\0\0\7\0\4test")
            try:
                return not tls.recv(8)
            except OSError:
                return True


@pytest.fixture(
    scope="module", params=["minikafka", pytest.param("kafka", marks=[pytest.mark.oracle, needs_oracle])]
)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    start = secured_minikafka if request.param == "minikafka" else secured_kafka
    with start(tmp_path_factory.mktemp(request.param)) as node:
        yield Asked(node)


@pytest.fixture
def altered(asked: Asked) -> Iterator[Asked]:
    """The node; what a test sets is removed after it."""
    yield asked
    for name in (OF_TLS, OF_LOGIN):
        asked.alter({name: None})
        asked.wait_until(name, is_set=False)
    assert asked.alter(dict.fromkeys((CLIENT_AUTH, "max.connections", *SILENT))) == "accepted"


def test_each_setting_of_tls_is_answered_as_by_kafka(asked: Asked) -> None:
    lines = (Path(__file__).parent / "altered_settings.txt").read_text().splitlines()
    for line in lines:
        if line.startswith("#"):
            continue
        broker, setting, expected = line.split(" ")
        name, _, value = setting.partition("=")
        answer = asked.alter({name: value}, "" if broker == "all" else broker, validate_only=True)
        assert answer == expected, line
    assert len(lines) > 200


def test_what_a_listener_cannot_change_is_shown_but_does_not_hold(altered: Asked) -> None:
    assert altered.alter({OF_TLS: "required"}) == "accepted"
    altered.wait_until(OF_TLS, is_set=True)
    store = "listener.name.tls.ssl.keystore.location"
    assert altered.alter({store: str(altered.node.files.node)}) == "accepted"
    altered.wait_until(store, is_set=True)
    assert not altered.asks_for_a_certificate()


@pytest.mark.parametrize(("prefixed", "value"), [(OF_TLS, "required"), (OF_TLS, "none"), (OF_LOGIN, JAAS)])
def test_while_a_listener_would_differ_settings_of_all_listeners_are_refused(
    altered: Asked, prefixed: str, value: str
) -> None:
    assert altered.alter({CLIENT_AUTH: "requested", prefixed: value}, validate_only=True) == "open"
    assert altered.alter({prefixed: value}) == "accepted"
    altered.wait_until(prefixed, is_set=True)
    for name, other in ((CLIENT_AUTH, "requested"), ("sasl.jaas.config", JAAS), ("max.connections", "77")):
        assert altered.alter({name: other}) == "open"
    assert altered.alter({"max.connections": "77"}, "") == "open"
    assert altered.alter({CLIENT_AUTH: "none", prefixed: None}) == "accepted"
    altered.wait_until(prefixed, is_set=False)
    assert altered.alter({"max.connections": "77"}) == "accepted"


def test_what_was_given_at_the_start_or_belongs_to_no_listener_is_no_difference(altered: Asked) -> None:
    mutual, stores = f"listener.name.mutual.{CLIENT_AUTH}", "listener.name.plaintext.ssl.keystore.location"
    for name, value in {
        mutual: "required",
        stores: "missing",
        "listener.name.nowhere.ssl.client.auth": "none",
        "listener.name.tls.max.connections": "77",
        "listener.name.tls.num.network.threads": "3",
        "listener.name.tls.": "x",
    }.items():
        assert altered.alter({CLIENT_AUTH: "requested", name: value}, validate_only=True) == "accepted"
    for listener, base in (("tls", "nonsense"), ("controller", "nonsense"), ("plaintext", "ssl.protocol")):
        name = f"listener.name.{listener}.{base}"
        assert altered.alter({CLIENT_AUTH: "requested", name: "x"}, validate_only=True) == "open"


def test_settings_of_the_authorizer_are_taken_and_hidden(altered: Asked) -> None:
    assert altered.alter(dict(SILENT)) == "accepted"
    for name in SILENT:
        altered.wait_until(name, is_set=True)
    for config in altered.described(*SILENT):
        assert (config.value, config.is_sensitive, config.read_only, config.config_type) == (None, True, True, 0)
        assert [(one.value, one.source) for one in config.synonyms] == [(None, OF_ONE_BROKER)]


def test_a_controller_takes_stores_that_it_cannot_read(asked: Asked) -> None:
    for name in ("listener.name.tls.ssl.keystore.location", "listener.name.controller.ssl.truststore.location"):
        assert asked.alter({name: "missing"}, validate_only=True, at="controller") == "accepted"
    assert asked.alter({OF_TLS: "required"}, validate_only=True, at="controller") == "accepted"
