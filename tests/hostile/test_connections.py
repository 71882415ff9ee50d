"""Connections that only use resources: idle, slow to send, not reading."""

from __future__ import annotations

import contextlib
import resource
import socket

import pytest
from support.clients_raw import RawConnection, check_served, request, resident_bytes
from support.node import ServerProcess

from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.metadata import MetadataRequest

IDLE = 5_000
IDLE_BYTES_EACH_MAX = 40_000
MIB = 1 << 20


@pytest.fixture
def many_files() -> None:
    """Raises the soft limit of open files; skips where the hard limit is too low. The node inherits both."""
    needed = 2 * IDLE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"only {hard} open files are allowed")
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@pytest.fixture
def growth_bytes_max(growth_bytes_max: int) -> int:
    """Five thousand connections may leave some of their memory allocated."""
    return growth_bytes_max + IDLE * IDLE_BYTES_EACH_MAX


@pytest.mark.slow
def test_five_thousand_idle_connections_do_not_affect_others(node: ServerProcess, many_files: None) -> None:
    before = resident_bytes(node.pid)
    with contextlib.ExitStack() as idle:
        for number in range(IDLE):
            idle.enter_context(RawConnection(node.address))
            if number % 500 == 0:
                check_served(node)
        check_served(node)
        grown = resident_bytes(node.pid) - before
        assert grown < IDLE * IDLE_BYTES_EACH_MAX + 200 * MIB, f"{grown / IDLE:.0f} bytes a connection"
    check_served(node)


def test_slow_senders_do_not_affect_others(node: ServerProcess) -> None:
    whole = request(ApiVersionsRequest(), 0)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(RawConnection(node.address)) for _ in range(100)]
        for byte in whole[:-1]:
            for connection in slow:
                connection.send(bytes([byte]))
            check_served(node)
        for connection in slow:
            connection.send(whole[-1:])
            assert connection.receive_frame()[:4] == whole[8:12], "the slow ones are served in the end"


def test_a_frame_may_arrive_in_any_pieces(node: ServerProcess) -> None:
    both = request(ApiVersionsRequest(), 0) * 2
    for cut in range(1, len(both)):
        with RawConnection(node.address) as connection:
            connection.send(both[:cut])
            connection.send(both[cut:])
            assert connection.receive_frame() == connection.receive_frame()


@pytest.mark.slow
def test_a_client_that_does_not_read_is_not_served_without_limit(node: ServerProcess) -> None:
    """Its responses stay in the socket buffers, and the node stops reading its requests."""
    ask = request(MetadataRequest(topics=None), 9) * 1000
    before = resident_bytes(node.pid)
    with contextlib.ExitStack() as stack:
        deaf = [stack.enter_context(RawConnection(node.address)) for _ in range(20)]
        for connection in deaf:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            send_until_blocked(connection.socket, ask)
        check_served(node)
        assert resident_bytes(node.pid) - before < 200 * MIB
    check_served(node)


def send_until_blocked(stream: socket.socket, data: bytes) -> None:
    """Sends repeatedly until the node reads nothing for half a second, at most 64 MiB."""
    stream.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        for _ in range(64 * MIB // len(data)):
            stream.sendall(data)


@pytest.mark.slow
def test_closed_connections_leave_nothing_allocated(node: ServerProcess) -> None:
    for _ in range(2_000):
        RawConnection(node.address).close()
    check_served(node)
