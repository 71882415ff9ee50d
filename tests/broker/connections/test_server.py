"""A server with listeners in memory: limits on connections, clients that have gone, and its end. TCP listeners."""

from __future__ import annotations

import itertools
import math
import socket
import struct
from collections.abc import Sequence
from typing import cast

import pytest
import structlog
import trio
import trio.testing

from minikafka.broker.connections.long_polls import Receiver
from minikafka.broker.connections.ready_sockets import Turn
from minikafka.broker.connections.request_context import Answer, ConnectionInfo
from minikafka.broker.connections.server import ACCEPTED_IN_A_STEP, ConnectionLimits, Server
from minikafka.broker.connections.tcp_listening import TcpListening, listen_on_tcp
from minikafka.broker.connections.transport import Transport
from minikafka.broker.quotas.connection_rates import ConnectionRates
from minikafka.broker.settings.listeners import Listener
from minikafka.controller.quotas.rates import Samples
from minikafka.storage.disks.disk import FileSlice

ANY_PORT = Listener("PLAINTEXT", "127.0.0.1", 0, "PLAINTEXT")


class SilentClient:
    """A transport whose client never sends."""

    local_host, local_port, progress, polls, peer_port = "node", 9092, 0, None, 0
    handshake = None

    def __init__(self, peer_host: str) -> None:
        self.peer_host = peer_host
        self.closed = False

    async def wait_while(self, turn: Turn) -> None:
        await trio.sleep_forever()

    def resume(self) -> None:
        raise AssertionError

    def receive_now(self) -> memoryview:
        raise AssertionError

    def send_now(self, parts: Sequence[bytes | FileSlice]) -> Sequence[bytes | FileSlice]:
        raise AssertionError

    async def receive_into(self, target: memoryview) -> int:
        raise AssertionError

    async def send(self, parts: Sequence[bytes | FileSlice]) -> None:
        raise AssertionError

    def peer_is_gone(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


class Arrivals:
    """A listener in memory; None stands for a client that has gone."""

    address = "node", 9092

    def __init__(self) -> None:
        self.arrive, self._arrived = trio.open_memory_channel[SilentClient | None](math.inf)
        self.closed = False

    async def run(self) -> None:
        await trio.sleep_forever()

    async def accept(self) -> Transport | None:
        return await self._arrived.receive()

    def close(self) -> None:
        self.closed = True


class NoRequests:
    """A handler that is never called."""

    def answer_now(self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None) -> Answer:
        raise AssertionError

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        raise AssertionError


def server(rates: ConnectionRates | None = None) -> Server:
    return Server(
        NoRequests(),
        size_bytes_max=100,
        limits=ConnectionLimits(lambda listener: 3, lambda listener: 9, lambda host: 1 if host == "one" else 9, rates),
    )


def test_a_listener_above_its_rate_accepts_later() -> None:
    async def main() -> None:
        rates = ConnectionRates(Samples(2, 1000), trio.current_time)
        rates.set_limits(1, {})
        arrivals, serving = Arrivals(), server(rates)
        clients = [SilentClient("two") for _ in range(3)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving.serve, arrivals, "PLAINTEXT")
            for client in clients:
                arrivals.arrive.send_nowait(client)
            await trio.sleep(0.9)
            assert len(serving.connections) == 1
            await trio.sleep(0.2)
            assert len(serving.connections) == 2
            nursery.cancel_scope.cancel()
        assert all(client.closed for client in clients)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_full_listener_leaves_the_others_open() -> None:
    async def main() -> None:
        limits = ConnectionLimits(lambda name: 9 if name == "BROKERS" else 3, lambda name: 2, lambda host: 9)
        serving = Server(NoRequests(), size_bytes_max=100, limits=limits)
        listeners = {name: Arrivals() for name in ("CLIENTS", "OTHERS", "BROKERS")}
        asked = [("CLIENTS", 3), ("OTHERS", 2), ("BROKERS", 3)]
        async with trio.open_nursery() as nursery:
            for name, arrivals in listeners.items():
                nursery.start_soon(serving.serve, arrivals, name)
            admitted = []
            for name, number in asked:
                clients = [SilentClient("two") for _ in range(number)]
                for client in clients:
                    listeners[name].arrive.send_nowait(client)
                await trio.testing.wait_all_tasks_blocked()
                admitted.append(sum(not client.closed for client in clients))
            assert admitted == [2, 1, 2]
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_connections_that_have_ended_leave_room() -> None:
    async def main() -> None:
        limits = ConnectionLimits(lambda name: 2, lambda name: 2, lambda host: 2)
        serving = Server(NoRequests(), size_bytes_max=100, limits=limits)
        for _ in range(3):
            clients = [SilentClient("two") for _ in range(2)]
            async with trio.open_nursery() as nursery:
                for client in clients:
                    nursery.start_soon(serving.serve_one, client, "CLIENTS")
                await trio.testing.wait_all_tasks_blocked()
                assert not any(client.closed for client in clients)
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_client_whose_address_has_too_high_a_rate_is_closed_late() -> None:
    async def main() -> None:
        rates = ConnectionRates(Samples(2, 1000), trio.current_time)
        rates.set((("ip", "10.0.0.1"),), "connection_creation_rate", 1)
        arrivals, serving = Arrivals(), server(rates)
        clients = [SilentClient(host) for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2")]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving.serve, arrivals, "PLAINTEXT")
            for client in clients:
                arrivals.arrive.send_nowait(client)
            await trio.sleep(0.9)
            assert [client.closed for client in clients] == [False, False, False]
            assert [connection.info.client_host for connection in serving.connections] == ["10.0.0.1", "10.0.0.2"]
            await trio.sleep(0.2)
            assert [client.closed for client in clients] == [False, True, False]
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_connections_above_the_limits_are_closed_and_the_others_end_with_the_server() -> None:
    async def main() -> None:
        arrivals, serving = Arrivals(), server()
        clients = [SilentClient(host) for host in ("one", "one", "two", "two", "three")]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving.serve, arrivals, "PLAINTEXT")
            for client in (None, *clients):
                arrivals.arrive.send_nowait(client)
            await trio.testing.wait_all_tasks_blocked()
            assert [client.closed for client in clients] == [False, True, False, False, True]
            assert [connection.info.client_host for connection in serving.connections] == ["one", "two", "two"]
            nursery.cancel_scope.cancel()
        assert arrivals.closed
        assert all(client.closed for client in clients)
        assert not serving.connections

    trio.run(main)


class Crowd(Arrivals):
    """A listener where a client always waits, up to `clients` of them."""

    def __init__(self, clients: int) -> None:
        super().__init__()
        self.clients = clients

    async def accept(self) -> Transport | None:
        if not self.clients:
            await trio.sleep_forever()
        self.clients -= 1
        return SilentClient("two")


@pytest.mark.parametrize("connections_max", [3, 1_000])
def test_clients_that_connect_without_end_leave_each_other_task_its_turn(connections_max: int) -> None:
    async def main() -> None:
        crowd, waited = Crowd(1_000), []
        serving = Server(
            NoRequests(),
            size_bytes_max=100,
            limits=ConnectionLimits(*(lambda _: connections_max,) * 3),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving.serve, crowd, "PLAINTEXT")
            while crowd.clients:
                waited.append(crowd.clients)
                await trio.lowlevel.checkpoint()
            waited.append(0)
            nursery.cancel_scope.cancel()
        assert max(before - after for before, after in itertools.pairwise(waited)) <= 2 * ACCEPTED_IN_A_STEP

    trio.run(main)


def test_a_connection_is_logged_at_debug_with_its_client() -> None:
    async def main() -> None:
        arrivals, serving = Arrivals(), server()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving.serve, arrivals, "PLAINTEXT")
            arrivals.arrive.send_nowait(SilentClient("one"))
            await trio.sleep(1)
            nursery.cancel_scope.cancel()

    with structlog.testing.capture_logs() as lines:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [(line["event"], line["client"], line["listener"], line["log_level"]) for line in lines] == [
        ("connection opened", "one", "PLAINTEXT", "debug"),
        ("connection ended", "one", "PLAINTEXT", "debug"),
    ]


