"""The client's sockets under trio: the writing task sends immediately; one task per connection reads.

The file uses the socket itself instead of trio's stream: a response is handled in the reading task, and a request needs
no task switch unless the kernel's send buffer is full. Trio is only used to wait.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Any, Protocol

import trio

from minikafka.client.connections.stream import Receiver, Stream, loss_by
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.message import MalformedMessage

_READ_SIZE_BYTES = 1 << 18


class Socket(Protocol):
    """The part of a non-blocking socket that a stream uses. The methods raise BlockingIOError and other OSErrors."""

    def send(self, data: memoryview, /) -> int: ...

    def recv_into(self, buffer: memoryview, /) -> int: ...

    def close(self) -> None: ...


class Waits(Protocol):
    """The functions of `trio.lowlevel` that wait for a socket; a simulation provides its own."""

    async def wait_readable(self, sock: Any, /) -> None: ...

    async def wait_writable(self, sock: Any, /) -> None: ...

    def notify_closing(self, sock: Any, /) -> None: ...


async def open_stream(host: str, port: int, receiver: Receiver, task_group: Any) -> Stream:
    """Connect to a broker. Raises OSError."""
    try:
        connected = await trio.open_tcp_stream(host, port)
    except RuntimeError as error:  # No thread can be started that looks up the name.
        raise OSError(errno.EAGAIN, str(error)) from error
    raw = socket.socket(fileno=connected.socket.detach())
    raw.setblocking(False)
    stream = SocketStream(raw, receiver, trio.lowlevel)
    try:
        task_group.start_soon(stream.run)
    except BaseException:
        raw.close()
        raise
    return stream


def current_task() -> object:
    """The task that is running."""
    return trio.lowlevel.current_task()


def running_loop() -> object:
    """The token of the trio run in this thread, or None."""
    try:
        return trio.lowlevel.current_trio_token()
    except RuntimeError:
        return None


def running_clock() -> Callable[[], float]:
    """The clock of the trio run in this thread, in seconds."""
    return trio.lowlevel.current_clock().current_time


class SocketStream:
    """A `Stream` over a non-blocking socket; `run` reads, and closes the socket when it ends or is cancelled."""

    def __init__(self, raw: Socket, receiver: Receiver, waits: Waits) -> None:
        self._raw = raw
        self._receiver = receiver
        self._waits = waits
        self._out: list[memoryview] = []
        self._wake = trio.Event()
        self._scope = trio.CancelScope()
        self._why: str | KafkaError = "closed by the client"
        self._is_open = True

    @property
    def is_full(self) -> bool:
        return bool(self._out) or not self._is_open

    def write(self, data: bytes) -> None:
        if not self._is_open:
            return
        left = memoryview(data)
        if not self._out:
            left = left[self._sent(left) :]
        if left:
            self._out.append(left)
            self._wake.set()

    def _sent(self, data: memoryview) -> int:
        """Send what the kernel accepts now; return the number of bytes."""
        try:
            return self._raw.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._why, self._is_open = str(error), False
            self._scope.cancel()
            return len(data)

    def close(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    self._why = await self._read()
                    nursery.cancel_scope.cancel()
        finally:
            self._waits.notify_closing(self._raw)
            self._raw.close()
            self._is_open = False
            self._receiver.on_lost(self._why)

    async def _read(self) -> str | KafkaError:
        """Read until the connection is closed; return the reason."""
        frames, on_frame = self._receiver.frames, self._receiver.on_frame
        buffer = memoryview(bytearray(_READ_SIZE_BYTES))
        try:
            while True:
                target = frames.target
                if target is None:
                    size = await self._received(buffer)
                    for frame in frames.feed(buffer[:size]):
                        on_frame(frame)
                else:
                    with target:
                        size = await self._received(target)
                    whole = frames.received(size)
                    if whole is not None:
                        on_frame(whole)
                if not size:
                    return "the broker closed the connection"
        except MalformedMessage as error:
            return loss_by(error, self._receiver.address)
        except OSError as error:
            return str(error)

    async def _received(self, target: memoryview) -> int:
        """Receive into `target`; return the number of bytes, 0 at the end. Raises OSError."""
        while True:
            await self._waits.wait_readable(self._raw)
            try:
                return self._raw.recv_into(target)
            except BlockingIOError:
                continue  # The kernel may report a socket as readable when it is not.

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            while self._out:
                await self._waits.wait_writable(self._raw)
                self._out[0] = self._out[0][self._sent(self._out[0]) :]
                if not self._out[0]:
                    del self._out[0]
            self._wake = trio.Event()
            if self._is_open:
                self._receiver.on_sent()
