"""Finds free ports for a local cluster."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable

from minikafka.cli.clusters.cluster_layout import HOST, ClusterError
from minikafka.protocol.counted import counted

__all__ = ["free_port"]

_ATTEMPTS = 100
_PORTS = (15_000, 32_000)


def free_port(wanted: Callable[[int], list[int]]) -> int:
    """A base port for which all ports that `wanted` returns are free.

    The range avoids the system's ephemeral ports: the port of a stopped node must still be free at its restart.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(OSError, OverflowError), contextlib.ExitStack() as held:
            base = random.randrange(*_PORTS)
            for port in wanted(base):
                held.enter_context(socket.socket()).bind((HOST, port))
            return base
    raise ClusterError(f"no free ports found in {counted(_ATTEMPTS, 'attempt')}")
