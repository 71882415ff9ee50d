"""Listening TCP sockets: binds sockets, and accepts connections. Uses trio to wait where the kernel would block."""

import errno
import socket
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

import structlog
import trio

from minikafka.broker.connections.ready_sockets import ReadySockets
from minikafka.broker.connections.transport import SCRATCH_SIZE_BYTES, SocketTransport
from minikafka.broker.settings.listeners import Listener
from minikafka.controller.quorum.listening_sockets import listening_sockets

__all__ = ["TcpListening", "listen_on_tcp"]

log = structlog.get_logger("minikafka.server")

ACCEPT_PAUSE_S = 0.1


def listen_on_tcp(listener: Listener) -> "TcpListening":
    """Bind a listener at all addresses that its host stands for; port 0 takes a free port.

    Raises:
        OSError: The address is in use, or not an address of this machine.
    """
    return TcpListening(listening_sockets(listener.host, listener.port))


class TcpListening:
    """The bound, non-blocking TCP sockets of one listener (a `Listening`). One buffer receives for all connections.

    Args:
        bound: At least one socket; all have the same port. `address` is the address of the first socket.
    """

    def __init__(self, bound: Sequence[socket.socket]) -> None:
        self._bound = deque(bound)
        self._scratch = memoryview(bytearray(SCRATCH_SIZE_BYTES))
        self._ready = ReadySockets() if sys.platform == "linux" else None
        host, port = bound[0].getsockname()[:2]
        self.address: tuple[str, int] = str(host), int(port)

    async def run(self) -> None:
        if self._ready is None:
            await trio.sleep_forever()
        else:
            await self._ready.run()

    async def accept(self) -> SocketTransport | None:
        try:
            raw = self._accepted()
            if raw is None:
                await self._wait_for_a_client()
                return None
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED):
                raise
            log.warning("accept failed", reason=error.strerror)
            await trio.sleep(ACCEPT_PAUSE_S)
            return None
        try:
            return SocketTransport(raw, self._scratch, self._ready)
        except OSError:
            raw.close()  # the client disconnected right after the accept
            return None

    def _accepted(self) -> socket.socket | None:
        """Accept a waiting client, from each socket in turn; returns None if no client waits. Raises OSError."""
        for _ in range(len(self._bound)):
            self._bound.rotate()
            with suppress(BlockingIOError):
                return self._bound[0].accept()[0]
        return None

    async def _wait_for_a_client(self) -> None:
        if len(self._bound) == 1:
            await trio.lowlevel.wait_readable(self._bound[0])
            return
        async with trio.open_nursery() as nursery:
            for one in self._bound:
                nursery.start_soon(self._wait_for_one, one, nursery.cancel_scope)

    async def _wait_for_one(self, bound: socket.socket, waiting: trio.CancelScope) -> None:
        await trio.lowlevel.wait_readable(bound)
        waiting.cancel()

    def close(self) -> None:
        for one in self._bound:
            one.close()
