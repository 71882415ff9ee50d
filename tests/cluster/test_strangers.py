"""Strangers crowd the listener of a controller, where a broker that logs in by SCRAM over TLS joins nevertheless."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import trio
from support.scram_controller import Apart
from support.tls import client_of

from minikafka.client.blocking import Admin
from minikafka.controller.quorum.peer_frames import encode_frame
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def login_frame(message: object, version: int) -> bytes:
    return encode_frame({"kind": "login", "request": encode_request(message, version, 0, "x")[4:]})


LOGIN = (
    login_frame(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1),
    login_frame(SaslAuthenticateRequest(auth_bytes=b"n,,n=node,r=0123456789"), 2),
)
"""The first messages of a login as a user that exists; the rest needs the password."""
KINDS = ("silent", "no end of the handshake", "silent over TLS", "slow login", "slow bytes")


class Strangers:
    """Connections to an address, of all kinds, that are opened again as soon as they are closed.

    Attributes:
        opened: how many were opened.
    """

    def __init__(self, address: str, count: int) -> None:
        host, port = address.split(":")
        self.opened = 0
        self._place = (host, int(port))
        self._count = count
        self._context = client_of()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(self._count):
                nursery.start_soon(self._come_again, KINDS[number % len(KINDS)])

    async def _come_again(self, kind: str) -> None:
        while True:
            try:
                raw = await trio.open_tcp_stream(*self._place)
            except OSError:
                await trio.sleep(0.05)
                continue
            self.opened += 1
            try:
                await self._stay(raw, kind)
            except (trio.BrokenResourceError, OSError):
                pass
            finally:
                await trio.aclose_forcefully(raw)

    async def _stay(self, raw: trio.SocketStream, kind: str) -> None:
        """Do what this kind does, until the connection is closed."""
        if kind == "no end of the handshake":
            outgoing = ssl.MemoryBIO()
            hello = self._context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
            with pytest.raises(ssl.SSLWantReadError):
                hello.do_handshake()
            await raw.send_all(outgoing.read())
        elif kind != "silent":
            stream = trio.SSLStream(raw, self._context, server_hostname="localhost")
            await stream.do_handshake()
            for message in LOGIN if kind == "slow login" else ():
                await stream.send_all(message)
                await trio.sleep(0.3)
            for byte in LOGIN[0] if kind == "slow bytes" else b"":
                await stream.send_all(bytes([byte]))
                await trio.sleep(0.1)
        while await raw.receive_some():
            pass


@contextmanager
def crowding(address: str, count: int) -> Iterator[Strangers]:
    """Strangers at an address while the block runs."""
    strangers, cancel = Strangers(address, count), list[Callable[[], None]]()

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as scope:
            cancel.append(lambda: token.run_sync_soon(scope.cancel))
            await strangers.run()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        yield strangers
    finally:
        cancel[0]()
        thread.join(60)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    made = Apart(tmp_path_factory.mktemp("apart"))
    with made.controller, made.broker:
        yield made


@pytest.mark.parametrize("count", [60, 200, 1000])
def test_a_broker_joins_beside_strangers(apart: Apart, count: int) -> None:
    apart.broker.terminate()
    with crowding(apart.address, count) as strangers:
        end = time.monotonic() + 60
        while strangers.opened < count and time.monotonic() < end:
            time.sleep(0.05)
        began = time.monotonic()
        apart.broker.start()
        with Admin(apart.broker.bootstrap) as admin:
            admin.create_topic(f"t{count}")
        joined_s, opened = time.monotonic() - began, strangers.opened
    assert joined_s < 120, f"{joined_s:.1f} s beside {opened} connections of strangers"
