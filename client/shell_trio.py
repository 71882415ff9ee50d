"""Sockets under trio: one task that reads and one that writes, both in the client's task group.

Trio is imported for its streams; `open_tcp_stream` can be replaced, so that a simulated network has the same clients.
"""

from __future__ import annotations

from typing import Any

import trio

from minikafka.client.seams import Receiver, Stream
from minikafka.protocol.message import MalformedMessage

_READ_SIZE_BYTES = 1 << 18


async def open_stream(
    host: str, port: int, receiver: Receiver, task_group: Any, open_tcp_stream: Any = trio.open_tcp_stream
) -> Stream:
    """Connect. Raises OSError."""
    stream = _Stream(await open_tcp_stream(host, port), receiver)
    task_group.start_soon(stream.run)
    return stream


class _Stream:
    def __init__(self, stream: trio.abc.Stream, receiver: Receiver) -> None:
        self._stream = stream
        self._receiver = receiver
        self._out: list[bytes] = []
        self._wake = trio.Event()
        self._scope = trio.CancelScope()
        self._lost = False

    def write(self, data: bytes) -> None:
        self._out.append(data)
        self._wake.set()

    def close(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        why = "it was closed here"
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    why = await self._read()
                    nursery.cancel_scope.cancel()
        finally:
            self._lose(why)
            with trio.CancelScope() as scope:
                scope.cancel()
                await self._stream.aclose()

    async def _read(self) -> str:
        """Until the end; why it came."""
        try:
            while data := await self._stream.receive_some(_READ_SIZE_BYTES):
                for frame in self._receiver.frames.feed(memoryview(data)):
                    self._receiver.on_frame(frame)
        except MalformedMessage as error:
            return f"it sent what is no Kafka response ({error})"
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            return str(error.__cause__ or error)
        return "it hung up"

    async def _write(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                data, self._out = b"".join(self._out), []
                await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The reader says why.

    def _lose(self, why: str) -> None:
        if not self._lost:
            self._lost = True
            self._receiver.on_lost(why)
