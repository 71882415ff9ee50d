"""`Strangers`: connections to the controller listener that have not said yet what they are. Few are open at a time.

A node sends its handshake at once, and a tool its first request. What has arrived is read before a connection counts
as silent: a controller that was stalled finds many connections of nodes waiting, with requests that nodes depend on.
Others wait in the backlog of the listener meanwhile, where they use no descriptors. Trio: a listener, cancel scopes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

__all__ = ["STRANGERS_MAX", "Strangers"]

STRANGERS_MAX = 24
SILENT_S = 0.05
"""After so long one is silent, and is closed for another one's sake."""


class Strangers:
    """Those of all listeners of a node."""

    def __init__(self) -> None:
        self._since: dict[trio.CancelScope, float] = {}

    def admitting(self, listener: trio.abc.Listener[trio.abc.Stream]) -> trio.abc.Listener[trio.abc.Stream]:
        """The same listener, which accepts a connection when there is room for a stranger."""
        return _Admitting(listener, self)

    @contextmanager
    def one(self) -> Iterator[trio.CancelScope]:
        """The time in which a connection is a stranger. It is cancelled if that is silent, and there are too many."""
        with trio.CancelScope() as scope:
            self._since[scope] = trio.current_time()
            try:
                yield scope
            finally:
                self._since.pop(scope, None)

    async def room(self) -> None:
        """Wait until there are fewer than STRANGERS_MAX; the oldest is cancelled as soon as it is silent."""
        while len(self._since) >= STRANGERS_MAX:
            oldest, since = next(iter(self._since.items()))
            left_s = since + SILENT_S - trio.current_time()
            if left_s > 0:
                await trio.sleep(left_s)
            else:
                del self._since[oldest]
                oldest.cancel()


class _Admitting(trio.abc.Listener[trio.abc.Stream]):
    def __init__(self, listener: trio.abc.Listener[trio.abc.Stream], strangers: Strangers) -> None:
        self._listener = listener
        self._strangers = strangers

    async def accept(self) -> trio.abc.Stream:
        await self._strangers.room()
        return await self._listener.accept()

    async def aclose(self) -> None:
        await self._listener.aclose()
