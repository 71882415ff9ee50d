"""`last_call`: the call of a `Listener` when a consumer's block is left, which no limit of ours ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from minikafka.client.connections.waits import Awaited, Waits
from minikafka.client.escaped_log import escaped

_logger = escaped(logging.getLogger("minikafka.client.consumer"))
_WHAT, _WHY = "leaving the group", "the listener has not returned"


@contextmanager
def last_call(limit: anyio.CancelScope | None, waits: Waits, *, unlimited: bool) -> Iterator[None]:
    """The block calls a listener within `limit`, the scope of leaving, which has the time after it that it had left.

    If `unlimited`, the call takes as long as it needs, and cancellation from outside reaches it; else the limit ends
    it, which is logged: who has left by cancellation waits for it in vain.
    """
    began = anyio.current_time()
    deadline = float("inf") if limit is None else limit.deadline
    if limit is not None and unlimited:
        limit.deadline, limit.shield = float("inf"), False
    try:
        with waits.during(lambda: Awaited(_WHAT, _WHY, began)):
            yield
    finally:
        if limit is not None and unlimited:
            limit.deadline, limit.shield = anyio.current_time() + deadline - began, True
        elif limit is not None and limit.cancel_called:
            taken_s = anyio.current_time() - began
            _logger.warning("listener was cancelled, as the block was left by cancellation: after %.0f s", taken_s)
