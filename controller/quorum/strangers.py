"""`Strangers` bounds the connections to the controller listener whose node has not logged in or shaken hands yet.

Once all places are taken, each further connection takes the place of another one:

- If an address has many, one of the address that has the most: a crowd at one address harms only the others there.
- Of these the oldest on which nothing has arrived for 50 ms, at once.
- If there is none, the one whose last step is the oldest. Steps are the first bytes of TLS and of the protocol, and
  each message of a login and its answer. They are few, so that nobody stays by sending slowly. Such places are taken at
  a bounded rate: each connection has a while for its next step, and handshakes of strangers leave time for other work.

Connections beyond the places wait in the backlog of the listener, where they use no descriptors. A node that waits
longer there than its request may take (3 s by default) begins anew. Data that has arrived is read before a connection
has to make room: a controller that was stalled finds many connections of nodes waiting, with requests that nodes depend
on. Trio: a listener, cancel scopes.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum, auto
from heapq import nsmallest

import trio

from minikafka.controller.quorum.peer_network import peer_host

__all__ = ["STRANGERS_MIN", "Stranger", "Strangers"]

STRANGERS_MIN = 24
"""The places of a node that can open few files."""
SILENT_S = 0.05
"""The time after which a connection without data counts as silent, and may be closed to make room for another one."""
PAUSE_S = 0.003
"""Before a connection that has sent something is closed to make room for another one. Behind a thousand connections a
node gets in after 2.5 s: it gives up after the time of a request, 3 s by default."""
PART, CROWD_MIN = 16, 4
"""An address with more than a sixteenth of the places, and more than so many, has many. At most a sixteenth is taken at
a time."""


class Kind(IntEnum):
    """How willingly a place is taken from a connection."""

    SILENT = auto()
    WAITED_FOR = auto()
    """It has sent something."""
    NEW = auto()
    """Its place is not taken, since what it sends may not have arrived yet."""


class Stranger:
    """A connection whose node is not known yet.

    Args:
        host: the address of the other end.
        scope: cancelled to close the connection.
    """

    def __init__(self, host: str, scope: trio.CancelScope) -> None:
        self.host = host
        self.scope = scope
        self._since = trio.current_time()
        self._is_silent = True

    def step(self) -> None:
        """Note that the connection has sent or got the next message that it was expected to."""
        self._since, self._is_silent = trio.current_time(), False

    def rank(self, now: float) -> tuple[Kind, float]:
        """The lower, the sooner its place is given to another one."""
        if not self._is_silent:
            return Kind.WAITED_FOR, self._since
        return Kind.SILENT if now >= self._since + SILENT_S else Kind.NEW, self._since


class Strangers:
    """The connections of all listeners of a node on which no login and no handshake is done yet ("strangers").

    Args:
        places: returns how many there may be.
    """

    def __init__(self, places: Callable[[], int]) -> None:
        self._places = places
        self._present: dict[Stranger, None] = {}

    def admitting(self, listener: trio.abc.Listener[trio.abc.Stream]) -> trio.abc.Listener[trio.abc.Stream]:
        """Wrap a listener, so that it accepts a connection only when there is room for a stranger."""
        return _Admitting(listener, self)

    @contextmanager
    def one(self, stream: trio.abc.Stream) -> Iterator[Stranger]:
        """Count a connection as a stranger while the block runs, or until `leave`. The block is cancelled if the
        connection has to make room."""
        with trio.CancelScope() as scope:
            stranger = Stranger(peer_host(stream), scope)
            self._present[stranger] = None
            try:
                yield stranger
            finally:
                self.leave(stranger)

    def leave(self, stranger: Stranger) -> None:
        """Count a connection no longer: its node is known."""
        self._present.pop(stranger, None)

    async def room(self) -> None:
        """Wait until there is a place for one more; connections that are to make room are cancelled."""
        while len(self._present) >= self._places():
            began, waited_for = trio.current_time(), self._first_to_go(1)[0][0]
            await trio.sleep(0 if waited_for is Kind.SILENT else PAUSE_S)
            await trio.lowlevel.checkpoint()  # Whose data arrived before has read it now.
            if len(self._present) < self._places():
                return
            pauses = int((trio.current_time() - began) / PAUSE_S)  # More than one on a busy machine.
            for kind, stranger in self._first_to_go(max(1, min(pauses, self._places() // PART))):
                if kind is not Kind.NEW and kind <= waited_for:
                    self.leave(stranger)
                    stranger.scope.cancel()

    def _first_to_go(self, count: int) -> list[tuple[Kind, Stranger]]:
        """Who are to make room, in this order."""
        now = trio.current_time()
        [(host, most)] = Counter(stranger.host for stranger in self._present).most_common(1)
        is_crowd = most > max(CROWD_MIN, self._places() // PART)
        eligible = (stranger for stranger in self._present if not is_crowd or stranger.host == host)
        first = nsmallest(count, eligible, key=lambda stranger: stranger.rank(now))
        return [(stranger.rank(now)[0], stranger) for stranger in first]


class _Admitting(trio.abc.Listener[trio.abc.Stream]):
    def __init__(self, listener: trio.abc.Listener[trio.abc.Stream], strangers: Strangers) -> None:
        self._listener = listener
        self._strangers = strangers

    async def accept(self) -> trio.abc.Stream:
        await self._strangers.room()
        return await self._listener.accept()

    async def aclose(self) -> None:
        await self._listener.aclose()
