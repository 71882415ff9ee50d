"""Transports: send and receive the bytes of a connection over a TCP socket, or over any trio stream (memory, TLS).

A socket is read into one buffer that all connections of a node share, and slices of logs are written with `sendfile`;
trio's scheduler is involved only where the kernel would block. Thousands of idle connections take a few hundred bytes
each, and slices of logs never enter Python's memory.
"""

import os
import socket
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Protocol

import trio

from minikafka.broker.connections.ready_sockets import ReadySockets, Turn
from minikafka.broker.connections.socket_moves import STEP_SIZE_BYTES, SocketMoves
from minikafka.controller.security.access import Principal
from minikafka.protocol.addresses import host_of
from minikafka.protocol.errors import again
from minikafka.storage.disks.disk import FileSlice

SCRATCH_SIZE_BYTES = 256 << 10
SENDFILE_SIZE_BYTES_MIN = 32 << 10
"""Smaller slices of logs are copied into the response, which is cheaper than a system call for each slice."""
READ_SIZE_BYTES = 128 << 10
"""Bytes of a slice that are read to be encrypted, and in memory while the client takes them. A MiB that is read in such
pieces takes 5 % less time to send than one that is read at once: they stay in the cache of the processor."""
PIECE_SIZE_BYTES_MIN = 64 << 10
"""Smaller parts are joined, which is cheaper than a system call for each part; copying larger parts takes too long."""

Bytes = bytes | bytearray | memoryview


class Transport(Protocol):
    """Receives and sends the bytes of one connection.

    Attributes:
        peer_host: The IP address of the client, as Java writes it.
        moved_bytes: The bytes of large requests that were received, plus the bytes of responses that were sent later
            because the client did not take them at once.
        polls: The `ReadySockets` that knows when the bytes were seen to have arrived; None if there is none.
        handshake: To be awaited before anything else; None if there is nothing to wait for. Returns the principal of
            the client as far as the transport knows it. Raises `Disconnect` or ConnectionError.
    """

    peer_host: str
    peer_port: int
    local_host: str
    local_port: int

    @property
    def moved_bytes(self) -> int: ...

    @property
    def polls(self) -> ReadySockets | None: ...

    @property
    def handshake(self) -> "Callable[[], Awaitable[Principal]] | None": ...

    async def wait_while(self, turn: Turn) -> None:
        """Call `turn` whenever bytes or the stream's end have arrived, until it returns False or `resume` is called.

        `turn` may run in another task. It must not raise, and receives with `receive_now`. Cancellation ends the wait.
        """
        ...

    def resume(self) -> None:
        """Let `wait_while` return; no effect if no task waits."""
        ...

    def receive_now(self) -> memoryview:
        """Return received bytes, valid until the next call on any connection; empty at the end of the stream.

        Raises:
            BlockingIOError: No bytes have arrived.
            ConnectionResetError: The peer disconnected.
        """
        ...

    async def receive_into(self, target: memoryview) -> int:
        """Fill a part of `target` and return its size; 0 at the end of the stream."""
        ...

    async def send(self, parts: Sequence["bytes | FileSlice"]) -> None:
        """Send all parts in order. Cancellation leaves the connection unusable: close it."""
        ...

    def send_now(self, parts: Sequence["bytes | FileSlice"]) -> Sequence["bytes | FileSlice"]:
        """Send as much as is possible without waiting, and return the rest. Errors are raised by the next `send`."""
        ...

    def peer_is_gone(self) -> bool:
        """Whether the peer disconnected. Does not consume bytes that the peer sent before."""
        ...

    def close(self) -> None: ...


