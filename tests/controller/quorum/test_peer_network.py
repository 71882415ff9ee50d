"""Listening on a name of which this machine does not have every address."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import trio

from minikafka.controller.quorum.peer_network import TcpNetwork

HERE, ELSEWHERE = "127.0.0.1", "192.0.2.1"
"""The second one is reserved for documentation (RFC 5737): no machine has it."""


class Names(trio.abc.HostnameResolver):
    """Every name has these addresses."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    async def getaddrinfo(self, host: bytes | None, port: Any, *rest: int) -> Any:
        kind = trio.socket.SOCK_STREAM
        return [(trio.socket.AF_INET, kind, 6, "", (address, port)) for address in self._addresses]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        raise NotImplementedError


def listened_on(*addresses: str) -> list[str]:
    """The addresses that are bound for a name that has these."""

    async def main() -> list[str]:
        trio.socket.set_custom_hostname_resolver(Names(*addresses))
        listeners = await TcpNetwork().listen("localhost.example", 0)
        found = [one.socket.getsockname()[0] for one in listeners]  # type: ignore[attr-defined]
        for one in listeners:
            await one.aclose()
        return found

    return trio.run(main)


def test_addresses_that_the_machine_does_not_have_are_left_out() -> None:
    assert listened_on(ELSEWHERE, HERE) == [HERE]
    assert listened_on(HERE, ELSEWHERE) == [HERE]


def test_at_least_one_address_must_be_here() -> None:
    with pytest.raises(OSError, match=r"cannot listen on localhost\.example:0") as caught:
        listened_on(ELSEWHERE)
    assert caught.value.errno == errno.EADDRNOTAVAIL
