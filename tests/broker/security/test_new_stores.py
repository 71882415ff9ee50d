"""What a node answers if a store that its settings would name does not work; Apache Kafka answers the same."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.certificates import Authority
from support.node import NodeProcess, ServerProcess, StartError
from support.oracle import Oracle, free_ports, needs_oracle
from support.tls import AUTHORITY, SERVER, client_of

from minikafka.client.blocking import Admin
from minikafka.protocol.errors import InvalidRequestError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
LISTENERS = ("OUTSIDE", "INTERNAL", "CONTROLLER")
STRANGER = Authority("CN=stranger")
STORE, PASSWORD, TRUST = "ssl.keystore.location", "ssl.keystore.password", "ssl.truststore.location"
SECRET = "nope-4711"


class Stores:
    """A node whose listeners OUTSIDE (of clients), INTERNAL (of brokers) and CONTROLLER have TLS; and its stores."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_ports(3)
        self.ports = {"OUTSIDE": self.port + 1, "INTERNAL": self.port + 2, "CONTROLLER": self.port + 100}
        for name, issued in {
            "server": SERVER,
            "new": AUTHORITY.issue("CN=server"),
            "other-name": AUTHORITY.issue("CN=other"),
            "fewer-hosts": AUTHORITY.issue("CN=server", hosts=("localhost",)),
            "stranger": STRANGER.issue("CN=server"),
        }.items():
            issued.write_pkcs12(folder / f"{name}.p12")
        AUTHORITY.issue("CN=server").write_pkcs12(folder / "password.p12", "another-secret")
        (folder / "rubbish.p12").write_text("rubbish")
        SERVER.write_authority_pem(folder / "authority.pem")
        STRANGER.issue("CN=server").write_authority_pem(folder / "strangers.pem")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def settings(self, **changed: str) -> dict[str, str]:
        clients = f"PLAINTEXT://127.0.0.1:{self.port},OUTSIDE://127.0.0.1:{self.ports['OUTSIDE']}"
        clients += f",INTERNAL://127.0.0.1:{self.ports['INTERNAL']}"
        given = {
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{self.ports['CONTROLLER']}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SSL,INTERNAL:SSL,CONTROLLER:SSL",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "INTERNAL",
        }
        of_stores = {
            STORE: self.path("server.p12"),
            PASSWORD: "store-secret",
            "ssl.keystore.type": "PKCS12",
            TRUST: self.path("authority.pem"),
            "ssl.truststore.type": "PEM",
        }
        for listener in LISTENERS:
            given |= {f"listener.name.{listener.lower()}.{name}": value for name, value in of_stores.items()}
        return given | changed

    def ours(self, **changed: str) -> ServerProcess:
        own = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports['CONTROLLER']}",
        }
        return NodeProcess(self.folder / "ours", settings=own | self.settings(**changed), port=self.port)

    def kafka(self, **changed: str) -> ServerProcess:
        return Oracle(self.folder / "kafka", settings=self.settings(**changed), port=self.port)

    def alter(self, listener: str, settings: Mapping[str, str], *, validate_only: bool = False) -> str:
        """Set settings of a listener; those that end in .p12 or .pem are files. Returns the reason of a refusal."""
        prefix = f"listener.name.{listener.lower()}."
        texts = {name: self.path(text) if text[-4:] in (".p12", ".pem") else text for name, text in settings.items()}
        with Admin(f"127.0.0.1:{self.port}") as admin:
            try:
                wanted = {prefix + name: text for name, text in texts.items()}
                admin.alter_configs("broker", "1", set=wanted, validate_only=validate_only)
            except InvalidRequestError as error:
                return error.message
        return ""

    def serial_number(self, listener: str) -> object:
        """The serial number of the certificate that a new connection gets."""
        context = client_of()
        with socket.create_connection(("127.0.0.1", self.ports[listener]), 30) as raw:
            certificate = context.wrap_socket(raw, server_hostname="localhost").getpeercert()
        return (certificate or {})["serialNumber"]


KINDS = ["minikafka", pytest.param("kafka", marks=[pytest.mark.oracle, needs_oracle])]


@pytest.fixture(scope="module", params=KINDS)
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    made = Stores(tmp_path_factory.mktemp("stores"))
    with made.ours() if request.param == "minikafka" else made.kafka():
        yield made


REFUSED = [
    ("OUTSIDE", {STORE: "missing.p12"}),
    ("OUTSIDE", {STORE: "password.p12"}),
    ("OUTSIDE", {STORE: "rubbish.p12"}),
    ("OUTSIDE", {STORE: "other-name.p12"}),
    ("OUTSIDE", {STORE: "fewer-hosts.p12"}),
    ("OUTSIDE", {PASSWORD: SECRET}),
    ("OUTSIDE", {"ssl.key.password": SECRET}),
    ("OUTSIDE", {"ssl.keystore.type": "FOO"}),
    ("OUTSIDE", {TRUST: "missing.pem"}),
    ("OUTSIDE", {TRUST: "rubbish.p12"}),
    ("INTERNAL", {STORE: "missing.p12"}),
    ("INTERNAL", {STORE: "stranger.p12"}),
    ("INTERNAL", {TRUST: "strangers.pem"}),
    ("INTERNAL", {STORE: "stranger.p12", TRUST: "strangers.pem"}),
    ("CONTROLLER", {STORE: "missing.p12"}),
]


