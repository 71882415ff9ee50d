"""The addresses that a listener's host stands for, at the listeners for clients and at those for controllers."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.broker.connections.tcp_listening import listen_on_tcp
from minikafka.broker.settings.listeners import Listener
from minikafka.controller.quorum import listening_sockets as module
from minikafka.controller.quorum.listening_sockets import check_address, listening_sockets
from minikafka.controller.quorum.peer_network import TcpNetwork, peer_host
from minikafka.protocol.addresses import javas_address

HERE, ELSEWHERE = "127.0.0.1", "192.0.2.1"
"""The second one is reserved for documentation (RFC 5737): no machine has it."""
FOUR, SIX = "127.0.0.1", "::1"
REACHED = {
    "": [FOUR, SIX],
    "0.0.0.0": [FOUR, SIX],
    "::": [FOUR, SIX],
    "localhost": [FOUR, SIX],
    "LOCALHOST": [FOUR, SIX],
    FOUR: [FOUR],
    SIX: [SIX],
    "127.0.0.2": [],
}
"""At which addresses clients reach a listener with this host. For wildcards and addresses as Apache Kafka 4.3.1."""


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((SIX, 0))
    except OSError:
        return False
    return True


here = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@contextmanager
def bound(host: str, port: int = 0) -> Iterator[list[socket.socket]]:
    sockets = listening_sockets(host, port)
    try:
        yield sockets
    finally:
        for one in sockets:
            one.close()


def reached(port: int) -> list[str]:
    found = []
    for address in (FOUR, SIX):
        try:
            socket.create_connection((address, port), timeout=10).close()
        except ConnectionRefusedError:
            continue
        found.append(address)
    return found


@here
@pytest.mark.parametrize("host", REACHED)
def test_a_listener_serves_every_address_that_its_host_stands_for(host: str) -> None:
    with bound(host) as sockets:
        assert len({one.getsockname()[1] for one in sockets}) == 1
        assert reached(sockets[0].getsockname()[1]) == REACHED[host]


@pytest.mark.parametrize("host", ["", "localhost", FOUR])
def test_while_an_address_is_checked_nobody_can_connect(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that wait for a node would be accepted, and disconnected."""
    found: list[list[str]] = []

    def letting_go(self: socket.socket) -> None:
        monkeypatch.undo()  # what connects below is closed as ever
        found.append(reached(port))
        self.close()

    with bound(host) as sockets:
        port = sockets[0].getsockname()[1]
        with pytest.raises(OSError, match="Address already in use"):
            check_address(host, port)
    monkeypatch.setattr(socket.socket, "close", letting_go)
    check_address(host, port)
    assert found == [[]]


@here
@pytest.mark.parametrize("address", [FOUR, SIX])
def test_clients_of_both_families_are_accepted_under_their_own_address(address: str) -> None:
    async def main() -> None:
        listening = listen_on_tcp(Listener("PLAINTEXT", "", 0, "PLAINTEXT"))
        with closing(listening), trio.fail_after(30):
            assert listening.address[0] == "0.0.0.0"
            for _ in range(3):
                with socket.create_connection((address, listening.address[1])):
                    while (accepted := await listening.accept()) is None:
                        pass
                    assert (accepted.peer_host, accepted.local_host) == (javas_address(address), address)
                    accepted.close()

    trio.run(main)


@here
@pytest.mark.parametrize("address", [FOUR, SIX])
def test_a_listener_that_waits_hears_clients_of_both_families(address: str) -> None:
    async def main() -> None:
        listening = listen_on_tcp(Listener("PLAINTEXT", "localhost", 0, "PLAINTEXT"))
        with closing(listening), trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(listening.accept)
                await trio.testing.wait_all_tasks_blocked()
                socket.create_connection((address, listening.address[1])).close()

    trio.run(main)


@here
@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "localhost"])
def test_controllers_listen_on_the_same_addresses(host: str) -> None:
    async def main() -> list[str]:
        listeners = await TcpNetwork().listen(host, 0)
        port = listeners[0].socket.getsockname()[1]  # type: ignore[attr-defined]
        found = reached(port)
        for one in listeners:
            await one.aclose()
        return found

    assert trio.run(main) == [FOUR, SIX]


@pytest.mark.parametrize("error", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "localhost"])
def test_a_machine_without_ipv6_serves_ipv4(host: str, error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bound_to = module._bound_to

    def without_ipv6(family: socket.AddressFamily, address: Any, listen: bool) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(error, "no IPv6")
        return bound_to(family, address, listen)

    monkeypatch.setattr(module, "_bound_to", without_ipv6)
    with bound(host) as sockets:
        assert reached(sockets[0].getsockname()[1]) == [FOUR]


@here
def test_a_port_in_use_in_one_family_is_in_use() -> None:
    with bound(SIX) as taken:
        port = taken[0].getsockname()[1]
        for host in ("", "0.0.0.0", "::", "localhost"):
            with pytest.raises(OSError, match=rf"cannot listen on {host or '.'}:{port}: ") as caught, bound(host, port):
                pass
            assert caught.value.errno == errno.EADDRINUSE
        with bound(FOUR, port):
            pass


@here
def test_any_port_is_one_that_is_free_in_both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    bound_to = module._bound_to
    refusals = [OSError(errno.EADDRINUSE, "in use"), OSError(errno.EADDRINUSE, "in use")]

    def taken_twice(family: socket.AddressFamily, address: Any, listen: bool) -> socket.socket:
        if family == socket.AF_INET6 and refusals:
            raise refusals.pop()
        return bound_to(family, address, listen)

    monkeypatch.setattr(module, "_bound_to", taken_twice)
    with bound("") as sockets:
        assert reached(sockets[0].getsockname()[1]) == [FOUR, SIX]


def named(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """The addresses that are bound for a name that has these."""

    def resolved(host: str, port: int, **rest: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with bound("node.example") as sockets:
        return [one.getsockname()[0] for one in sockets]


def test_addresses_that_the_machine_does_not_have_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named(monkeypatch, ELSEWHERE, HERE) == [HERE]
    assert named(monkeypatch, HERE, ELSEWHERE, HERE) == [HERE]
    assert named(monkeypatch, HERE, "127.0.0.2") == [HERE, "127.0.0.2"]


def test_at_least_one_address_must_be_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match=r"cannot listen on node\.example:0") as caught:
        named(monkeypatch, ELSEWHERE)
    assert caught.value.errno == errno.EADDRNOTAVAIL


@here
@pytest.mark.parametrize("address", [FOUR, SIX])
def test_a_controller_names_its_clients_as_a_broker_does(address: str) -> None:
    """An ACL for an address holds at both, or at neither."""

    async def main() -> None:
        (listener,) = await TcpNetwork().listen(address, 0)
        assert isinstance(listener, trio.SocketListener)
        async with listener:
            port = listener.socket.getsockname()[1]
            with socket.create_connection((address, port)):
                async with await listener.accept() as accepted:
                    assert peer_host(accepted) == javas_address(address)

    trio.run(main)
