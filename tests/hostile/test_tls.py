"""Attacks on a listener with TLS: handshakes that are cut off, mutated or never finished, and very many of them."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import islice
from random import Random

import pytest
import trio
from support.clients_raw import check_served, resident_bytes
from support.controller_process import free_port
from support.node import NodeProcess, ServerProcess
from support.records_without_data import KINDS, crafted
from support.steps import stacks_of_long_steps
from support.tls import client_of, write_stores

PORT = free_port()
ATTACKS = 500
WITHOUT_DATA = 3000
UNFINISHED = 1000
UNFINISHED_BYTES_EACH_MAX = 60_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A node with one listener with TLS, and one without, by which it is asked how it is."""
    folder = tmp_path_factory.mktemp("tls")
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:{PORT}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SSL",
        "listener.name.outside.ssl.client.auth": "requested",
        "auto.create.topics.enable": "false",
        **write_stores(folder),
    }
    with stacks_of_long_steps(), NodeProcess(folder / "data", settings=settings) as running:
        yield running


@pytest.fixture
def growth_bytes_max(growth_bytes_max: int) -> int:
    """A thousand connections may leave some of their memory allocated."""
    return growth_bytes_max + UNFINISHED * UNFINISHED_BYTES_EACH_MAX


def client_hello() -> bytes:
    """The first bytes of a handshake."""
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client_of("CN=carol").wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def send(data: bytes) -> None:
    """Send bytes to the listener with TLS, and read until it closes the connection, or for a moment."""
    with socket.create_connection(("127.0.0.1", PORT), 30) as raw, suppress(OSError):
        raw.sendall(data)
        raw.shutdown(socket.SHUT_WR)
        raw.settimeout(5)
        while raw.recv(1 << 16):
            pass


def shake_hands(_: int) -> str | None:
    raw = socket.create_connection(("127.0.0.1", PORT), 30)
    with client_of("CN=carol").wrap_socket(raw, server_hostname="localhost") as tls:
        tls.sendall(b"\0\0\0\x0e\0\x12\0\0\0\0\0\7\0\4test")
        assert tls.recv(8)[4:] == b"\0\0\0\7"
        return tls.version()


def test_handshakes_that_end_anywhere_harm_nobody(node: ServerProcess) -> None:
    hello = client_hello()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(send, [hello[:size] for size in range(len(hello))]))
    assert shake_hands(0) == "TLSv1.3"


def test_mutated_handshakes_and_rubbish_harm_nobody(node: ServerProcess) -> None:
    random, hello = Random(1), client_hello()
    attacks = []
    for number in range(ATTACKS):
        data = bytearray(hello if number % 5 else random.randbytes(len(hello)))
        for _ in range(random.randrange(1, 9)):
            data[random.randrange(len(data))] = random.randrange(256)
        attacks.append(bytes(data))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(send, attacks))
    assert shake_hands(0) == "TLSv1.3"


def test_rubbish_after_a_handshake_ends_the_connection(node: ServerProcess) -> None:
    for data in (b"\x17\x03\x03\x40\x00" + bytes(0x4000), b"\x16\x03\x03\x00\x05" + bytes(5), bytes(100)):
        raw = socket.create_connection(("127.0.0.1", PORT), 30)
        with client_of().wrap_socket(raw, server_hostname="localhost") as tls:
            socket.socket.sendall(tls, data)
            with suppress(OSError):
                while tls.recv(100):
                    pass


@pytest.mark.parametrize("name", KINDS)
def test_records_without_data_end_the_connection_in_short_steps(node: ServerProcess, name: str) -> None:
    version, kind = KINDS[name]

    async def attack() -> None:
        client = crafted(version)
        with trio.fail_after(60):
            async with await trio.open_tcp_stream("127.0.0.1", PORT) as stream:
                await client.shake_hands(stream.send_all, stream.receive_some)
                data = b"".join(islice(kind(client), WITHOUT_DATA))
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(data)
                    while await stream.receive_some():
                        pass

    trio.run(attack)
    assert shake_hands(0) == "TLSv1.3"


def test_many_handshakes_at_once_are_served_in_short_steps(node: ServerProcess) -> None:
    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(shake_hands, range(300))) == {"TLSv1.3"}


@pytest.mark.slow
def test_connections_that_never_finish_their_handshake_end_in_time(node: ServerProcess) -> None:
    """OpenSSL takes 50 kB for each; what stays allocated afterwards serves the next."""
    leave_handshakes_unfinished(node)
    before = resident_bytes(node.pid)
    leave_handshakes_unfinished(node)
    assert resident_bytes(node.pid) - before < UNFINISHED * UNFINISHED_BYTES_EACH_MAX / 2


def leave_handshakes_unfinished(node: ServerProcess) -> None:
    hello = client_hello()
    with ExitStack() as stack:
        silent = []
        for number in range(UNFINISHED):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", PORT), 60))
            raw.sendall(hello[: number % len(hello)])
            silent.append(raw)
        check_served(node)
        assert shake_hands(0) == "TLSv1.3"
        for raw in silent:  # ten seconds after they were accepted
            with suppress(ConnectionError):
                while raw.recv(1 << 16):
                    pass
    assert shake_hands(0) == "TLSv1.3"
