"""`Strangers` bounds the connections to the controller listener on which no handshake or request has arrived yet.

A node sends its handshake at once, and a tool its first request. Data that has arrived is read before a connection
counts as silent: a controller that was stalled finds many connections of nodes waiting, with requests that nodes depend
on. Further connections wait in the backlog of the listener, where they use no descriptors. Trio: a listener, cancel
scopes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

__all__ = ["STRANGERS_MAX", "Strangers"]

STRANGERS_MAX = 24
SILENT_S = 0.05
"""The time after which a connection without data counts as silent, and may be closed to make room for another one."""


class Strangers:
    """The connections of all listeners of a node on which no handshake or request has arrived yet ("strangers")."""

    def __init__(self) -> None:
        self._since: dict[trio.CancelScope, float] = {}

    def admitting(self, listener: trio.abc.Listener[trio.abc.Stream]) -> trio.abc.Listener[trio.abc.Stream]:
        """Wrap a listener, so that it accepts a connection only when there is room for a stranger."""
        return _Admitting(listener, self)

    @contextmanager
    def one(self) -> Iterator[trio.CancelScope]:
        """Count a connection as a stranger while the block runs. The block is cancelled if the connection is silent and
        there are too many strangers."""
        with trio.CancelScope() as scope:
            self._since[scope] = trio.current_time()
            try:
                yield scope
            finally:
                self._since.pop(scope, None)

    async def room(self) -> None:
        """Wait until there are fewer than `STRANGERS_MAX` strangers; the oldest is cancelled once it is silent."""
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
