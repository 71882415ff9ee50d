"""`last_call`: calls a `Listener` when a consumer's block is left, without the time limit of leaving."""

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
    """A block that calls a listener within `limit`, the cancel scope of leaving the group.

    With `unlimited`, the call may take any time, and cancellation from outside reaches it; afterwards `limit` has the
    time that remained before. Otherwise `limit` cancels a long call, which is logged: the consumer's block was itself
    left by cancellation, and must not wait for the listener.
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
