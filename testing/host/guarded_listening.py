"""`GuardedListening`: the listener of a node for tests, which can refuse all connections."""

from __future__ import annotations

from collections.abc import Callable

from minikafka.broker.connections.listening import Listening
from minikafka.broker.connections.transport import Transport

__all__ = ["GuardedListening"]


class GuardedListening:
    """Accepts connections, and closes them at once while `refuses` returns true. Implements `Listening`."""

    def __init__(self, inner: Listening, refuses: Callable[[], bool]) -> None:
        self._inner = inner
        self._refuses = refuses
        self.address = inner.address
        self.run = inner.run
        self.close = inner.close

    async def accept(self) -> Transport | None:
        """The next connection; None for one that is refused, or has ended already."""
        accepted = await self._inner.accept()
        if accepted is not None and self._refuses():
            accepted.close()
            return None
        return accepted
