"""TLS over the sockets of a listener: its handshake in the task of the connection, then requests in the usual turns.

Measured beside trio's `SSLStream`, OpenSSL on the turns of `ReadySockets` takes a fifth of the processor time for small
requests, and a third for large ones.
Uses trio: handshakes wait, one or two of them compute in a round of the event loop, and their time is limited.
"""

import select
import socket
import ssl
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Protocol

import trio

from minikafka.broker.connections.listening import Listening
from minikafka.broker.connections.ready_sockets import ReadySockets, Turn
from minikafka.broker.connections.request_context import Disconnect
from minikafka.broker.connections.socket_moves import SocketMoves
from minikafka.broker.connections.tls_socket import TlsSocket, in_words
from minikafka.broker.connections.transport import SocketTransport, in_memory
from minikafka.controller.security.access import Principal
from minikafka.controller.tls_records import RECORD_SIZE_BYTES_MAX
from minikafka.storage.disks.disk import FileSlice

__all__ = ["HANDSHAKE_S_MAX", "Handshakes", "ListenerTls", "TlsListening", "TlsTransport"]

HANDSHAKE_S_MAX = 10.0
"""A client that has not finished its handshake after so many seconds is disconnected."""
COMPUTING_MAX = 2
"""Steps of handshakes in one round of the event loop. A step takes 0.5 ms, with an RSA key of 4,096 bits 5 ms."""
SENT_AT_ONCE_BYTES = 8 * RECORD_SIZE_BYTES_MAX
"""Bytes that are encrypted, then sent by one call of the kernel. With a call for each record, a MiB takes 10 % more."""


class ListenerTls(Protocol):
    """The TLS of a listener.

    Attributes:
        context: With the present certificates; connections that are open keep theirs.
        speaks: What clients connect with, in words: `security.protocol=SSL`.
    """

    speaks: str

    @property
    def context(self) -> ssl.SSLContext: ...

    def principal_of(self, certificate: bytes | None) -> Principal:
        """The principal of a client, by its certificate in DER. Raises ValueError if it has none."""
        ...


@dataclass(frozen=True)
class Handshakes:
    """The handshakes of a listener.

    Attributes:
        tls: The certificates of the listener.
        failure_delay_ms: How long a connection stays open whose handshake failed.
        computing: Limits how many handshakes compute in a round of the event loop.
    """

    tls: ListenerTls
    failure_delay_ms: int = 0
    computing: trio.Semaphore = field(default_factory=lambda: trio.Semaphore(COMPUTING_MAX))

    async def shake_hands(self, tls: TlsSocket) -> Principal:
        """Shake hands with a client. Raises Disconnect or ConnectionError."""
        try:
            with trio.fail_after(HANDSHAKE_S_MAX):
                await self._finish(tls)
            return self.tls.principal_of(tls.certificate)
        except (trio.TooSlowError, ssl.SSLError, ValueError) as error:
            if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
                _answer_plain_text(tls.raw)
            await trio.sleep(self.failure_delay_ms / 1000)
            raise Disconnect(f"TLS handshake failed: {self._in_words(error)}") from None

    async def _finish(self, tls: TlsSocket) -> None:
        wait = trio.lowlevel.wait_readable
        while True:
            await wait(tls.raw)
            async with self.computing:
                try:
                    tls.do_handshake()
                    return
                except BlockingIOError:
                    wait = trio.lowlevel.wait_writable if tls.has_unsent else trio.lowlevel.wait_readable

    def _in_words(self, error: Exception) -> str:
        if isinstance(error, trio.TooSlowError):
            return f"not finished within {HANDSHAKE_S_MAX:.0f} s"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the certificate of the client is refused: {error.verify_message}"
        if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
            return f"the client speaks no TLS, and the listener has it (client: {self.tls.speaks})"
        return in_words(error)


_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST")
_INTERNAL_ERROR = bytes.fromhex("15030300020250")
"""The alert, not encrypted, with which Apache Kafka answers plain text; clients know by it that TLS is expected."""


def _answer_plain_text(raw: socket.socket) -> None:
    """Send the alert past OpenSSL, which sends none. What was received is read, since a close would reset it."""
    with suppress(OSError):
        raw.recv(RECORD_SIZE_BYTES_MAX)
    with suppress(OSError):
        raw.send(_INTERNAL_ERROR)


