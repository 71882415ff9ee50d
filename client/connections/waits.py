"""`Waits`: what a client waits for. A wait that lasts for two seconds is logged, and again every ten seconds.

    with waits.during(lambda: Awaited("committing offsets", why(), began)):
        …

Every wait of a client for its cluster is entered here, whoever waits. A background task of the client looks at them all
and logs one line about all that have lasted: an application may wait in a thousand tasks for one broker.
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
"""How often it is logged after that."""
_TICK_S = 0.5
_NAMED_MAX = 3
"""Of the things that are waited for; a line of the log names no more."""


class Awaited(NamedTuple):
    """What is waited for ("committing offsets"), why it has not come, and since when, on the event loop's clock."""

    what: str
    why: str
    since: float


Look = Callable[[], Awaited | None]
"""What is waited for now; None: nothing, at present."""


class Waits:
    """The waits of one client."""

    def __init__(self) -> None:
        self._told: dict[Look, float] = {}
        """When each was logged last, on the event loop's clock."""
        self._said_at = float("-inf")
        self._wake = anyio.Event()

    @contextmanager
    def during(self, look: Look) -> Iterator[None]:
        """The block waits for what `look` returns."""
        self.begin(look)
        try:
            yield
        finally:
            self.end(look)

    def begin(self, look: Look) -> None:
        """Ask `look` from now on; nothing if it is asked already."""
        if look not in self._told:
            self._told[look] = float("-inf")
            self._wake.set()

    def end(self, look: Look) -> None:
        """Ask `look` no longer."""
        self._told.pop(look, None)

    async def report(self) -> None:
        """Log the waits that last, until cancelled. It sleeps while there are none."""
        while True:
            if not self._told:
                self._wake = anyio.Event()
                await self._wake.wait()
            is_waiting = self._report(anyio.current_time())
            # Also a wait that begins right now is found before it has lasted for `PATIENCE_S`.
            await anyio.sleep(_TICK_S if is_waiting else PATIENCE_S - _TICK_S)

    def _report(self, now: float) -> bool:
        """Whether anything is waited for at present."""
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
    """The first few distinct ones, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - _NAMED_MAX
    return ", ".join(distinct[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
