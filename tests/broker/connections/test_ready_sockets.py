"""One task for many sockets: turns, the end of waiting, and fairness towards other tasks."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from minikafka.broker.connections.ready_sockets import TURN_S, ReadySockets, Turn
from minikafka.protocol.frame import FrameReader

from .test_connection import ECHO, connected_by_epoll, framed

TIMEOUT_S = 30


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_a_turn_is_called_for_each_arrival_until_it_returns_false(pair: tuple[socket.socket, socket.socket]) -> None:
    async def main() -> None:
        ours, theirs = pair
        ready, received = ReadySockets(), b""

        def turn() -> bool:
            nonlocal received
            received += theirs.recv(10)
            return received != b"abc"

        with trio.fail_after(TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ready.run)
                nursery.start_soon(ready.wait_while, theirs.fileno(), turn)
                for piece in (b"a", b"b", b"c"):
                    ours.send(piece)
                    while not received.endswith(piece):
                        await trio.sleep(0)
                ours.send(b"d")
                await trio.testing.wait_all_tasks_blocked(0.01)
                assert received == b"abc", "nobody waits any more"
                await ready.wait_while(theirs.fileno(), turn_that_ends(theirs, b"d"))
                nursery.cancel_scope.cancel()

    trio.run(main)


def turn_that_ends(theirs: socket.socket, expected: bytes) -> Turn:
    def turn() -> bool:
        assert theirs.recv(10) == expected
        return False

    return turn


def test_a_wait_ends_by_resume_and_by_cancellation(pair: tuple[socket.socket, socket.socket]) -> None:
    async def main() -> None:
        _, theirs = pair
        ready = ReadySockets()
        ready.resume(theirs.fileno())  # nobody waits
        with trio.fail_after(TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ready.wait_while, theirs.fileno(), lambda: True)
                await trio.testing.wait_all_tasks_blocked()
                ready.resume(theirs.fileno())
            with trio.move_on_after(0):
                await ready.wait_while(theirs.fileno(), lambda: True)
            ready.forget(theirs.fileno())
            ready.forget(theirs.fileno())

    trio.run(main)


def test_the_number_of_a_closed_socket_may_be_used_again() -> None:
    async def main() -> None:
        ready = ReadySockets()
        with trio.fail_after(TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ready.run)
                numbers: set[int] = set()
                for _ in range(3):
                    ours, theirs = socket.socketpair()
                    numbers.add(theirs.fileno())
                    ours.send(b"x")
                    await ready.wait_while(theirs.fileno(), turn_that_ends(theirs, b"x"))
                    ready.forget(theirs.fileno())
                    ours.close()
                    theirs.close()
                assert len(numbers) == 1
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_other_tasks_run_while_all_sockets_are_always_ready() -> None:
    """40 sockets with a client that never waits, each turn a quarter of the limit."""

    async def main() -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        ready, steps, turns = ReadySockets(clock.current_time), 0, 0
        pairs = [socket.socketpair() for _ in range(40)]

        def turn() -> bool:
            nonlocal turns
            turns += 1
            clock.jump(TURN_S / 4)
            return True

        async with trio.open_nursery() as nursery:
            for ours, theirs in pairs:
                ours.send(b"x")
                nursery.start_soon(ready.wait_while, theirs.fileno(), turn)
            nursery.start_soon(ready.run)
            while turns < 1000:
                before = turns
                await trio.sleep(0)
                steps += 1
                assert turns - before <= 12, "two turns of the loop"
            nursery.cancel_scope.cancel()
        for one in (end for pair in pairs for end in pair):
            one.close()

    trio.run(main, clock=trio.testing.MockClock())


def test_a_connection_whose_bytes_find_no_memory_is_closed_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `ulimit -v`."""

    def feed(reader: FrameReader, data: memoryview) -> list[bytearray]:
        raise MemoryError

    async def main() -> None:
        with trio.fail_after(TIMEOUT_S):
            async with connected_by_epoll() as (client, _, _):
                with monkeypatch.context() as patched:
                    patched.setattr(FrameReader, "feed", feed)
                    await client.send_all(framed(ECHO))
                    assert await client.receive_some() == b""

    trio.run(main)
