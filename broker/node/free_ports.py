"""`free_port`: finds free ports for nodes that are started on this machine."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Callable

__all__ = ["HOST", "free_port"]

HOST = "127.0.0.1"
_ATTEMPTS = 100
_PORTS = (15_000, 32_000)


def free_port(wanted: Callable[[int], list[int]]) -> int:
    """A base port for which all ports that `wanted` returns are free.

    The range avoids the system's ephemeral ports: the port of a stopped node must still be free at its restart.

    Raises OSError: None was found.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(OSError, OverflowError), contextlib.ExitStack() as held:
            base = random.randrange(*_PORTS)
            for port in wanted(base):
                held.enter_context(socket.socket()).bind((HOST, port))
            return base
    raise OSError(errno.EADDRINUSE, f"no free ports found in {_ATTEMPTS} attempts", HOST)
