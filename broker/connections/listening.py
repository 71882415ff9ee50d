"""The interface between a server and its listeners, which is injected: TCP in production, memory in simulations."""

from collections.abc import Callable
from typing import Protocol

from minikafka.broker.connections.transport import Transport
from minikafka.broker.settings.listeners import Listener

__all__ = ["Listen", "Listening"]


class Listening(Protocol):
    """A bound listener.

    Attributes:
        address: The host and the port that it is bound to.
    """

    address: tuple[str, int]

    async def accept(self) -> Transport | None:
        """Wait for a client; None where there is none after all, for example because it has disconnected.

        It pauses before None where the next call would fail likewise. Cancellation leaves the listener usable.

        Raises:
            OSError: The listener is unusable.
        """
        ...

    async def run(self) -> None:
        """Watch the sockets of the clients that were accepted, until cancelled; without it none is heard."""
        ...

    def close(self) -> None:
        """Refuse clients from now on, and free the port. No task may be in `accept` or `run`; no client is open."""
        ...


Listen = Callable[[Listener], Listening]
"""Binds a listener; port 0 takes a free port. Raises OSError, whose text names the address."""
