"""`waiting`: logs a wait for the brokers after two seconds, and again every ten seconds, like the client.

The connector's calls block, each with its own time-out. A thread of the process measures how long waits take.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread, local

from minikafka.client.connections.waits import INTERVAL_S, PATIENCE_S
from minikafka.spark_connector.brokers.sockets import sleep

STEP_S = 0.5
"""The interval at which the thread checks all waits."""
IDLE_STEPS_MAX = 20
"""The number of steps without any wait after which the thread ends: most waits are short, and follow each other."""
_logger = logging.getLogger(__name__)
_threads = local()


@contextmanager
def waiting(what: str, why: Callable[[], str]) -> Iterator[None]:
    """A block that waits for `what`; `why()` returns the reason, and is called in another thread.

    A nested block is a part of the same wait: it is not logged on its own, but the reason is the innermost block's.
    """
    outer: _Wait | None = getattr(_threads, "wait", None)
    if outer is not None:
        outer.reasons.append(why)
        try:
            yield
        finally:
            outer.reasons.pop()
        return
    _threads.wait = wait = _Wait(what, why)
    _WATCH.begin(wait)
    try:
        yield
    finally:
        _threads.wait = None
        _WATCH.end(wait)


class _Wait:
    """A wait for `what`, because of the last of `reasons`."""

    def __init__(self, what: str, why: Callable[[], str]) -> None:
        self.reasons = [why]
        self._what = what
        self._waited_s = 0.0
        self._said_after_s = float(PATIENCE_S)

    def look(self) -> None:
        """Note that another step has passed, and log the wait if that is due."""
        if self._waited_s >= self._said_after_s:
            self._said_after_s = self._waited_s + INTERVAL_S
            _logger.warning("still waiting: %s: %s (%d s)", self._what, self.reasons[-1](), self._waited_s)
        self._waited_s += STEP_S


class _Watch:
    """Checks all waits of the process, in a thread that runs while there are waits."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Resets the state to no waits and no thread, as it is in a forked process."""
        _threads.wait = None
        self._lock = Lock()
        self._waits: dict[_Wait, None] = {}
        self._runs = False

    def begin(self, wait: _Wait) -> None:
        with self._lock:
            if not self._runs:
                Thread(target=self._run, name="minikafka waiting", daemon=True).start()
                self._runs = True
            self._waits[wait] = None

    def end(self, wait: _Wait) -> None:
        with self._lock:
            self._waits.pop(wait, None)

    def _run(self) -> None:
        idle_steps = 0
        while idle_steps < IDLE_STEPS_MAX:
            sleep(STEP_S)
            with self._lock:
                waits = list(self._waits)
                idle_steps = 0 if waits else idle_steps + 1
                self._runs = idle_steps < IDLE_STEPS_MAX
            for wait in waits:
                if wait in self._waits:
                    wait.look()


_WATCH = _Watch()
os.register_at_fork(after_in_child=_WATCH.forget)
