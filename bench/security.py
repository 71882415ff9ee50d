"""Measures what security costs: throughput over TLS, new connections, logins, and an authorizer with 10,000 ACLs.

Each node has a listener of each protocol. The handshakes are full ones of TLS 1.3, with a key of P-256, and each is
followed by a small request: a client is done with its handshake before the node is. The clients of handshakes and
logins verify nothing and keep the derived key of their password, so that the node is what is measured.
"""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.connections import cpu_s
from bench.nodes import Node, free_port
from bench.pairs import TOPIC, Case, Compared, fetch, measure_pairs, produce
from bench.raw import Connection, create_topic
from bench.results import Beside, Figure, Goal
from bench.throughput import in_and_out
from minikafka.cli.clusters.secure_files import SecureFiles
from minikafka.client import Acl, KafkaError
from minikafka.client.blocking import Admin
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.protocol.sasl.scram import ScramClient, ScramMechanism, salted_password

LISTENERS = {"PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "LOGIN": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
"""The protocol of each listener, by its name."""
USER, PASSWORD = "alice", "alice-secret"
SCRAM = ScramMechanism.SHA_512
RECORD_BYTES = 1000
CLIENTS = 8
ACLS = 10_000
ACLS_AT_ONCE = 1000
ACLS_GOAL = Goal(3, at_most=True)


def measure_security(kind: type[Node], folder: Path, quick: bool) -> Iterator[Figure]:
    """Throughput, handshakes and logins of each kind of node; the cost of an authorizer of minikafka alone."""
    with secured_node(kind, folder / "secured") as secured:
        yield from throughput(secured, quick)
        yield from new_connections(secured, 1 if quick else 6)
    if kind is Node:
        yield from measure_pairs(AUTHORIZER, kind, folder / "acls", *((2, 20) if quick else (5, 50)))


# -- a node with all listeners -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SecuredNode:
    """A running node with all listeners.

    Attributes:
        ports: By the name of the listener.
        trusted: The certificate of the authority, in a file.
    """

    node: Node
    ports: dict[str, int]
    trusted: Path

    def address(self, listener: str) -> tuple[str, int]:
        return "127.0.0.1", self.ports[listener]

    def client(self, listener: str) -> dict[str, object]:
        """Where and how confluent-kafka reaches a listener."""
        options = {"security.protocol": LISTENERS[listener], "ssl.ca.location": str(self.trusted)}
        if LISTENERS[listener].startswith("SASL"):
            options |= {"sasl.mechanism": SCRAM.mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
        return {"bootstrap": f"127.0.0.1:{self.ports[listener]}", "security": options}


@contextmanager
def secured_node(kind: type[Node], folder: Path) -> Iterator[SecuredNode]:
    """Start a node with all listeners, and set the password of the user."""
    files, node = SecureFiles(folder), kind(folder)
    ports = {name: free_port() for name in LISTENERS} | {"PLAINTEXT": node.port}
    node.settings = settings(ports, node.port + 100, files.make())
    with node:
        with Admin(node.bootstrap) as admin:
            admin.upsert_user_scram_credential(USER, PASSWORD, mechanism=SCRAM.mechanism)
        yield SecuredNode(node, ports, files.folder / "authority.pem")


def settings(ports: dict[str, int], controller_port: int, files: dict[str, str]) -> dict[str, object]:
    """The settings of a node; `files` has those of its certificates."""
    urls = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    protocols = {**LISTENERS, "CONTROLLER": "PLAINTEXT"}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    mechanism = SCRAM.mechanism.lower()
    return {
        "listeners": ",".join([*urls, f"CONTROLLER://127.0.0.1:{controller_port}"]),
        "advertised.listeners": ",".join(urls),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": SCRAM.mechanism,
        **{f"listener.name.{name}.{mechanism}.sasl.jaas.config": module for name in ("login", "both")},
        **{name: text for name, text in files.items() if name.startswith("ssl.")},
    }


# -- throughput --------------------------------------------------------------------------------------------------


def throughput(secured: SecuredNode, quick: bool) -> Iterator[Figure]:
    """confluent-kafka over TLS, without and with a login: acks 1, linger 5 ms."""
    name = secured.node.name
    count, times = (100_000, 1) if quick else (300_000, 3)
    in_and_out(secured.node, RECORD_BYTES, count, 1, **secured.client("TLS"))
    for listener, protocol in (("TLS", "SSL"), ("BOTH", "SASL_SSL")):
        made, read, used_s = in_and_out(secured.node, RECORD_BYTES, count, times, **secured.client(listener))
        yield Figure(f"{protocol}: confluent-kafka in, 1000 B", "MB/s", Beside(), {name: made * RECORD_BYTES / 1e6})
        yield Figure(f"{protocol}: confluent-kafka out, 1000 B", "MB/s", Beside(), {name: read * RECORD_BYTES / 1e6})
        yield Figure(f"{protocol}: confluent-kafka out, 1000 B", "s of CPU for a million", None, {name: used_s})


# -- new connections ---------------------------------------------------------------------------------------------


def new_connections(secured: SecuredNode, seconds: float) -> Iterator[Figure]:
    """Connections by eight clients, each of which closes its connection and opens the next."""
    salted = salt_password(secured.address("LOGIN"))
    cases: dict[str, tuple[Callable[[], None], Goal | Beside | None]] = {
        "TLS 1.3 handshakes, 8 clients": (partial(shake_hands, secured.address("TLS")), Beside(0.5)),
        "SCRAM-SHA-512 logins, 8 clients": (partial(log_in, secured.address("LOGIN"), salted), None),
    }
    name = secured.node.name
    for subject, (connect, goal) in cases.items():
        repeated(connect, seconds / 3)
        used_s = cpu_s(secured.node)
        count, took_s = repeated(connect, seconds)
        used_s = cpu_s(secured.node) - used_s
        yield Figure(subject, "connections/s", goal, {name: count / took_s})
        yield Figure(subject, "µs of CPU each", None, {name: used_s / count * 1e6})


def repeated(connect: Callable[[], None], seconds: float) -> tuple[int, float]:
    """Let the clients connect for so long; returns how often they did, and the seconds."""
    began = time.perf_counter()

    def client(_: int) -> int:
        count = 0
        while time.perf_counter() < began + seconds:
            connect()
            count += 1
        return count

    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(client, range(CLIENTS))), time.perf_counter() - began


def shake_hands(address: tuple[str, int]) -> None:
    """A connection with a full handshake: a new context knows no session to resume."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    with closing(Connection(address, tls)) as connection:
        connection.exchange(encode_request(ApiVersionsRequest(), 0, 1, "bench"))


def log_in(address: tuple[str, int], salted: bytes) -> None:
    """A connection with a login."""
    client = ScramClient(SCRAM, USER, secrets.token_urlsafe(18))
    with closing(Connection(address)) as connection:
        challenge = begin_login(connection, client)
        client.verify(authenticate(connection, client.final(challenge, salted)))


def salt_password(address: tuple[str, int]) -> bytes:
    """Derive the key of the user's password, with the salt that the node tells at a login."""
    client = ScramClient(SCRAM, USER, secrets.token_urlsafe(18))
    with closing(Connection(address)) as connection:
        return salted_password(SCRAM, PASSWORD, *client.derivation(begin_login(connection, client)))


def begin_login(connection: Connection, client: ScramClient) -> bytes:
    """Send the first message of a login; returns the node's."""
    connection.ask(SaslHandshakeRequest(mechanism=SCRAM.mechanism), 1)
    return authenticate(connection, client.first)


def authenticate(connection: Connection, message: bytes) -> bytes:
    answer = connection.ask(SaslAuthenticateRequest(auth_bytes=message), 1)
    if answer.error_code:
        raise SystemExit(f"a login failed: {answer.error_message}")
    return bytes(answer.auth_bytes)


# -- an authorizer -----------------------------------------------------------------------------------------------


def with_acls(node: Node, has_them: bool) -> None:
    """Create the topic; on the node with the authorizer also the ACLs, of which five are about it."""
    create_topic(node.address, TOPIC)
    if not has_them:
        return
    mine = [Acl("topic", TOPIC, "User:ANONYMOUS", operation) for operation in ("read", "write", "describe")]
    mine.append(Acl("topic", TOPIC[:4], "User:*", "read", pattern="prefixed"))
    mine.append(Acl("topic", "*", "User:eve", "all", "deny"))
    others = [
        Acl("topic", f"topic-{n}", f"User:user-{n % 500}", "write", pattern="literal" if n % 4 else "prefixed")
        for n in range(ACLS - len(mine))
    ]
    acls = mine + others
    with Admin(node.bootstrap) as admin:
        for start in range(0, ACLS, ACLS_AT_ONCE):
            made = admin.create_acls(acls[start : start + ACLS_AT_ONCE])
            if failed := [error for error in made.values() if isinstance(error, KafkaError)]:
                raise SystemExit(f"an ACL was not created: {failed[0]}")


AUTHORIZER = Compared(
    "10,000 ACLs",
    lambda: {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "true",
    },
    ACLS_GOAL,
    {
        "Produce of 1 record, 1 connection": Case(produce(1, 100), 200),
        "Produce of 1 record, 64 connections": Case(produce(1, 100), 6, connections=64),
        "Fetch of 4 KiB, 1 connection": Case(fetch(4 << 10), 150),
        "Fetch of 4 KiB, 64 connections": Case(fetch(4 << 10), 5, connections=64),
    },
    with_acls,
)
"""Who has no ACL about the cluster may use it, so that a client without a name creates the ACLs."""
