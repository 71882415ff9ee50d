"""`Seams`: a client's clock, randomness and network in one object, which tests and simulations replace.

In this package only this file, `trio_socket.py` and `asyncio_socket.py` use a clock, a source of randomness or a
socket.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import sniffio

from minikafka.client.connections.stream import OpenStream, Receiver, Stream
from minikafka.client.security.connection_security import PLAINTEXT, ConnectionSecurity

_PORT_MAX = (1 << 16) - 1


def wall_clock_ms() -> int:
    """The current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


async def open_stream(host: str, port: int, receiver: Receiver, task_group: Any) -> Stream:
    """Connect with the socket implementation for the running event loop. Raises OSError.

    OSError is also raised for invalid ports, which a broker may name: systems would use port n for port 65536 + n.
    """
    if not 0 < port <= _PORT_MAX:
        raise OSError(f"no port has that number: must be 1 to {_PORT_MAX}")
    try:
        if sniffio.current_async_library() == "trio":
            from minikafka.client.connections import trio_socket

            return await trio_socket.open_stream(host, port, receiver, task_group)
        from minikafka.client.connections import asyncio_socket

        return await asyncio_socket.open_stream(host, port, receiver)
    except ValueError as error:
        raise OSError(f"no host has that name: {error}") from None


def event_loop_clock() -> Callable[[], float]:
    """`anyio.current_time` of the running event loop, which does not look for the loop again at each call."""
    if sniffio.current_async_library() == "trio":
        from minikafka.client.connections.trio_socket import running_clock
    else:
        from minikafka.client.connections.asyncio_socket import running_clock
    return running_clock()


class Home:
    """The task in which a client is opened, and its event loop, in its thread and process.

    Attributes:
        is_trio: whether the event loop is trio's.
        on_fork: called in a forked child process, so that the client disables calls there that do not use `check`.
    """

    def __init__(self) -> None:
        self.on_fork: Callable[[], None] = lambda: None
        _homes.add(self)
        self.is_trio = sniffio.current_async_library() == "trio"
        if self.is_trio:
            from minikafka.client.connections.trio_socket import current_task, running_loop
        else:
            from minikafka.client.connections.asyncio_socket import current_task, running_loop
        self._running_loop, self._current_task = running_loop, current_task
        self._task = current_task()
        self._loop, self._process = running_loop(), os.getpid()

    def is_same_task(self) -> bool:
        """Whether the running task is the one in which the client was opened."""
        return self._current_task() is self._task

    def check(self) -> None:
        """Raise RuntimeError in another event loop, thread or process, where a call would wait for ever."""
        if self._running_loop() is not self._loop or os.getpid() != self._process:
            raise RuntimeError(
                "this client was opened in another event loop, thread or process, where its tasks are: use it there,"
                " or open another client here"
            )


_homes: weakref.WeakSet[Home] = weakref.WeakSet()


def _tell_homes() -> None:
    for one in list(_homes):
        one.on_fork()


os.register_at_fork(after_in_child=_tell_homes)


def reason_of(error: BaseException) -> str:
    """The operating system's error text for a failed connection, "" if there is none.

    asyncio's text repeats the address, which messages already have; trio's text has only the address, and the reason
    is in its cause.
    """
    causes = [error]
    for one in causes:
        if isinstance(one, OSError) and one.errno is not None:
            return os.strerror(one.errno) if one.errno > 0 else str(one.strerror)
        causes += one.exceptions if isinstance(one, BaseExceptionGroup) else filter(None, [one.__cause__])
    return str(error)


@dataclass(frozen=True)
class Seams:
    """Clock, randomness and network.

    Attributes:
        now_ms: the wall clock, for record timestamps.
        random: for backoff jitter and sticky partitions.
        random_bytes: that nobody can guess, for SASL.
        open_stream: opens a connection.
        security: what the connections of a node to other nodes need; a client has its options for that.
    """

    now_ms: Callable[[], int] = wall_clock_ms
    random: Random = field(default_factory=Random)
    random_bytes: Callable[[int], bytes] = os.urandom
    open_stream: OpenStream = open_stream
    security: ConnectionSecurity = field(default_factory=lambda: PLAINTEXT)
