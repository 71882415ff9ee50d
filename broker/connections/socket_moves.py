"""`SocketMoves`: calls of a socket that does not block, in steps after each of which other tasks run.

Plain sockets and those with TLS move their bytes by it. Trio: waits where the kernel would block.
"""

import socket
from collections.abc import Awaitable, Callable
from functools import partial

import trio

__all__ = ["STEP_SIZE_BYTES", "SocketMoves"]

STEP_SIZE_BYTES = 1 << 20
"""Bytes that are received or sent before other tasks run, or twice as many at most. A MiB takes about 1 ms, and 5 to
9 ms if the kernel has to find memory for it first. With a fast peer the kernel would never block."""


class SocketMoves:
    """Moves the bytes of one socket.

    Attributes:
        moved_bytes: How many were moved so far.
    """

    def __init__(self) -> None:
        self.moved_bytes = 0
        self._in_step_bytes = 0

    def count_work(self, size_bytes: int) -> None:
        """Count work of the present step that moves no bytes, and takes as long as moving so many."""
        self._in_step_bytes += size_bytes

    async def receive(self, raw: socket.socket, receive: Callable[[], int]) -> int:
        """Receive once, as soon as there are bytes. Returns what `receive` returns, how many it has received."""
        return await self._move(receive, partial(trio.lowlevel.wait_readable, raw))

    async def send(
        self, raw: socket.socket, data: memoryview, size_bytes: int, send: Callable[[memoryview], int]
    ) -> None:
        """Send all of `data`, in pieces of `size_bytes`; `send` returns how much of a piece it has sent."""
        while data:
            data = data[await self.send_some(raw, partial(send, data[:size_bytes])) :]

    async def send_some(self, raw: socket.socket, send: Callable[[], int]) -> int:
        """Send once, as soon as the kernel takes bytes. Returns what `send` returns, how many it has sent."""
        return await self._move(send, partial(trio.lowlevel.wait_writable, raw))

    async def _move(self, call: Callable[[], int], wait: Callable[[], Awaitable[None]]) -> int:
        if self._in_step_bytes >= STEP_SIZE_BYTES:
            self._in_step_bytes = 0
            await trio.lowlevel.checkpoint()
        while True:
            try:
                count = call()
            except BlockingIOError:
                await wait()
            else:
                self.moved_bytes += count
                self._in_step_bytes += count
                return count
