"""TLS on sockets: handshakes and how they fail, bytes that OpenSSL keeps, clients that do not read."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
import trio.testing
from support.certificates import Authority
from support.echoes import framed, read_exactly, read_frame
from support.tls import SERVER, TestTls, client_of, own, trusting

from minikafka.broker.connections import tls_transport
from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.ready_sockets import ReadySockets
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect
from minikafka.broker.connections.tls_socket import TlsSocket
from minikafka.broker.connections.tls_transport import COMPUTING_MAX, Handshakes, TlsTransport
from minikafka.broker.connections.transport import SCRATCH_SIZE_BYTES, SocketTransport
from minikafka.client.security.tls_contexts import client_context
from minikafka.client.security.tls_settings import TlsSettings
from minikafka.storage.disks.disk import FileSlice, RealDisk

TIMEOUT_S = 30


class EchoSizes:
    """Answers each frame with its size; a frame `large` with 8 MiB."""

    def answer_now(self, frame: bytearray, connection: ConnectionInfo, receiver: object) -> Answer:
        body = bytes(8 << 20) if frame == b"large" else str(len(frame)).encode()
        return [len(body).to_bytes(4, "big"), body], 0


@asynccontextmanager
async def connected(tls: TestTls | None = None) -> AsyncIterator[tuple[trio.SocketStream, TlsTransport]]:
    """A client that is connected by TCP, and the server's side before the handshake."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = await trio.open_tcp_stream("127.0.0.1", server.getsockname()[1])
        ready = ReadySockets()
        inner = SocketTransport(server.accept()[0], memoryview(bytearray(SCRATCH_SIZE_BYTES)), ready)
        theirs = TlsTransport(inner, Handshakes(tls or TestTls()))
        async with ours, trio.open_nursery() as nursery:
            nursery.start_soon(ready.run)
            yield ours, theirs
            theirs.close()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[trio.SSLStream[trio.SocketStream], Connection]]:
    """A client of a connection with TLS that echoes sizes."""
    async with connected() as (ours, theirs), trio.open_nursery() as nursery:
        connection = Connection(theirs, EchoSizes(), listener="SSL", size_bytes_max=100 << 20)  # type: ignore[arg-type]
        nursery.start_soon(connection.serve)
        yield trio.SSLStream(ours, client_of(), server_hostname="localhost"), connection
        nursery.cancel_scope.cancel()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def in_time() -> None:
        with trio.fail_after(TIMEOUT_S):
            await main()

    trio.run(in_time)


async def shake_hands(ours: trio.SocketStream, theirs: TlsTransport, context: ssl.SSLContext) -> str:
    """The principal of a client, or why the handshake failed."""
    found = ""

    async def serve() -> None:
        nonlocal found
        try:
            found = str(await theirs.handshake())
        except (Disconnect, ConnectionError) as error:
            found = str(error)
            theirs.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        await trio.to_thread.run_sync(shake_hands_as_client, ours, context)
    return found


def shake_hands_as_client(ours: trio.SocketStream, context: ssl.SSLContext) -> None:
    """Shake hands as programs do: trio's `SSLStream` does not say why it refuses a server."""
    raw = socket.socket(fileno=os.dup(ours.socket.fileno()))
    raw.settimeout(TIMEOUT_S)
    with raw, suppress(OSError), context.wrap_socket(raw, server_hostname="localhost"):
        pass


@pytest.mark.parametrize(("name", "expected"), [("CN=carol,OU=hr", "User:CN=carol,OU=hr"), (None, "User:ANONYMOUS")])
def test_the_certificate_of_the_client_is_its_principal(name: str | None, expected: str) -> None:
    async def main() -> None:
        async with connected() as (ours, theirs):
            assert await shake_hands(ours, theirs, client_of(name)) == expected

    run(main)


