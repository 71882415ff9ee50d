"""Listening TCP sockets: binds them and accepts connections. Trio: waits where the kernel would block."""

import errno
import socket
import sys

import structlog
import trio

from minikafka.broker.connections.ready_sockets import ReadySockets
from minikafka.broker.connections.transport import SCRATCH_SIZE_BYTES, SocketTransport
from minikafka.broker.settings.listeners import Listener

__all__ = ["TcpListening", "listen_on_tcp"]

log = structlog.get_logger("minikafka.server")

BACKLOG = 1024
ACCEPT_PAUSE_S = 0.1


def listen_on_tcp(listener: Listener) -> "TcpListening":
    """Bind a listener; port 0 takes a free port.

    Raises:
        OSError: The address is in use, or not an address of this machine.
    """
    host = listener.host or None
    found = socket.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)[0]
    raw = socket.socket(family, kind, protocol)
    try:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        raw.bind(address)
        raw.listen(BACKLOG)
    except OSError as error:
        raw.close()
        raise OSError(
            error.errno, f"cannot listen on {listener.host or '*'}:{listener.port}: {error.strerror}"
        ) from error
    raw.setblocking(False)
    return TcpListening(raw)


class TcpListening:
    """A bound, non-blocking socket; see `Listening`. All its connections are read into one buffer."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self._scratch = memoryview(bytearray(SCRATCH_SIZE_BYTES))
        self._ready = ReadySockets() if sys.platform == "linux" else None
        host, port = raw.getsockname()[:2]
        self.address: tuple[str, int] = str(host), int(port)

    async def run(self) -> None:
        if self._ready is None:
            await trio.sleep_forever()
        else:
            await self._ready.run()

    async def accept(self) -> SocketTransport | None:
        try:
            raw = self._raw.accept()[0]
        except BlockingIOError:
            await trio.lowlevel.wait_readable(self._raw)
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

    def close(self) -> None:
        self._raw.close()
