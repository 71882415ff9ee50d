"""`waiting`: a wait for the brokers that lasts for two seconds is logged, and again every ten, as by the client.

The connector's calls block, each for a time-out of its own; a thread of the process looks how long all of it takes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, local

from minikafka.client.connections.waits import INTERVAL_S, PATIENCE_S

_logger = logging.getLogger(__name__)
_threads = local()


@contextmanager
def waiting(what: str, why: Callable[[], str]) -> Iterator[None]:
    """The block waits for `what`; `why()` is called in another thread.

    A block within it is a part of the same wait: it is not told on its own, but the reason is the innermost block's.
    """
    outer: list[Callable[[], str]] | None = getattr(_threads, "reasons", None)
    if outer is not None:
        outer.append(why)
        try:
            yield
        finally:
            outer.pop()
        return
    reasons, ended = [why], Event()
    arguments = what, lambda: reasons[-1](), ended
    Thread(target=_report, args=arguments, name="minikafka waiting", daemon=True).start()
    _threads.reasons = reasons
    try:
        yield
    finally:
        _threads.reasons = None
        ended.set()


def _report(what: str, why: Callable[[], str], ended: Event) -> None:
    waited_s, pause_s = 0.0, float(PATIENCE_S)
    while not ended.wait(pause_s):
        waited_s += pause_s
        pause_s = INTERVAL_S
        _logger.warning("still waiting: %s: %s (%d s)", what, why(), waited_s)
