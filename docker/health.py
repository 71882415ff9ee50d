"""The health check of the image: asks the node for its API versions; exits with 1 if it does not answer.

    python3 health.py [PORT]

A node answers once it may lead partitions. Without an argument the port is that of the first listener for clients in
the environment, else 9092. It uses the standard library alone, as it is started every ten seconds.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Mapping

TIMEOUT_S = 4
API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)
"""Request header: API key 18, version 0, correlation id 1, no client id. The body is empty."""


def port_of(environment: Mapping[str, str]) -> int:
    """The port of the first listener that is not one of the controllers'."""
    controllers = _setting(environment, "CONTROLLER_LISTENER_NAMES").upper().split(",")
    listeners = _setting(environment, "LISTENERS") or _setting(environment, "ADVERTISED_LISTENERS")
    for listener in filter(None, listeners.split(",")):
        name, _, address = listener.strip().partition("://")
        if name.upper() not in controllers:
            return int(address.rpartition(":")[2])
    return 9092


def _setting(environment: Mapping[str, str], name: str) -> str:
    return environment.get(f"MINIKAFKA_{name}", environment.get(f"KAFKA_{name}", ""))


def answers(port: int) -> bool:
    """Whether the node on this machine answers. Raises OSError if it cannot be reached."""
    with socket.create_connection(("localhost", port), timeout=TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
        return len(connection.recv(4)) == 4


if __name__ == "__main__":
    try:
        sys.exit(0 if answers(int(sys.argv[1]) if sys.argv[1:] else port_of(os.environ)) else "no answer")
    except OSError as error:
        sys.exit(str(error))