def test_refused_connections_are_logged_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    logged = structlog.testing.LogCapture()
    log = structlog.wrap_logger(None, processors=[logged], wrapper_class=structlog.BoundLogger)
    monkeypatch.setattr("minikafka.broker.connections.server.log", log)

    async def main() -> None:
        arrivals, serving = Arrivals(), server()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serving.serve, arrivals, "PLAINTEXT")
            for _ in range(3):
                for _ in range(100):
                    arrivals.arrive.send_nowait(SilentClient("one"))
                await trio.sleep(1.5)
            nursery.cancel_scope.cancel()
        refused = [event["refused"] for event in logged.entries if event["log_level"] == "warning"]
        assert refused == [1, 99, 100]

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_tcp_listener_names_its_address_and_accepts() -> None:
    async def main() -> None:
        listening = listen_on_tcp(ANY_PORT)
        host, port = listening.address
        assert host == "127.0.0.1"
        assert port > 0
        with socket.create_connection(listening.address) as client:
            accepted = await first(listening)
            assert (accepted.peer_host, accepted.local_port) == ("127.0.0.1", port)
            client.sendall(b"hello")
            assert await received(listening, accepted) == b"hello"
            accepted.close()
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: "):
            listen_on_tcp(Listener("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT"))
        listening.close()

    trio.run(main)


def test_a_tcp_client_that_has_gone_is_no_connection() -> None:
    async def main() -> None:
        listening = listen_on_tcp(ANY_PORT)
        gone = socket.create_connection(listening.address)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()  # resets the connection
        with socket.create_connection(listening.address) as client:
            accepted = await first(listening)
            client.sendall(b"second")
            assert await received(listening, accepted) == b"second"
            accepted.close()
        listening.close()

    trio.run(main)


async def received(listening: TcpListening, accepted: Transport) -> bytes:
    """The next bytes that a connection receives."""
    found: list[bytes] = []

    def turn() -> bool:
        found.append(bytes(accepted.receive_now()))
        return False

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listening.run)
        await accepted.wait_while(turn)
        nursery.cancel_scope.cancel()
    return found[0]


async def first(listening: TcpListening) -> Transport:
    while (accepted := await listening.accept()) is None:
        pass
    return cast("Transport", accepted)
