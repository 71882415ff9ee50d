"""`Waits`: logs what a client waits for, once a wait has lasted two seconds, and again every ten seconds.

    with waits.during(lambda: Awaited("committing offsets", why(), began)):
        …

Every wait of a client for its cluster is entered here. A background task of the client checks all waits, and logs one
line about all long ones: an application may wait for one broker in a thousand tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import anyio

from minikafka.client.escaped_log import escaped

_logger = escaped(logging.getLogger("minikafka.client"))
PATIENCE_S = 2
"""A wait is logged once it has lasted for this long."""
INTERVAL_S = 10
"""The interval at which a wait is logged after that."""
_TICK_S = 0.5
_NAMED_MAX = 3
"""The maximum number of awaited things that one log line names."""


class Awaited(NamedTuple):
    """A wait: what is awaited ("committing offsets"), why it is late, and since when, on the event loop's clock."""

    what: str
    why: str
    since: float


Look = Callable[[], Awaited | None]
"""A function that returns the current wait, or None if there is none at present."""


class Waits:
    """The current waits of one client."""

    def __init__(self) -> None:
        self._told: dict[Look, float] = {}
        """When each wait was logged last, on the event loop's clock."""
        self._said_at = float("-inf")
        self._wake = anyio.Event()

    @contextmanager
    def during(self, look: Look) -> Iterator[None]:
        """A block that waits for what `look` returns."""
        self.begin(look)
        try:
            yield
        finally:
            self.end(look)

    def begin(self, look: Look) -> None:
        """Start to call `look` regularly; do nothing if that has begun already."""
        if look not in self._told:
            self._told[look] = float("-inf")
            self._wake.set()

    def end(self, look: Look) -> None:
        """Stop calling `look`."""
        self._told.pop(look, None)

    async def report(self) -> None:
        """Log long waits, until cancelled. The task sleeps while there are no waits."""
        while True:
            if not self._told:
                self._wake = anyio.Event()
                await self._wake.wait()
            is_waiting = self._report(anyio.current_time())
            # A wait that begins right now is found before it has lasted `PATIENCE_S`.
            await anyio.sleep(_TICK_S if is_waiting else PATIENCE_S - _TICK_S)

    def _report(self, now: float) -> bool:
        """Log the long waits if that is due; return whether there are any waits."""
        found = {look: awaited for look in list(self._told) if (awaited := look()) is not None}
        lasting = {look: one for look, one in found.items() if now - one.since >= PATIENCE_S and look in self._told}
        is_due = any(now - self._told[look] >= INTERVAL_S for look in lasting)
        if is_due and now - self._said_at >= PATIENCE_S:
            self._said_at = now
            self._told |= dict.fromkeys(lasting, now)
            why = "; ".join(essential(one.why for one in lasting.values()))
            seconds = int(now - min(one.since for one in lasting.values()))
            what = listed(one.what for one in lasting.values())
            _logger.warning("still waiting: %s: %s (%d s)", what, why, seconds)
        return bool(found)


def essential(reasons: Iterable[str]) -> list[str]:
    """The distinct reasons, without those that are part of another one."""
    distinct = list(dict.fromkeys(reasons))
    return [one for one in distinct if not any(one in other for other in distinct if other != one)]


def listed(names: Iterable[str]) -> str:
    """The first `_NAMED_MAX` distinct names, and how many more there are, as one text."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - _NAMED_MAX
    return ", ".join(distinct[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
