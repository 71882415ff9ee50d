"""The backoff between a client's retries and reconnections: exponential, with jitter (KIP-580).

The broker's replica fetchers use it as well, for their connections to leaders.
"""

from __future__ import annotations

from random import Random

_JITTER = 0.2
_DOUBLINGS_MAX = 20


class Backoff:
    """Pauses that double from `initial_ms` up to `max_ms`, with 20 % jitter."""

    def __init__(self, initial_ms: float, max_ms: float, random: Random) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max(initial_ms, max_ms)
        self._random = random

    def delay_ms(self, failures: int) -> float:
        """The pause after this many consecutive failures."""
        doubled = self._initial_ms * 2 ** min(failures, _DOUBLINGS_MAX)
        return min(doubled, self._max_ms) * self._random.uniform(1 - _JITTER, 1 + _JITTER)
