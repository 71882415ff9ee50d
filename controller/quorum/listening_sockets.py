"""Opens sockets that listen on every address that a listener's host stands for. Blocks only in the name service.

Java listens on one socket for both families where the host is empty, `0.0.0.0` or `::`. Here each family has a socket
of its own, so that the address of a client is never an IPv4 address within an IPv6 one (`::ffff:…`).
"""

import errno
import socket
from collections.abc import Iterator
from typing import Any

from minikafka.protocol.errors import without_frames

__all__ = ["check_address", "listening_sockets"]

BACKLOG = 1024
WILDCARDS = ("0.0.0.0", "::")
LOOPBACKS = ("127.0.0.1", "::1")
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Errors for an address, or a family of addresses, that this machine does not have."""
_PORTS_TRIED_MAX = 8
_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Bind all addresses of a host that this machine has, with one port; IPv4 first. The sockets do not block.

    Args:
        host: "", `0.0.0.0` and `::` stand for all addresses of the machine; `localhost` for 127.0.0.1 and ::1,
            whatever the hosts file says; other names for all their addresses.
        port: 0 takes a port that is free on all addresses.

    Raises:
        OSError: The port is in use, or no address is one of this machine. The text names host and port.
    """
    return _sockets(host, port, listen=True)


def check_address(host: str, port: int) -> None:
    """Check that all addresses of a host can be bound. No client can connect meanwhile: the sockets do not listen.

    Raises:
        OSError: See `listening_sockets`.
    """
    for one in _sockets(host, port, listen=False):
        one.close()


def _sockets(host: str, port: int, *, listen: bool) -> list[socket.socket]:
    try:
        addresses = list(_addresses(host, port))
        for _ in range(_PORTS_TRIED_MAX if port == 0 else 1):
            bound, problem = _bound(addresses, listen)
            if problem is None or port or problem.errno != errno.EADDRINUSE:
                break
    except OSError as error:
        problem = without_frames(error)
    if problem is not None:
        raise OSError(problem.errno, f"cannot listen on {host or '*'}:{port}: {problem.strerror}") from problem
    return bound


def _addresses(host: str, port: int) -> Iterator[_Address]:
    """The addresses that a host stands for, IPv4 first. Raises OSError for a name without addresses."""
    hosts = WILDCARDS if host in ("", *WILDCARDS) else LOOPBACKS if host.lower() == "localhost" else (host,)
    found = [entry for one in hosts for entry in socket.getaddrinfo(one, port, type=socket.SOCK_STREAM)]
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return iter(dict.fromkeys((entry[0], entry[4]) for entry in found))


def _bound(addresses: list[_Address], listen: bool) -> tuple[list[socket.socket], OSError | None]:
    """Bind a socket to each address that this machine has. Returns the sockets, or none and the error."""
    bound: list[socket.socket] = []
    problem: OSError | None = None
    for family, (host, port, *rest) in addresses:
        try:
            address = (host, bound[0].getsockname()[1] if bound else port, *rest)
            bound.append(_bound_to(family, address, listen))
        except OSError as error:
            problem = without_frames(error)
            if error.errno not in _NOT_HERE:
                for one in bound:
                    one.close()
                return [], problem
    return bound, None if bound else problem


def _bound_to(family: socket.AddressFamily, address: tuple[Any, ...], listen: bool) -> socket.socket:
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        raw.bind(address)
        if listen:
            raw.listen(BACKLOG)
    except OSError:
        raw.close()
        raise
    raw.setblocking(False)
    return raw