class TlsListening:
    """A `Listening` whose connections have TLS.

    Args:
        inner: Accepts the connections.
        handshakes: Those of this listener.
    """

    def __init__(self, inner: Listening, handshakes: Handshakes) -> None:
        self._inner = inner
        self._handshakes = handshakes
        self.address = inner.address

    async def accept(self) -> "TlsTransport | None":
        accepted = await self._inner.accept()
        if accepted is None:
            return None
        assert isinstance(accepted, SocketTransport), "only sockets have TLS"
        return TlsTransport(accepted, self._handshakes)

    async def run(self) -> None:
        await self._inner.run()

    def close(self) -> None:
        self._inner.close()


class TlsTransport:
    """A socket with TLS. Slices of logs are read and sent as bytes. Before the handshake it can only be closed."""

    def __init__(self, inner: SocketTransport, handshakes: Handshakes) -> None:
        self._inner = inner
        self._handshakes = handshakes
        self._tls: TlsSocket | None = None
        self._moves = SocketMoves()
        self.peer_host, self.peer_port = inner.peer_host, inner.peer_port
        self.local_host, self.local_port = inner.local_host, inner.local_port

    @property
    def moved_bytes(self) -> int:
        return self._moves.moved_bytes

    @property
    def polls(self) -> ReadySockets | None:
        return self._inner.polls

    async def handshake(self) -> Principal:
        self._tls = TlsSocket(self._inner.raw, self._handshakes.tls.context)
        return await self._handshakes.shake_hands(self._tls)

    @property
    def _socket(self) -> TlsSocket:
        assert self._tls is not None, "the handshake comes first"
        return self._tls

    async def wait_while(self, turn: Turn) -> None:
        while self._socket.has_received:
            if not turn():
                return
        await self._inner.wait_while(turn)

    def resume(self) -> None:
        self._inner.resume()

    def receive_now(self) -> memoryview:
        """Receive once at most: what a step costs is bounded, and of what was received no whole record is left."""
        tls, scratch = self._socket, self._inner.scratch
        if not tls.has_received and not tls.receive():
            return scratch[:0]
        size = tls.read_into(scratch)
        while size and tls.has_received:
            try:
                count = tls.read_into(scratch[size:])
            except BlockingIOError:
                break
            if not count:  # The end, which the next call finds.
                break
            size += count
        return scratch[:size]

    async def receive_into(self, target: memoryview) -> int:
        """Each record counts as a full one in the steps of `SocketMoves`: a small one takes nearly as long."""
        before = self._socket.records
        count = await self._moves.receive(self._socket.raw, lambda: self._received(target))
        self._moves.count_work(max((self._socket.records - before) * RECORD_SIZE_BYTES_MAX - count, 0))
        return count

    def _received(self, target: memoryview) -> int:
        tls = self._socket
        if not tls.has_received and not tls.receive(len(target)):
            return 0
        return tls.read_into(target)

    async def send(self, parts: Sequence[bytes | FileSlice]) -> None:
        tls = self._socket
        with closing(in_memory(parts)) as pieces:
            for piece in pieces:
                await self._moves.send(tls.raw, memoryview(piece), SENT_AT_ONCE_BYTES, tls.send)
        while tls.has_unsent:
            await trio.lowlevel.wait_writable(tls.raw)
            with suppress(BlockingIOError):
                tls.flush()

    def send_now(self, parts: Sequence[bytes | FileSlice]) -> Sequence[bytes | FileSlice]:
        try:
            data = b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
        except (OSError, MemoryError):
            return list(parts)
        try:
            sent = self._socket.send(data[:SENT_AT_ONCE_BYTES])
        except OSError:  # BlockingIOError, or an error that the next `send` raises again
            return [data]
        return [data[sent:]] if sent < len(data) or self._socket.has_unsent else []

    def peer_is_gone(self) -> bool:
        """Whether the client has closed its side: TLS leaves a message of its own to be read before the end."""
        hung_up: int = getattr(select, "POLLRDHUP", 0)
        watched = select.poll()
        watched.register(self._socket.raw, hung_up)
        return bool(watched.poll(0))

    def close(self) -> None:
        if self._tls is not None:
            self._tls.say_goodbye()
        self._inner.close()
