"""What clients take from the outside world, in one object that tests and simulations replace.

This file and the shells (`trio_socket.py`, `asyncio_socket.py`) are the only ones here that touch a clock, a source of
randomness or a socket.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

import sniffio

from minikafka.protocol.frame import FrameReader


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Stream(Protocol):
    """One open connection's bytes, as a shell gives them."""

    def write(self, data: bytes) -> None:
        """Send, now or as soon as the socket takes it; never waits, never raises."""

    def close(self) -> None:
        """Hang up. `on_lost` is called once, now or later."""


class Receiver(Protocol):
    """Whoever listens to a stream."""

    frames: FrameReader

    def on_frame(self, frame: bytearray) -> None:
        """A whole frame came. Raises MalformedMessage where the connection cannot go on."""

    def on_lost(self, why: str) -> None:
        """The stream is gone, for whatever reason; nothing comes after this."""


OpenStream = Callable[[str, int, Receiver, Any], Any]
"""`await open_stream(host, port, receiver, task_group) -> Stream`; raises OSError."""


async def open_stream(host: str, port: int, receiver: Receiver, task_group: Any) -> Stream:
    """Connect by the shell of the running event loop."""
    if sniffio.current_async_library() == "trio":
        from minikafka.client.connections import trio_socket

        return await trio_socket.open_stream(host, port, receiver, task_group)
    from minikafka.client.connections import asyncio_socket

    return await asyncio_socket.open_stream(host, port, receiver)


@dataclass(frozen=True)
class Seams:
    """Clock, randomness and network.

    Attributes:
        now_ms: the wall clock, for the times of records.
        random: for jitter and for sticky partitions.
        open_stream: how connections are made.
    """

    now_ms: Callable[[], int] = wall_clock_ms
    random: Random = field(default_factory=Random)
    open_stream: OpenStream = open_stream
