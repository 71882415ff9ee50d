"""`WithoutLogin`: tells a client without a login, at its first request, that the listener expects one.

A listener of protocol SASL_PLAINTEXT or SASL_SSL answers ApiVersions, and closes the connection at any other request
before a login, without an answer. A broker that stops does the same. So the listener is asked, on another connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import anyio

from minikafka.client.connections.stream import Frames
from minikafka.protocol.errors import KafkaError

ASKED_S_MAX = 2.0
"""How long the listener has to answer. A failed login is answered after 100 ms by default."""


class Watched(Protocol):
    """The part of a connection that `WithoutLogin` uses."""

    address: str
    closed: str

    @property
    def frames(self) -> Frames: ...

    @property
    def responses(self) -> int: ...

    @property
    def in_flight(self) -> int: ...

    def on_frame(self, frame: bytearray) -> None: ...

    def on_sent(self) -> None: ...

    def on_lost(self, why: str | KafkaError) -> None: ...


class WithoutLogin:
    """The `Receiver` of a connection without a login; passes everything on to the connection.

    Args:
        connection: of a client without a login.
        ask: returns the error if the listener expects a login, else None. Raises KafkaError, OSError.
        start_soon: starts a background task.
    """

    def __init__(
        self,
        connection: Watched,
        ask: Callable[[], Awaitable[KafkaError | None]],
        start_soon: Callable[[Callable[[], Awaitable[None]]], Any],
    ) -> None:
        self.on_frame, self.on_sent = connection.on_frame, connection.on_sent
        self.address = connection.address
        self._connection = connection
        self._ask = ask
        self._start_soon = start_soon
        self._responses_before: int | None = None

    @property
    def frames(self) -> Frames:
        return self._connection.frames

    def negotiated(self) -> None:
        """Note that the connection is open: its next request is the first that the listener may refuse."""
        self._responses_before = self._connection.responses

    def on_lost(self, why: str | KafkaError) -> None:
        connection = self._connection
        is_first = connection.responses == self._responses_before and connection.in_flight > 0
        if is_first and isinstance(why, str) and not connection.closed:
            self._start_soon(partial(self._lose, why))
        else:
            connection.on_lost(why)

    async def _lose(self, why: str) -> None:
        error: KafkaError | None = None
        try:
            with anyio.move_on_after(ASKED_S_MAX):
                error = await self._ask()
        except (KafkaError, OSError):
            pass
        finally:
            self._connection.on_lost(error or why)