STRANGER = Authority("CN=stranger").issue("CN=carol")
FAILURES = {
    "a stranger's certificate": (
        TestTls(),
        client_context(TlsSettings.from_names(trusting(SERVER) | own(STRANGER))),
        "the certificate of the client is refused: ",
    ),
    "no certificate": (TestTls(ssl_client_auth="required"), client_of(), "the client has no certificate, and ssl."),
    "an authority that the client does not know": (
        TestTls(),
        client_context(TlsSettings.from_names(trusting(STRANGER))),
        "the client does not know the authority of this node's certificate",
    ),
    "an old version": (
        TestTls(ssl_enabled_protocols="TLSv1.3"),
        client_context(TlsSettings.from_names(trusting(SERVER) | {"ssl.enabled.protocols": "TLSv1.2"})),
        "the client has no version of TLS of ssl.enabled.protocols",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_handshake_says_why(name: str) -> None:
    tls, context, expected = FAILURES[name]

    async def main() -> None:
        async with connected(tls) as (ours, theirs):
            assert (await shake_hands(ours, theirs, context)).startswith(f"TLS handshake failed: {expected}")

    run(main)


@pytest.mark.parametrize(
    "data", [framed(b"\x00\x12\x00\x03\x00\x00\x00\x00\x00\x03abc"), b"GET / HTTP/1.1\r\n\r\n"], ids=["kafka", "http"]
)
def test_a_client_without_tls_is_named(data: bytes) -> None:
    async def main() -> None:
        async with connected() as (ours, theirs):
            await ours.send_all(data)
            with pytest.raises(Disconnect, match=r"the client speaks no TLS, and .* \(client: security.protocol=SSL\)"):
                await theirs.handshake()

    run(main)


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01\x02\x00\x01"])
def test_a_client_that_leaves_during_the_handshake_is_no_failure(data: bytes) -> None:
    async def main() -> None:
        async with connected() as (ours, theirs):
            await ours.send_all(data)
            await ours.aclose()
            with pytest.raises(ConnectionError):
                await theirs.handshake()

    run(main)


def test_a_handshake_that_does_not_finish_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "HANDSHAKE_S_MAX", 0.01)

    async def main() -> None:
        async with connected() as (ours, theirs):
            await ours.send_all(b"\x16\x03\x01\x02\x00\x01")
            with pytest.raises(Disconnect, match="not finished within"):
                await theirs.handshake()

    run(main)


def test_few_handshakes_compute_in_a_round_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty clients whose bytes have arrived: no more than two compute between two rounds."""
    steps: list[int] = []

    class Rounds(trio.abc.Instrument):
        def after_io_wait(self, timeout: float) -> None:
            steps.append(0)

    class Counting:
        def __init__(self, tls: TlsSocket) -> None:
            self._tls = tls

        def __getattr__(self, name: str) -> object:
            return getattr(self._tls, name)

        def do_handshake(self) -> None:
            steps[-1] += 1
            self._tls.do_handshake()

    async def client(port: int) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await trio.SSLStream(stream, client_of(), server_hostname="localhost").do_handshake()

    async def main() -> None:
        trio.lowlevel.add_instrument(Rounds())
        handshakes = Handshakes(TestTls())
        with socket.create_server(("127.0.0.1", 0), backlog=40) as server:
            async with trio.open_nursery() as nursery:
                for _ in range(40):
                    nursery.start_soon(client, server.getsockname()[1])
                await trio.testing.wait_all_tasks_blocked()
                for _ in range(40):
                    raw = server.accept()[0]
                    raw.setblocking(False)
                    nursery.start_soon(handshakes.shake_hands, Counting(TlsSocket(raw, handshakes.tls.context)))

    run(main)
    assert sum(steps) >= 80
    assert max(steps) <= COMPUTING_MAX


def test_requests_that_end_within_a_record_are_answered() -> None:
    """OpenSSL has read the next request with the end of the last, so the socket has nothing to read."""

    async def main() -> None:
        async with serving() as (client, _):
            large, small = framed(bytes(300_000)), framed(b"small")
            data = large + small * 3
            for at in range(0, len(data), 16 << 10):
                await client.send_all(data[at : at + (16 << 10)])
            assert [await read_frame(client) for _ in range(4)] == [b"300000", b"5", b"5", b"5"]

    run(main)


@pytest.mark.parametrize("size", [1, 16 << 10, 300_000, 5 << 20])
def test_requests_of_any_size_are_read(size: int) -> None:
    async def main() -> None:
        async with serving() as (client, _), trio.open_nursery() as nursery:
            nursery.start_soon(client.send_all, framed(bytes(size)) * 3)
            assert [await read_frame(client) for _ in range(3)] == [str(size).encode()] * 3

    run(main)


def test_a_client_that_does_not_read_for_a_while_gets_everything() -> None:
    async def main() -> None:
        async with serving() as (client, connection):
            await client.send_all(framed(b"large") * 2 + framed(b"small"))
            await trio.testing.wait_all_tasks_blocked()
            assert connection.busy
            assert [len(await read_frame(client)) for _ in range(3)] == [8 << 20, 8 << 20, 1]

    run(main)


def test_what_the_kernel_does_not_take_of_a_small_response_is_sent_later() -> None:
    """`send_now` returns what `send` has to go on with, also if all of it is encrypted, and takes no more meanwhile."""

    async def main() -> None:
        async with connected() as (ours, theirs), trio.open_nursery() as nursery:
            client = trio.SSLStream(ours, client_of(), server_hostname="localhost")
            nursery.start_soon(client.do_handshake)
            await theirs.handshake()
            sent_bytes, response = 0, [b"ab", b"c" * 10_000]
            while not (left := list(theirs.send_now(response))):
                sent_bytes += 10_002
            assert left == [b""]
            assert theirs.send_now(response) == [b"ab" + b"c" * 10_000]
            nursery.start_soon(theirs.send, left)
            sent_bytes += 10_002
            assert await read_exactly(client, sent_bytes) == (b"ab" + b"c" * 10_000) * (sent_bytes // 10_002)

    run(main)


def test_slices_of_files_are_sent_as_bytes(tmp_path: Path) -> None:
    data = bytes(range(256)) * 20_000
    path = tmp_path / "log"
    path.write_bytes(data)

    async def main() -> None:
        async with connected() as (ours, theirs), trio.open_nursery() as nursery:
            client = trio.SSLStream(ours, client_of(), server_hostname="localhost")
            nursery.start_soon(client.do_handshake)
            await theirs.handshake()
            nursery.start_soon(theirs.send, [b"head", FileSlice(RealDisk().open(str(path)), 100, len(data) - 100)])
            assert await read_exactly(client, len(data) - 96) == b"head" + data[100:]

    run(main)


def test_a_client_that_has_closed_is_gone() -> None:
    async def main() -> None:
        async with connected() as (ours, theirs), trio.open_nursery() as nursery:
            client = trio.SSLStream(ours, client_of(), server_hostname="localhost", https_compatible=True)
            nursery.start_soon(client.do_handshake)
            await theirs.handshake()
            await client.send_all(b"unread")
            await trio.lowlevel.wait_readable(theirs._socket.raw)
            assert not theirs.peer_is_gone()
            await client.aclose()
            assert theirs.peer_is_gone()

    run(main)


def test_rubbish_after_the_handshake_ends_the_connection() -> None:
    async def main() -> None:
        async with serving() as (client, _):
            await client.send_all(framed(b"small"))
            assert await read_frame(client) == b"5"
            await client.transport_stream.send_all(b"rubbish" * 10)
            with pytest.raises(trio.BrokenResourceError):
                await client.receive_some()

    run(main)
