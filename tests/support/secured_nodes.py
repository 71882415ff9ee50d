"""A node with a listener of each security protocol, Apache Kafka or minikafka, and what clients need to reach each."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from minikafka.client.blocking import Admin
from support.certificates import Authority
from support.node import ServerProcess
from support.oracle import Oracle, free_ports, why_absent

USER, PASSWORD = "alice", "alice-secret"
SCRAM_USER, SCRAM_PASSWORD = "carol", "carol-secret"
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "STRANGE": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
}
"""The protocol of each listener, by its name; they have successive ports. MUTUAL asks for certificates of clients, and
the certificate of STRANGE is for another host."""
_MODULES = "org.apache.kafka.common.security"
_PLAIN = f'{_MODULES}.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}"'
_SCRAM = f"{_MODULES}.scram.ScramLoginModule required"
_OAUTH = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub"
_UNSECURED = f"{_MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"


def jaas_of_plain(password: str = PASSWORD) -> str:
    return f'{_MODULES}.plain.PlainLoginModule required username="{USER}" password="{password}";'


def jaas_of_oauth(principal: str = USER) -> str:
    return f'{_OAUTH}="{principal}";'


def jaas_of_scram(password: str = SCRAM_PASSWORD) -> str:
    return f'{_SCRAM} username="{SCRAM_USER}" password="{password}";'


@dataclass(frozen=True)
class Certificates:
    """Files with certificates, in a folder: those of a node, and those of clients."""

    folder: Path

    def write(self) -> None:
        """Make the authority and what it signs, and an authority that nobody trusts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        authority, stranger = Authority(), Authority("CN=stranger")
        node = authority.issue("CN=node")
        node.write_pem(self.node)
        node.write_authority_pem(self.trusted)
        authority.issue("CN=node", hosts=("elsewhere.example",)).write_pem(self.node_elsewhere)
        client = authority.issue(f"CN={USER},O=acme", hosts=())
        client.write_pem(self.client)
        client.write_pkcs12(self.client_pkcs12)
        self.client_encrypted_key.write_text(client.key_pem(PASSWORD))
        self.client_chain.write_text(client.chain_pem)
        eve = stranger.issue("CN=eve", hosts=())
        eve.write_pem(self.stranger)
        eve.write_authority_pem(self.strangers_authority)

    @property
    def node(self) -> Path:
        return self.folder / "node.pem"

    @property
    def node_elsewhere(self) -> Path:
        return self.folder / "elsewhere.pem"

    @property
    def trusted(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def client(self) -> Path:
        return self.folder / "client.pem"

    @property
    def client_pkcs12(self) -> Path:
        return self.folder / "client.p12"

    @property
    def client_encrypted_key(self) -> Path:
        return self.folder / "client-key.pem"

    @property
    def client_chain(self) -> Path:
        return self.folder / "client-chain.pem"

    @property
    def stranger(self) -> Path:
        return self.folder / "stranger.pem"

    @property
    def strangers_authority(self) -> Path:
        return self.folder / "stranger-ca.pem"


def settings(port: int, files: Certificates) -> dict[str, str]:
    """The settings of a node whose listeners have ports from `port` on; its controller's is 100 above.

    Only LOGIN enables OAUTHBEARER.
    """
    ports = {name: port + number for number, name in enumerate(LISTENERS)}
    protocols = {**LISTENERS, "CONTROLLER": "PLAINTEXT"}
    given = {
        "listeners": ",".join([*_urls(ports), f"CONTROLLER://127.0.0.1:{port + 100}"]),
        "advertised.listeners": ",".join(_urls(ports)),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.node),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.trusted),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.strange.ssl.keystore.location": str(files.node_elsewhere),
        "sasl.enabled.mechanisms": "PLAIN",
        "connection.failed.authentication.delay.ms": "10",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    mechanisms = {"plain": f'{_PLAIN} user_{USER}="{PASSWORD}";', **dict.fromkeys(_SCRAMS, f"{_SCRAM};")}
    for listener in ("login", "both"):
        prefix = f"listener.name.{listener}"
        enabled = [*mechanisms, *(["oauthbearer"] if listener == "login" else [])]
        given[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(enabled).upper()
        given |= {f"{prefix}.{name}.sasl.jaas.config": jaas for name, jaas in mechanisms.items()}
    given["listener.name.login.oauthbearer.sasl.jaas.config"] = jaas_of_oauth()
    given["listener.name.login.oauthbearer.sasl.server.callback.handler.class"] = _UNSECURED
    return given


_SCRAMS = ("scram-sha-256", "scram-sha-512")


def _urls(ports: Mapping[str, int]) -> list[str]:
    return [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]


@dataclass(frozen=True)
class SecuredNode:
    """A running node: the address of each listener, and the options of clients.

    Args:
        port: of the first listener.
        listeners: the protocol of each listener, by its name.
    """

    port: int
    files: Certificates
    listeners: Mapping[str, str] = field(default_factory=lambda: LISTENERS)

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.port + list(self.listeners).index(listener)}"

    def protocol(self, listener: str) -> str:
        return self.listeners[listener]

    def options(self, listener: str, **others: Any) -> dict[str, Any]:
        """The options that reach a listener: its address, its protocol and, over TLS, the authority."""
        protocol = str(others.get("security_protocol", self.listeners[listener]))
        given: dict[str, Any] = {"bootstrap_servers": self.address(listener), "security_protocol": protocol}
        if protocol.endswith("SSL"):
            given["ssl_ca_location"] = str(self.files.trusted)
        return {**given, **others}


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredNode]:
    """An Apache Kafka node with all listeners, and the user of SCRAM. Skips the test if there is no Kafka."""
    reason = why_absent()
    if reason:
        pytest.skip(reason)
    files = Certificates(folder / "certificates")
    files.write()
    port = free_ports(len(LISTENERS))
    with Oracle(folder / "data", settings=settings(port, files), port=port):
        yield _with_users(SecuredNode(port, files))


@contextmanager
def secured_minikafka(folder: Path) -> Iterator[SecuredNode]:
    """A minikafka node with all listeners, and the user of SCRAM."""
    files = Certificates(folder / "certificates")
    files.write()
    port = free_ports(len(LISTENERS))
    with ConfiguredNode(folder, port, settings(port, files)):
        yield _with_users(SecuredNode(port, files))


class ConfiguredNode(ServerProcess):
    """A minikafka node, broker and controller, whose file says everything."""

    def __init__(self, folder: Path, port: int, given: Mapping[str, str]) -> None:
        super().__init__(folder / "data", port=port, start_timeout_s=60)
        self._config = folder / "server.properties"
        every = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"1@127.0.0.1:{port + 100}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_dir),
            **given,
        }
        self._config.write_text("".join(f"{name}={value}\n" for name, value in every.items()))

    def command(self) -> list[str]:
        return [sys.executable, "-m", "minikafka.cli.main", "server", "--config", str(self._config)]


def _with_users(node: SecuredNode) -> SecuredNode:
    with Admin(node.address("PLAINTEXT")) as admin:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            admin.upsert_user_scram_credential(SCRAM_USER, SCRAM_PASSWORD, mechanism=mechanism)
    return node