class SocketTransport:
    """A non-blocking TCP socket; waits with trio only where the kernel would block."""

    handshake = None

    def __init__(self, raw: socket.socket, scratch: memoryview, ready: ReadySockets | None = None) -> None:
        self._raw = raw
        self._fd = raw.fileno()
        self._scratch = scratch
        self._ready = ready
        self._waiting: trio.CancelScope | None = None
        self._moves = SocketMoves()
        raw.setblocking(False)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = raw.getpeername()
        self.peer_host, self.peer_port = host_of(peer), int(peer[1])
        self.local_host, self.local_port = raw.getsockname()[:2]

    @property
    def moved_bytes(self) -> int:
        return self._moves.moved_bytes

    @property
    def polls(self) -> ReadySockets | None:
        return self._ready

    @property
    def scratch(self) -> memoryview:
        """The buffer into which `receive_now` receives."""
        return self._scratch

    @property
    def raw(self) -> socket.socket:
        """The socket, for a transport that encrypts what it sends by it."""
        return self._raw

    async def wait_while(self, turn: Turn) -> None:
        if self._ready is not None:
            await self._ready.wait_while(self._fd, turn)
            return
        with trio.CancelScope() as self._waiting:
            await trio.lowlevel.wait_readable(self._raw)
            while turn():
                await trio.lowlevel.wait_readable(self._raw)

    def resume(self) -> None:
        if self._ready is not None:
            self._ready.resume(self._fd)
        elif self._waiting is not None:
            self._waiting.cancel()

    def receive_now(self) -> memoryview:
        return self._scratch[: self._raw.recv_into(self._scratch)]

    async def receive_into(self, target: memoryview) -> int:
        raw, size_bytes = self._raw, min(len(target), STEP_SIZE_BYTES)
        return await self._moves.receive(raw, lambda: raw.recv_into(target, size_bytes))

    async def send(self, parts: Sequence[bytes | FileSlice]) -> None:
        raw, pieces = self._raw, _pieces(parts)
        piece = next(pieces, None)
        while piece is not None:
            following = next(pieces, None)
            if isinstance(piece, FileSlice):
                await self._send_file(piece)
            else:
                flags = 0 if following is None else socket.MSG_MORE
                await self._moves.send(raw, memoryview(piece), STEP_SIZE_BYTES, partial(_send, raw, flags))
            piece = following

    def send_now(self, parts: Sequence[bytes | FileSlice]) -> Sequence[bytes | FileSlice]:
        try:
            if len(parts) == 1 and not isinstance(parts[0], FileSlice):
                data = parts[0]
            else:
                data = b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
            sent = self._raw.send(data)
        except (OSError, MemoryError):
            return list(parts)
        return [data[sent:]] if sent < len(data) else []

    async def _send_file(self, part: FileSlice) -> None:
        part.file.hold()  # the descriptor stays open if the segment is deleted meanwhile
        try:
            descriptor = part.file.fileno()
            if descriptor < 0:
                await self._send_read(part)
            else:
                await self._send_slice(descriptor, part.position, len(part))
        finally:
            part.file.release()

    async def _send_read(self, part: FileSlice) -> None:
        """Send a slice of a file in memory."""
        raw = self._raw
        for piece in _read(part):
            await self._moves.send(raw, memoryview(piece), STEP_SIZE_BYTES, partial(_send, raw, 0))

    async def _send_slice(self, source: int, position: int, left: int) -> None:
        while left:
            part = partial(os.sendfile, self._raw.fileno(), source, position, min(left, STEP_SIZE_BYTES))
            sent = await self._moves.send_some(self._raw, part)
            if not sent:
                raise ConnectionResetError("the log was truncated while it was being sent")
            position, left = position + sent, left - sent

    def peer_is_gone(self) -> bool:
        try:
            return self._raw.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        trio.lowlevel.notify_closing(self._raw)
        if self._ready is not None:
            self._ready.forget(self._fd)
        self._raw.close()


def _send(raw: socket.socket, flags: int, data: memoryview) -> int:
    return raw.send(data, flags)


