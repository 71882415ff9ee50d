"""`Timer`: fires the deadlines of a shard one by one, in a task of its own. Trio.

Between two decisions others run. A deadline has one decision, or, if it concerns very many groups or transactions, a
generator of them: it is carried out beside the timer, so that other deadlines do not wait for its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any, Protocol

import structlog
import trio

from minikafka.broker.coordinator.deadlines import Deadlines
from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.controller.failures import FAILURES

log = structlog.get_logger("minikafka.coordinator")

RETRY_MS_MIN, RETRY_MS_MAX = 1_000, 60_000
"""When a deadline is tried again whose decision met a bug; each time after twice as long."""
RETRIES_MAX = 1_000
"""Deadlines whose retries are counted. Of more the first ones begin anew, and are logged with their traces again."""


class TimedState(Protocol):
    """The state of a shard; see `runtime.CoordinatorState`."""

    @property
    def deadlines(self) -> Deadlines[Any]:
        """By name, on the steady clock."""
        ...

    def expire(self, name: Any, now: Now) -> Decision | Generator[Decision, None, None]:
        """Decide the consequences of a deadline that has passed, and was removed.

        Others may decide between two decisions of a generator. It ends early, and is closed, if one is refused.
        """
        ...


class Timer:
    """Fires the deadlines of one shard.

    Args:
        state: That of the shard.
        execute: Carries out a decision; returns whether its records were appended.
        now: Returns the time.
        partition: For the log.
    """

    def __init__(
        self, state: TimedState, execute: Callable[[Decision, Now], bool], now: Callable[[], Now], partition: str
    ) -> None:
        self._state = state
        self._execute = execute
        self._now = now
        self._partition = partition
        self._wakeup_ms: float = math.inf
        self._wakeup = trio.Event()
        self._retries: dict[Any, int] = {}
        """By name: after how long a deadline was tried again last time."""

    def wake(self) -> None:
        """Call it after a decision: a deadline may be earlier than all before."""
        deadline_ms = self._state.deadlines.next_ms()
        if deadline_ms is not None and deadline_ms < self._wakeup_ms:
            self._wakeup.set()

    async def run(self) -> None:
        """Fire deadlines until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._until_due()
                now = self._now()
                name = self._state.deadlines.pop(now.steady_ms)
                if name is None:
                    continue
                with self._retried(name):
                    decided = self._state.expire(name, now)
                    if isinstance(decided, Decision):
                        self._execute(decided, now)
                        self._retries.pop(name, None)
                    else:
                        nursery.start_soon(self._fire, name, decided)

    async def _until_due(self) -> None:
        deadline_ms = self._state.deadlines.next_ms()
        self._wakeup_ms = math.inf if deadline_ms is None else deadline_ms
        self._wakeup = trio.Event()
        with trio.move_on_at(self._wakeup_ms / 1000):
            await self._wakeup.wait()

    async def _fire(self, name: Any, decisions: Generator[Decision, None, None]) -> None:
        with self._retried(name):
            await self.carry_out(decisions)
            self._retries.pop(name, None)

    async def carry_out(self, decisions: Generator[Decision, None, None]) -> None:
        """Carry out several decisions, until one is refused; others decide in between."""
        with closing(decisions):
            for decision in decisions:
                if not self._execute(decision, self._now()):
                    break
                await trio.lowlevel.checkpoint()
        self.wake()

    @contextmanager
    def _retried(self, name: Any) -> Iterator[None]:
        """Set the deadline again if its decision meets a bug: its member would stay for ever otherwise."""
        try:
            yield
        except Exception:
            before_ms = self._retries.pop(name, 0)
            retry_ms = min(max(2 * before_ms, RETRY_MS_MIN), RETRY_MS_MAX)
            log.error(
                "deadline failed",
                partition=self._partition,
                deadline=str(name),
                retry_ms=retry_ms,
                exc_info=not before_ms,
            )
            FAILURES["deadline"] += 1
            if len(self._retries) >= RETRIES_MAX:
                del self._retries[next(iter(self._retries))]
            self._retries[name] = retry_ms
            self._state.deadlines.set(name, self._now().steady_ms + retry_ms)
            self.wake()
