"""The interfaces between a connection and its socket: `Stream` sends bytes, `Receiver` handles received frames."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from minikafka.client.security.tls_errors import expects_tls
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.frame import TlsAlert
from minikafka.protocol.message import MalformedMessage


class Stream(Protocol):
    """The sending side of an open connection; implemented for asyncio and for trio.

    Attributes:
        is_full: whether the socket does not accept more bytes for now, or has ended. Written bytes wait in memory
            meanwhile, however many; the receiver's `on_sent` is called when they have left, and not after the end.
    """

    @property
    def is_full(self) -> bool: ...

    def write(self, data: bytes) -> None:
        """Send now, or as soon as the socket accepts the bytes. Never waits and never raises."""

    def close(self) -> None:
        """Close the connection. `on_lost` is called once, now or later."""


class Frames(Protocol):
    """Takes received bytes, as a `FrameReader` does, whose methods these are."""

    @property
    def target(self) -> memoryview | None: ...

    def feed(self, data: memoryview) -> list[bytearray]: ...

    def received(self, count: int) -> bytearray | None: ...


class Receiver(Protocol):
    """The receiving side: gets the frames of a stream.

    Attributes:
        address: of the broker, for error messages.
    """

    @property
    def address(self) -> str: ...

    @property
    def frames(self) -> Frames: ...

    def on_frame(self, frame: bytearray) -> None:
        """Handle a whole frame. Raises MalformedMessage if the connection must be closed."""

    def on_sent(self) -> None:
        """Handle that the stream is not full any more."""

    def on_lost(self, why: str | KafkaError) -> None:
        """Handle the end of the stream, whatever the reason. This is the last call of the receiver.

        Args:
            why: a text if another connection may work, else the error that all requests get.
        """


OpenStream = Callable[[str, int, Receiver, Any], Awaitable[Stream]]
"""`await open_stream(host, port, receiver, task_group) -> Stream`; raises OSError."""


def loss_by(error: MalformedMessage, address: str) -> str | KafkaError:
    """Why a stream ends whose data are malformed, for `on_lost`."""
    if isinstance(error, TlsAlert):
        return expects_tls(address)
    return f"malformed response: {error}"
