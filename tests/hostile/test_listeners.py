"""Attacks on a listener of each protocol: below TLS, above it before a login, and after one.

After each attack the same process serves, its memory is bounded, and so are the lines of its log. `make hostile`
repeats all attacks for MINUTES, and looks at the memory a minute later; the suite does the same for a few seconds.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from random import Random

import pytest
from support.clients_raw import RawConnection, frame, growth_bytes, request, resident_bytes
from support.grammar import Grammar
from support.log_events import events_in_sources
from support.node import ServerProcess
from support.oracle import free_ports
from support.secured_nodes import PASSWORD, USER, Certificates, ConfiguredNode, jaas_of_plain, settings
from support.steps import stacks_of_long_steps
from support.storm import Prepare, mutated, rounds_for, storm

from minikafka.controller.line_rate import LINES_MAX
from minikafka.controller.quorum.handshake import Hello, hello_map
from minikafka.controller.quorum.node_logins import LOGIN
from minikafka.controller.quorum.peer_frames import encode_frame
from minikafka.protocol.apis import APIS
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest

MIB = 1 << 20
REQUESTS = int(os.environ.get("MINIKAFKA_HOSTILE_REQUESTS") or 240) // 4
MINUTES = float(os.environ.get("MINIKAFKA_HOSTILE_MINUTES") or 0)
CONNECTIONS = 8
GROWTH_BYTES_MAX = 132 * MIB
LEFT_BYTES_MAX = 20 * MIB
ROUND, IDLE_S = 20, 60 if MINUTES else 0
REQUEST_SIZE_BYTES_MAX = 10_000
STRANGER = 77
"""A node id that no node has."""
PLAIN = f"\0{USER}\0{PASSWORD}".encode()
SECOND = slice(0, len("2026-01-01T00:00:00"))
OF_STRANGERS = {"authentication", "connection", "metrics", "peers", "quorum", "server"}
"""The loggers whose lines strangers cause."""


@dataclass(frozen=True)
class Target:
    """A node with listeners of all protocols; `ports` has those of the controller and the metrics as well."""

    node: ServerProcess
    trusted: ssl.SSLContext
    ports: dict[str, int]
    versions: ApiVersionsResponse

    def tls(self, raw: socket.socket) -> socket.socket:
        return self.trusted.wrap_socket(raw, server_hostname="localhost")

    def requests(self, seed: object) -> Iterator[bytes]:
        """Requests, each mutated; none takes the broker out of the cluster."""
        only = {api.request for api in APIS.values()} - {UnregisterBrokerRequest}
        made = Grammar(self.versions, seed, size_bytes_max=REQUEST_SIZE_BYTES_MAX, only=only)
        dice = Random(str(seed))
        return (frame(mutated(one[4:], dice)) for one in made.requests())


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("listeners")
    files = Certificates(folder / "certificates")
    files.write()
    port = free_ports(7)
    given = settings(port, files)
    ports = {"TLS": port + 1, "LOGIN": port + 4, "BOTH": port + 5, "METRICS": port + 6, "CONTROLLER": port + 100}
    given |= {
        "auto.create.topics.enable": "false",
        "listener.security.protocol.map": given["listener.security.protocol.map"].replace(
            "CONTROLLER:PLAINTEXT", "CONTROLLER:SASL_SSL"
        ),
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{jaas_of_plain()[:-1]} user_{USER}="{PASSWORD}";'
        ),
        "metrics.listener": f"https://127.0.0.1:{ports['METRICS']}",
        "metrics.listener.username": USER,
        "metrics.listener.password": PASSWORD,
    }
    trusted = ssl.create_default_context(cafile=str(files.trusted))
    trusted.check_hostname = False
    with stacks_of_long_steps(), ConfiguredNode(folder, port, given) as running:
        with RawConnection(running.address) as asking:
            versions = asking.ask(ApiVersionsRequest(), 0)
        yield Target(running, trusted, ports, versions)
    assert PASSWORD not in running.log_path.read_text()


@pytest.fixture(scope="module")
def node(target: Target) -> ServerProcess:
    """In place of the node without security."""
    return target.node


@pytest.fixture
def growth_bytes_max() -> int:
    return GROWTH_BYTES_MAX


@pytest.fixture(autouse=True)
def bounded_lines(target: Target) -> Iterator[None]:
    """Each second has a bounded number of lines of each event; a second of the log may have parts of two of a rate."""
    log = target.node.log_path
    read = log.stat().st_size
    yield
    lines = [json.loads(line) for line in log.read_bytes()[read:].splitlines() if line.startswith(b"{")]
    assert not [line for line in lines if "exception" in line]
    of_strangers = {one.event for one in events_in_sources() if one.logger.removeprefix("minikafka.") in OF_STRANGERS}
    counts = Counter((line["event"], line["timestamp"][SECOND]) for line in lines if line["event"] in of_strangers)
    assert max(counts.values(), default=0) <= 2 * LINES_MAX, counts.most_common(3)


def logged_in(speak: Prepare) -> Prepare:
    """A connection that has logged in by PLAIN."""

    def prepare(raw: socket.socket) -> socket.socket:
        prepared = speak(raw)
        for one in (SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=PLAIN)):
            prepared.sendall(request(one, 1))
            (size,) = struct.unpack(">i", exactly(prepared, 4))
            exactly(prepared, size)
        return prepared

    return prepare


def exactly(speaking: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = speaking.recv(count - len(data))
        assert part, "the login was refused"
        data += part
    return bytes(data)


def hellos(target: Target, seed: object) -> Iterator[bytes]:
    """Beginnings of handshakes, mutated, and what is none."""
    outgoing, dice = ssl.MemoryBIO(), Random(str(seed))
    with pytest.raises(ssl.SSLWantReadError):
        target.trusted.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    hello = outgoing.read()
    while True:
        yield mutated(hello, dice)
        yield dice.randbytes(dice.randrange(1, 600))
        yield frame(dice.randbytes(20))


def logins(target: Target, seed: object) -> Iterator[bytes]:
    """The messages of a login, alone and together, mutated, and requests out of turn."""
    dice = Random(str(seed))
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "X")
    handshakes = [request(SaslHandshakeRequest(mechanism=one), dice.randrange(2)) for one in mechanisms]
    messages = [PLAIN, b"\0" + PLAIN, b"n,,n=alice,r=abc", b"", b"x" * 1000, b"n,,\1auth=Bearer a.b.c\1\1"]
    others = [request(ApiVersionsRequest(), 0), request(MetadataRequest(topics=None), 9)]
    while True:
        tokens = [request(SaslAuthenticateRequest(auth_bytes=one), dice.randrange(3)) for one in messages]
        several = [dice.choice(handshakes), *dice.choices([*tokens, *others, *handshakes], k=dice.randrange(3))]
        whole = b"".join(several)
        yield whole if dice.random() < 0.3 else mutated(whole, dice)
        yield frame(mutated(dice.choice(several)[4:], dice))


def logins_of_nodes(target: Target, seed: object) -> Iterator[bytes]:
    """Logins and handshakes as nodes send them, mutated."""
    dice = Random(str(seed))
    hello = encode_frame(hello_map(Hello(STRANGER, None, "x", {})))
    for one in logins(target, seed):
        login = encode_frame({"kind": LOGIN, "request": one[4:]})
        yield dice.choice([login, login + hello, frame(mutated(login[4:], dice)), frame(mutated(hello[4:], dice))])


def pages(target: Target, seed: object) -> Iterator[bytes]:
    """HTTP requests, mutated: with the login, without one, and with others."""
    dice = Random(str(seed))
    given = [b64encode(one).decode() for one in (f"{USER}:{PASSWORD}".encode(), b"a:b", b"", b"\xff" * 300)]
    heads = [f"GET /metrics HTTP/1.1\r\nAuthorization: Basic {one}\r\n\r\n".encode() for one in given]
    heads += [b"GET /healthz HTTP/1.1\r\n\r\n", b"GET /" + b"x" * 9_000]
    return (mutated(dice.choice(heads), dice) for _ in count())


def plain(raw: socket.socket) -> socket.socket:
    return raw


Make = Callable[[Target, object], Iterator[bytes]]
ATTACKS: dict[str, tuple[str, Callable[[Target], Prepare], Make]] = {
    "below TLS": ("TLS", lambda target: plain, hellos),
    "over TLS": ("TLS", lambda target: target.tls, Target.requests),
    "before a login": ("LOGIN", lambda target: plain, logins),
    "after a login": ("LOGIN", lambda target: logged_in(plain), Target.requests),
    "below TLS of a listener with logins": ("BOTH", lambda target: plain, hellos),
    "before a login over TLS": ("BOTH", lambda target: target.tls, logins),
    "after a login over TLS": ("BOTH", lambda target: logged_in(target.tls), Target.requests),
    "below TLS of a controller": ("CONTROLLER", lambda target: plain, hellos),
    "before a login at a controller": ("CONTROLLER", lambda target: target.tls, logins),
    "logins of nodes": ("CONTROLLER", lambda target: target.tls, logins_of_nodes),
    "after a login at a controller": ("CONTROLLER", lambda target: logged_in(target.tls), Target.requests),
    "below TLS of metrics": ("METRICS", lambda target: plain, hellos),
    "HTTP over TLS": ("METRICS", lambda target: target.tls, pages),
}


def attack(target: Target, name: str, seed: object, times: int) -> int:
    """How many requests were answered, or ended their connection."""
    listener, prepare, make = ATTACKS[name]
    address = "127.0.0.1", target.ports[listener]
    return storm(address, islice(make(target, seed), times), CONNECTIONS, prepare(target)).heard_of


@pytest.mark.sweep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_harms_nobody(target: Target, name: str) -> None:
    assert attack(target, name, 0, REQUESTS) > REQUESTS // 4


@pytest.mark.sweep
@pytest.mark.timeout(7200)
def test_what_attacks_took_is_given_back(target: Target) -> None:
    """For MINUTES, and idle for one."""
    rounds = count(1)

    def attack_all(minutes: float) -> None:
        for number in rounds_for(minutes, rounds):
            for name in ATTACKS:
                attack(target, name, number, ROUND)

    attack_all(MINUTES / 4)
    before = resident_bytes(target.node.pid)
    attack_all(MINUTES)
    time.sleep(IDLE_S)
    left = growth_bytes(target.node.pid, before, LEFT_BYTES_MAX)
    assert left < LEFT_BYTES_MAX, f"{left / MIB:.0f} MiB"