@pytest.mark.parametrize("validate_only", [True, False], ids=["validated", "altered"])
@pytest.mark.parametrize(
    ("listener", "settings"), REFUSED, ids=[f"{one}-{'-'.join(names.values())}" for one, names in REFUSED]
)
def test_a_store_that_does_not_work_is_refused(
    stores: Stores, listener: str, settings: dict[str, str], validate_only: bool
) -> None:
    reason = stores.alter(listener, settings, validate_only=validate_only)
    assert "alidation of dynamic config update" in reason
    assert SECRET not in reason


def test_a_store_that_works_is_accepted_and_the_same_one_is_not_even_looked_at(stores: Stores) -> None:
    assert stores.alter("OUTSIDE", {STORE: "server.p12"}) == ""
    assert stores.alter("OUTSIDE", {TRUST: "strangers.pem"}, validate_only=True) == ""
    file = Path(stores.path("server.p12"))
    good = file.read_bytes()
    file.write_text("rubbish")
    assert stores.alter("OUTSIDE", {STORE: "server.p12"}) == "", "its settings are the same: the log says the rest"
    file.write_bytes(good)


def test_other_listeners_of_no_node_or_without_tls_are_not_looked_at(stores: Stores) -> None:
    for listener in ("NOWHERE", "PLAINTEXT"):
        assert stores.alter(listener, {STORE: "missing.p12"}) == ""


@pytest.mark.parametrize("listener", LISTENERS)
def test_each_listener_takes_a_new_certificate(stores: Stores, listener: str) -> None:
    old, end = stores.serial_number(listener), time.monotonic() + 30
    assert stores.alter(listener, {STORE: "new.p12"}) == ""
    while stores.serial_number(listener) == old:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_node_whose_brokers_could_not_connect_to_each_other_does_not_start(tmp_path: Path) -> None:
    """Kafka says: A client SSLEngine created with the provided settings can't connect to a server SSLEngine…"""
    made = Stores(tmp_path)
    node = made.ours(**{f"listener.name.internal.{TRUST}": made.path("strangers.pem")})
    with pytest.raises(StartError, match="brokers could not connect to each other at this listener"):
        node.start()
    with made.ours(**{f"listener.name.outside.{TRUST}": made.path("strangers.pem")}):
        pass


@pytest.mark.parametrize("kind", KINDS)
def test_stores_that_were_set_hold_from_the_first_connection_after_a_restart(kind: str, tmp_path: Path) -> None:
    """The new certificates are shown, and an authority that was withdrawn is trusted no more."""
    made = Stores(tmp_path)
    asks = {"listener.name.outside.ssl.client.auth": "requested"}
    with made.ours(**asks) if kind == "minikafka" else made.kafka(**asks) as node:
        client = client_of("CN=client")
        assert is_let_in(client, made.ports["OUTSIDE"])
        old = [made.serial_number(listener) for listener in LISTENERS]
        assert made.alter("OUTSIDE", {STORE: "new.p12", TRUST: "strangers.pem"}) == ""
        for listener in ("INTERNAL", "CONTROLLER"):
            assert made.alter(listener, {STORE: "new.p12"}) == ""
        node.kill()
        node.start()
        new = [made.serial_number(listener) for listener in LISTENERS]
        assert not is_let_in(client, made.ports["OUTSIDE"])
        assert len({*old, *new}) == 2
        assert len(set(new)) == 1
        node.terminate()
        Path(made.path("new.p12")).rename(made.path("hidden.p12"))
        node.start()
        assert [made.serial_number(listener) for listener in LISTENERS] == old, "the new stores do not work"


def test_a_node_starts_without_the_stores_of_its_file_if_it_has_others(tmp_path: Path) -> None:
    """Kafka needs them, unless a snapshot of the metadata has the others."""
    made = Stores(tmp_path)
    with made.ours() as node:
        for listener in LISTENERS:
            assert made.alter(listener, {STORE: "new.p12"}) == ""
        new = made.serial_number("OUTSIDE")
        assert node.terminate() == 0
        Path(made.path("server.p12")).unlink()
        node.start()
        assert {made.serial_number(listener) for listener in LISTENERS} == {new}
        Path(made.path("new.p12")).unlink()
        node.terminate()
        with pytest.raises(StartError, match=re.escape(made.path("server.p12"))):
            node.start()


def is_let_in(client: ssl.SSLContext, port: int) -> bool:
    """Whether a client with this context gets an answer to ApiVersions."""
    with socket.create_connection(("127.0.0.1", port), 30) as raw:
        try:
            with client.wrap_socket(raw, server_hostname="localhost") as tls:
                tls.sendall(b"\0\0\0\x0e\0\x12\0\0\0\0\0\7\0\4test")
                return tls.recv(8)[4:] == b"\0\0\0\7"
        except (ssl.SSLError, ConnectionError):
            return False
