"""`TlsStream`: TLS between a connection and its socket, for asyncio, trio and simulated networks alike.

    Connection ◄── frames ── TlsStream ◄── records ── socket
               ─── bytes ──►           ─── records ─►

For the socket's stream it is the receiver, for the connection it is the stream. Python's `ssl` does the work, on
buffers in memory: this file has no socket.
"""

from __future__ import annotations

import ssl

import anyio

from minikafka.client.connections.stream import Frames, Receiver, Stream
from minikafka.client.security.tls_errors import handshake_error
from minikafka.protocol.errors import KafkaError, NetworkError

_RECORD_SIZE_BYTES_MAX = 1 << 14


class NoHandshake(NetworkError):
    """The broker closed the connection in place of a TLS handshake, as brokers without TLS do."""


class TlsStream:
    """A `Stream` whose bytes another stream carries, encrypted.

    Args:
        address: of the broker, for error messages.
        host: the name that the broker's certificate must have, if the context checks names.

    Attributes:
        address: of the broker.
        frames: takes the bytes that the socket has received, and passes frames to the receiver itself.
    """

    def __init__(self, receiver: Receiver, context: ssl.SSLContext, address: str, host: str) -> None:
        self.frames: Frames = self
        self._receiver = receiver
        self.address = address
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._stream: Stream | None = None
        self._handshake = anyio.Event()
        self._failure: KafkaError | None = None
        self._has_data = False
        """Whether the broker has sent data: it refuses certificates of TLS 1.3 when it has answered the handshake."""
        self._scratch = memoryview(bytearray(_RECORD_SIZE_BYTES_MAX))

    async def shake_hands(self, stream: Stream) -> None:
        """Use a stream, whose receiver this is, from now on; wait for the end of the handshake.

        Raises SslAuthenticationError, NetworkError.
        """
        self._stream = stream
        self._continue_handshake()
        await self._handshake.wait()
        if self._failure is not None:
            raise self._failure

    # -- the stream of the connection

    @property
    def is_full(self) -> bool:
        return self._stream is not None and self._stream.is_full

    def write(self, data: bytes) -> None:
        if self._failure is None:
            self._tls.write(data)
            self._flush()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    # -- the receiver of the socket, and its frames

    @property
    def target(self) -> None:
        """None: there is no buffer into which the socket could receive directly."""

    def feed(self, data: memoryview) -> list[bytearray]:
        """Handle received bytes. Returns no frames: the receiver has got them. Raises MalformedMessage."""
        self._incoming.write(data)
        if not self._handshake.is_set():
            self._continue_handshake()
        if self._handshake.is_set() and self._failure is None:
            self._decrypt()
        return []

    def received(self, count: int) -> bytearray | None:
        """Not called, as there is no `target`."""
        raise AssertionError("no target")

    def on_frame(self, frame: bytearray) -> None:
        """Not called, as `feed` returns no frames."""
        raise AssertionError("no frames")

    def on_sent(self) -> None:
        self._receiver.on_sent()

    def on_lost(self, why: str | KafkaError) -> None:
        if not self._handshake.is_set() and isinstance(why, str):
            in_place = self._tls.version() is None
            why = NoHandshake(f"{why}, in place of a TLS handshake") if in_place else NetworkError(why)
        self._lose(why)

    def _lose(self, why: str | KafkaError) -> None:
        if self._failure is None:
            self._failure = NetworkError(why) if isinstance(why, str) else why
            self._handshake.set()
            self._receiver.on_lost(why)
            self.close()

    # -- TLS

    def _continue_handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._flush()  # The broker gets the reason.
            self._lose(handshake_error(self.address, error))
            return
        else:
            self._handshake.set()
        self._flush()

    def _decrypt(self) -> None:
        """Decrypt what has arrived, and pass frames to the receiver. Raises MalformedMessage."""
        reader = self._receiver.frames
        try:
            while self._failure is None:
                target = reader.target
                size = self._read(target)
                self._has_data = True
                if not size:
                    self._lose("the broker closed the connection")
                elif target is None:
                    for frame in reader.feed(self._scratch[:size]):
                        self._receiver.on_frame(frame)
                elif (whole := reader.received(size)) is not None:
                    self._receiver.on_frame(whole)
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            failure = handshake_error(self.address, error)
            self._lose(NetworkError(failure.message) if self._has_data else failure)

    def _read(self, target: memoryview | None) -> int:
        """Decrypt into `target`, or into `_scratch`. Returns the number of bytes, 0 at the end. Raises ssl.SSLError."""
        if target is None:
            return int(self._tls.read(_RECORD_SIZE_BYTES_MAX, self._scratch))
        with target:
            return int(self._tls.read(len(target), target))

    def _flush(self) -> None:
        if self._stream is not None and self._outgoing.pending:
            self._stream.write(self._outgoing.read())
