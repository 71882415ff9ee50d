"""`Clock`: the time of all nodes of a cluster for tests, which can be advanced, stopped and run faster.

Both times of a node follow it: the wall clock, by which records get their timestamps and are deleted, and trio's clock,
by which a node waits. Uses trio: it is a clock of its event loops.
"""

from __future__ import annotations

import math
import threading
import time

import trio

__all__ = ["Clock"]

SPEED_MAX = 1_000_000.0


class Clock(trio.abc.Clock):
    """A clock that several event loops in threads of one process share.

    After a change the loops have to be woken up, since each has computed for how long it sleeps.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started_ms = time.time_ns() // 1_000_000
        self._began_s = time.perf_counter()
        self._at = (self._began_s, 0.0, 1.0)
        """The real time of the last change, the time that this clock showed then, and its speed since."""

    def current_time(self) -> float:
        real_s, shown_s, speed = self._at
        return shown_s + (time.perf_counter() - real_s) * speed

    def now_ms(self) -> int:
        """The wall clock of the nodes, in milliseconds since 1970."""
        return self._started_ms + int(self.current_time() * 1000)

    def advance(self, seconds: float) -> None:
        """Move forward at once. Raises ValueError for a time that is not positive and finite."""
        if not (0 < seconds < math.inf):
            raise ValueError(f"the clock can only be advanced by a positive time, not by {seconds} s")
        self._change(seconds, None)

    def run(self, speed: float) -> None:
        """Run `speed` times as fast as the machine's clock; 0 stops the clock. Raises ValueError."""
        if not 0 <= speed <= SPEED_MAX:
            raise ValueError(f"the speed of the clock must be 0 to {SPEED_MAX:.0f}, not {speed}")
        self._change(0.0, speed)

    def reset(self) -> None:
        """Run as fast as the machine's clock, and show its time of day. Call it while no node runs.

        The time by which nodes wait goes on from where it is: it never goes back.
        """
        self._change(0.0, 1.0)
        self._started_ms = time.time_ns() // 1_000_000 - int(self.current_time() * 1000)

    def _change(self, seconds: float, speed: float | None) -> None:
        with self._lock:
            now = self.current_time()
            self._at = (time.perf_counter(), now + seconds, self._at[2] if speed is None else speed)

    def start_clock(self) -> None:
        """Nothing to do: the clock runs already, for the loops of other nodes."""

    def deadline_to_sleep_time(self, deadline: float) -> float:
        speed = self._at[2]
        left_s = deadline - self.current_time()
        if left_s <= 0:
            return 0.0
        return left_s / speed if speed else math.inf