def _pieces(parts: Iterable[Bytes | FileSlice]) -> Iterator[Bytes | FileSlice]:
    """Yield the same bytes in pieces for system calls: small parts joined, large parts unchanged.

    Small slices are read when their piece is asked for, so that a response of many slices is never wholly in memory.
    """
    small: list[Bytes] = []
    size_bytes = 0
    for part in parts:
        if isinstance(part, FileSlice):
            is_large = len(part) >= SENDFILE_SIZE_BYTES_MIN
        else:
            is_large = len(part) >= PIECE_SIZE_BYTES_MIN
        if small and (is_large or size_bytes >= PIECE_SIZE_BYTES_MIN):
            yield _joined(small)
            small, size_bytes = [], 0
        if is_large:
            yield part
        else:
            small.append(part.read() if isinstance(part, FileSlice) else part)
            size_bytes += len(part)
    if small:
        yield _joined(small)


def _joined(parts: list[Bytes]) -> Bytes:
    return parts[0] if len(parts) == 1 else b"".join(parts)


def in_memory(parts: Iterable[Bytes | FileSlice]) -> Generator[Bytes, None, None]:
    """Yield the same bytes in pieces for system calls. Of slices at most `READ_SIZE_BYTES` are in memory at a time.

    Close the generator: it holds the file of a slice meanwhile.
    """
    for piece in _pieces(parts):
        if isinstance(piece, FileSlice):
            yield from _read(piece)
        else:
            yield piece


def _read(part: FileSlice) -> Iterator[bytes]:
    part.file.hold()  # The descriptor stays open if the segment is deleted meanwhile.
    try:
        for position in range(0, len(part), READ_SIZE_BYTES):
            size_bytes = min(READ_SIZE_BYTES, len(part) - position)
            yield FileSlice(part.file, part.position + position, size_bytes).read()
    finally:
        part.file.release()


class StreamTransport:
    """A transport over any trio stream: TLS, or memory in tests. Slices of logs are read and sent as bytes."""

    polls = None
    peer_port = 0

    def __init__(
        self,
        stream: trio.abc.Stream,
        peer_host: str,
        local_host: str,
        local_port: int,
        handshake: Callable[[], Awaitable[Principal]] | None = None,
    ) -> None:
        self.handshake = handshake
        self._stream = stream
        self._received: memoryview | None = None
        self._waiting: trio.CancelScope | None = None
        self._error: ConnectionResetError | None = None
        self.moved_bytes = 0
        self.peer_host = peer_host
        self.local_host = local_host
        self.local_port = local_port

    async def wait_while(self, turn: Turn) -> None:
        with trio.CancelScope() as self._waiting:
            await self._receive()
            while turn():
                await self._receive()

    async def _receive(self) -> None:
        """Wait for bytes, the stream's end or an error, unless some are still unread. Cancellation loses no bytes."""
        if self._received is not None or self._error is not None:
            await trio.lowlevel.checkpoint()
            return
        try:
            self._received = memoryview(await self._stream.receive_some(SCRATCH_SIZE_BYTES))
        except trio.BrokenResourceError as error:
            self._error = ConnectionResetError(str(error))

    def resume(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def receive_now(self) -> memoryview:
        if self._error is not None:
            raise again(self._error)
        if self._received is None:
            raise BlockingIOError
        received, self._received = self._received, None
        return received

    async def receive_into(self, target: memoryview) -> int:
        try:
            data = await self._stream.receive_some(len(target))
        except trio.BrokenResourceError as error:
            raise ConnectionResetError(str(error)) from error
        target[: len(data)] = data
        self.moved_bytes += len(data)
        return len(data)

    async def send(self, parts: Sequence[bytes | FileSlice]) -> None:
        try:
            with closing(in_memory(parts)) as pieces:
                for data in pieces:
                    await self._stream.send_all(data)
                    self.moved_bytes += len(data)
        except trio.BrokenResourceError as error:
            raise ConnectionResetError(str(error)) from error

    def send_now(self, parts: Sequence[bytes | FileSlice]) -> Sequence[bytes | FileSlice]:
        """Send nothing and return all parts: a trio stream cannot send without waiting."""
        return list(parts)

    def peer_is_gone(self) -> bool:
        return False

    def close(self) -> None:
        """Close without waiting: data that the peer has not read is lost."""
        trio.lowlevel.spawn_system_task(trio.aclose_forcefully, self._stream)
