"""The health check of the image: asks the node for its API versions; exits with 1 if it does not answer.

    python3 health.py [PORT | HOST:PORT]

A broker answers once it may lead partitions. A listener with TLS has to shake hands; its certificate is not verified,
since this only asks whether it answers. Without an argument the address is that of the first listener for clients, in a
node that is only a controller that of its own listener, from the environment or the mounted server.properties; else
port 9092. It uses the standard library alone, as it is started every ten seconds.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable, Mapping

TIMEOUT_S = 4
API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)
"""Request header: API key 18, version 0, correlation id 1, no client id. The body is empty."""


MOUNTED_CONFIG = "/mnt/shared/config/server.properties"
PREFIXES = ("MINIKAFKA_", "KAFKA_", "KAFKA_CFG_")
"""Of the variables, the one that counts first."""
EVERY_ADDRESS = ("", "0.0.0.0", "::")


def settings_of(environment: Mapping[str, str], mounted: Mapping[str, str]) -> Callable[[str], str]:
    """A function that returns the text of a setting by its name; "" if it is not given.

    Args:
        environment: Of the node.
        mounted: The settings in the mounted file.
    """

    def setting(name: str) -> str:
        for prefix in PREFIXES:
            if value := environment.get(prefix + name.upper().replace(".", "_")):
                return value
        return mounted.get(name, "")

    return setting


def address_of(environment: Mapping[str, str], mounted: Mapping[str, str]) -> tuple[str, int]:
    """Host and port of the listener to ask."""
    setting = settings_of(environment, mounted)
    controllers = [one.strip() for one in setting("controller.listener.names").upper().split(",")]
    asks_controller = setting("process.roles").strip() == "controller"
    given = setting("listeners")
    for listener in (given or setting("advertised.listeners")).split(","):
        name, found, address = listener.strip().partition("://")
        if found and (name.upper() in controllers) == asks_controller:
            host, port = parsed(address)
            return (host if given else "localhost"), port
    return "localhost", 9092


def has_tls(port: int, environment: Mapping[str, str], mounted: Mapping[str, str]) -> bool:
    """Whether the listener of a port has TLS."""
    setting = settings_of(environment, mounted)
    pairs = [one.strip().rpartition(":") for one in setting("listener.security.protocol.map").upper().split(",")]
    protocols = {name.strip(): protocol.strip() for name, _, protocol in pairs}
    for listener in (setting("listeners") or setting("advertised.listeners")).split(","):
        name, found, address = listener.strip().upper().partition("://")
        if found and parsed(address)[1] == port:
            return protocols.get(name, name).endswith("SSL")
    return False


def parsed(address: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, [HOST]:PORT or PORT; this machine's own address stands for every address."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    return ("localhost" if host in EVERY_ADDRESS else host), int(port)


def properties(path: str) -> dict[str, str]:
    """The settings in a file; none if there is no file."""
    try:
        with open(path, encoding="latin-1") as file:
            lines = file.read().replace("\\\n", "").splitlines()
    except OSError:
        return {}
    pairs = [line.partition("=") for line in lines if not line.lstrip().startswith(("#", "!"))]
    return {name.strip(): value.strip() for name, _, value in pairs}


def answers(host: str, port: int, *, by_tls: bool) -> bool:
    """Whether the node answers. Raises OSError if it cannot be reached."""
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
        if by_tls:
            return answers_by_tls(connection)
        connection.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
        return len(connection.recv(4)) == 4


def answers_by_tls(raw: socket.socket) -> bool:
    """Whether a listener shakes hands, or refuses to without a certificate of the client. Raises OSError."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_socket(raw).close()
        return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")


def main() -> None:
    mounted = properties(MOUNTED_CONFIG)
    host, port = parsed(sys.argv[1]) if sys.argv[1:] else address_of(os.environ, mounted)
    by_tls = has_tls(port, os.environ, mounted)
    try:
        sys.exit(0 if answers(host, port, by_tls=by_tls) else f"{host}:{port} does not answer")
    except OSError as error:
        sys.exit(f"{host}:{port}: {error}")


if __name__ == "__main__":
    main()
