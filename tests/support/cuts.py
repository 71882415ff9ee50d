"""TCP proxies that can interrupt the traffic between two processes.

    with Cable(("127.0.0.1", 9192)) as cable:
        connect(cable.address)
        cable.cut()         # no data passes in either direction; new connections get no response
        cable.mend()        # the traffic continues

A cut cable loses no data and resets no connection, like a network that drops packets for a while.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import Self

CHUNK_SIZE_BYTES = 1 << 16
LOOK_INTERVAL_S = 0.02


class Cable:
    """A proxy from a local port to the address of another process."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._whole = threading.Event()
        self._whole.set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._whole.set()
        self._listening.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                near, _ = self._listening.accept()
                threading.Thread(target=self._connect, args=[near], daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._whole.wait()
        with near:
            try:
                far = socket.create_connection(self._target, timeout=60)
            except OSError:
                return
            far.settimeout(None)  # a paused process reads nothing for a while; that does not end the connection
            with far, contextlib.suppress(OSError):
                self._carry(near, far)

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(near, selectors.EVENT_READ, far)
            ready.register(far, selectors.EVENT_READ, near)
            while not self._over.is_set():
                for key, _ in ready.select(LOOK_INTERVAL_S):
                    data = key.fileobj.recv(CHUNK_SIZE_BYTES)
                    self._whole.wait()
                    if not data:
                        return
                    key.data.sendall(data)
