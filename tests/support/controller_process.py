"""A node whose controller listener tools ask: alone, without a quorum."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

from support.node import NodeProcess

PORTS = (15_000, 32_000)
"""Below the ephemeral ports, which other connections of this machine take."""


def standalone_node(data_dir: Path) -> tuple[NodeProcess, tuple[str, int]]:
    """A standalone node that has a controller listener, not started, and the address of that listener."""
    port, controller = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
    settings = {"listeners": listeners, "controller.listener.names": "CONTROLLER"}
    return NodeProcess(data_dir, settings=settings, port=port), ("127.0.0.1", controller)


def free_port() -> int:
    """A port of this machine that nothing uses. Raises OSError."""
    for _ in range(100):
        with contextlib.suppress(OSError), socket.socket() as one:
            port = random.randrange(*PORTS)
            one.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port")
