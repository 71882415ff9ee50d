"""`StuckLoop`: ends a process that was told to stop, but whose event loop is stuck in a step and cannot stop.

Without it a step that does not end would make SIGTERM wait for ever. The process ends uncleanly, as after `kill -9`:
acknowledged records are on disk or on other replicas, and the next start recovers the logs. A trio task shows that the
loop runs.
"""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import structlog
import trio

__all__ = ["GRACE_S", "StuckLoop"]

log = structlog.get_logger("minikafka")

GRACE_S = 8.0
"""Seconds, chosen since Docker kills a process ten seconds after SIGTERM, and Kubernetes after thirty."""
REPORT_S = 1.5
LINES_MAX = 12


class StuckLoop:
    """Watches the event loop of the main thread from the first signal on.

    Args:
        grace_s: The longest time in seconds that a step may last after the signal.
        finish_log: Waits until the log is written, for a short time at most.
        end: Ends the process at once.
    """

    def __init__(
        self,
        grace_s: float = GRACE_S,
        finish_log: Callable[[], object] = lambda: None,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._grace_s = grace_s
        self._finish_log = finish_log
        self._end = end
        self._seen_s = time.monotonic()
        self._watcher: threading.Thread | None = None
        self._over = threading.Event()

    @contextmanager
    def watching(self, *signals: signal.Signals) -> Iterator[None]:
        """Within this context, the given signals start the watch, and then run their former handlers.

        Must be called in the main thread.
        """
        handlers = {number: signal.getsignal(number) for number in signals}

        def on_signal(number: int, frame: FrameType | None) -> None:
            self._begin()
            handler = handlers[signal.Signals(number)]
            if callable(handler):
                handler(number, frame)

        for number in signals:
            signal.signal(number, on_signal)
        try:
            yield
        finally:
            self._over.set()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    async def run(self) -> None:
        """Record regularly that the loop runs, until cancelled."""
        while True:
            self._seen_s = time.monotonic()
            await trio.sleep(self._grace_s / 8)

    def _begin(self) -> None:
        if self._watcher is None:
            self._seen_s = time.monotonic()
            self._watcher = threading.Thread(target=self._watch, name="stuck loop", daemon=True)
            try:
                self._watcher.start()
            except RuntimeError:  # No thread can be started: the signal does what it does anyway, the next one tries.
                self._watcher = None

    def _watch(self) -> None:
        while not self._over.wait(self._grace_s / 8):
            if time.monotonic() - self._seen_s > self._grace_s:
                self._report_and_end()

    def _report_and_end(self) -> None:
        """Log the stack of the main thread, then end the process.

        Another thread writes the log, so that the process ends even if the log never accepts the line.
        """
        reporter = threading.Thread(target=self._report, name="stuck loop's report", daemon=True)
        try:
            reporter.start()
            reporter.join(REPORT_S)
        finally:
            self._end(1)

    def _report(self) -> None:
        log.critical("event loop stuck, node ends uncleanly", seconds=self._grace_s, stuck_in=_main_stack())
        self._finish_log()


def _main_stack() -> list[str]:
    """The stack of the main thread, innermost last."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    return [f"{one.filename}:{one.lineno} {one.name}" for one in traceback.extract_stack(frame)][-LINES_MAX:]
