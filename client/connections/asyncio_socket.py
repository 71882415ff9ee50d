"""The client's sockets under asyncio. A `BufferedProtocol` avoids a task switch and a copy per read of anyio's streams.

Received data is handled outside of any task, where anyio cannot detect the running event loop (`asyncio.run`, unlike
`anyio.run`, does not set it). Each stream therefore handles data in a context that names asyncio.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import cast

import sniffio

from minikafka.client.connections.stream import Receiver, Stream, loss_by
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.message import MalformedMessage

_SCRATCH_SIZE_BYTES = 1 << 16


async def open_stream(host: str, port: int, receiver: Receiver) -> Stream:
    """Connect to a broker. Raises OSError."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(lambda: _Stream(receiver), host, port)
    return protocol


def current_task() -> object:
    """The task that is running."""
    return asyncio.current_task()


def running_loop() -> object:
    """The event loop that runs in this thread and process, or None."""
    return asyncio._get_running_loop()


def running_clock() -> Callable[[], float]:
    """The clock of the event loop that runs in this thread, in seconds."""
    return asyncio.get_running_loop().time


class _Stream(asyncio.BufferedProtocol):
    """Receives large frames directly into their own buffer, small ones through a scratch buffer."""

    def __init__(self, receiver: Receiver) -> None:
        self._is_paused = False
        self._receiver = receiver
        self._scratch = memoryview(bytearray(_SCRATCH_SIZE_BYTES))
        self._target: memoryview | None = None
        self._transport: asyncio.Transport | None = None
        self._lost = False
        self._context = contextvars.copy_context()
        self._context.run(sniffio.current_async_library_cvar.set, "asyncio")

    @property
    def is_full(self) -> bool:
        return self._is_paused or self._transport is None or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport has no asyncio class.

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._context.run(self._receiver.on_sent)

    def get_buffer(self, sizehint: int) -> memoryview:
        self._target = self._receiver.frames.target
        return self._scratch if self._target is None else self._target

    def buffer_updated(self, nbytes: int) -> None:
        self._context.run(self._received, nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        self._target = None
        self._context.run(self._lose, "the broker closed the connection" if exc is None else str(exc))

    def _received(self, nbytes: int) -> None:
        try:
            if self._target is None:
                for frame in self._receiver.frames.feed(self._scratch[:nbytes]):
                    self._receiver.on_frame(frame)
                return
            self._target = None  # The memoryview is not released: uvloop holds it until this call returns.
            whole = self._receiver.frames.received(nbytes)
            if whole is not None:
                self._receiver.on_frame(whole)
        except MalformedMessage as error:
            self._lose(loss_by(error, self._receiver.address))
            self.close()

    def _lose(self, why: str | KafkaError) -> None:
        if not self._lost:
            self._lost = True
            self._receiver.on_lost(why)
