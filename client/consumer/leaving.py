"""`Leaving`: refuses a choice of topics or partitions while an `unsubscribe` waits, since its end would drop it."""

from __future__ import annotations

from typing import Any


class Leaving:
    """A block for each `unsubscribe` of a consumer; a listener's callback may begin another one within."""

    def __init__(self) -> None:
        self._calls = 0

    def __enter__(self) -> None:
        self._calls += 1

    def __exit__(self, *exception: Any) -> None:
        self._calls -= 1

    def check(self, what: str) -> None:
        """Raise RuntimeError within a block; `what` is the call that is refused."""
        if self._calls:
            raise RuntimeError(f"{what} was called before unsubscribe() had ended: await that first")
