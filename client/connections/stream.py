"""The interfaces between a connection and its socket: `Stream` sends bytes, `Receiver` handles received frames."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from minikafka.protocol.frame import FrameReader


class Stream(Protocol):
    """The sending side of an open connection; implemented for asyncio and for trio.

    Attributes:
        is_full: whether the socket does not accept more bytes for now. Written bytes wait in memory meanwhile, however
            many; the receiver's `on_sent` is called when they have left.
    """

    @property
    def is_full(self) -> bool: ...

    def write(self, data: bytes) -> None:
        """Send now, or as soon as the socket accepts the bytes. Never waits and never raises."""

    def close(self) -> None:
        """Close the connection. `on_lost` is called once, now or later."""


class Receiver(Protocol):
    """The receiving side: gets the frames of a stream."""

    frames: FrameReader

    def on_frame(self, frame: bytearray) -> None:
        """Handle a whole frame. Raises MalformedMessage if the connection must be closed."""

    def on_sent(self) -> None:
        """Handle that the stream is not full any more."""

    def on_lost(self, why: str) -> None:
        """Handle the end of the stream, whatever the reason. This is the last call of the receiver."""


OpenStream = Callable[[str, int, Receiver, Any], Awaitable[Stream]]
"""`await open_stream(host, port, receiver, task_group) -> Stream`; raises OSError."""
