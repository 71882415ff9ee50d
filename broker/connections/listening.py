"""The interface between a server and its listeners, which is injected: TCP in production, memory in simulations."""

from collections.abc import Callable
from typing import Protocol

from minikafka.broker.connections.transport import Transport
from minikafka.broker.settings.listeners import Listener

__all__ = ["Listen", "Listening"]


class Listening(Protocol):
    """A bound listener, which accepts clients.

    Attributes:
        address: The host and the port to which the listener is bound.
    """

    address: tuple[str, int]

    async def accept(self) -> Transport | None:
        """Wait for a client; returns None if there is no client after all, for example because it has disconnected.

        If the next call would fail likewise, it pauses before it returns None. Cancellation leaves the listener usable.

        Raises:
            OSError: The listener is unusable.
        """
        ...

    async def run(self) -> None:
        """Watch the sockets of accepted clients, until cancelled. While it does not run, no request is received."""
        ...

    def close(self) -> None:
        """Refuse clients from now on, and free the port. No task may be in `accept` or `run`; no client is open."""
        ...


Listen = Callable[[Listener], Listening]
"""Binds a listener; port 0 takes a free port. Raises OSError, whose text names the address."""
