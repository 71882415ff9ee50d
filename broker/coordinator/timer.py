"""`Timer`: fires the deadlines of a shard one by one, in a trio task of its own.

Most deadlines lead to one decision. A deadline that concerns very many groups or transactions leads to a generator of
decisions. A task of its own carries out the generator, so that other deadlines do not wait for its end, and other
operations run between two of its decisions.
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
"""The delay before a deadline is tried again after a bug in its decision; the delay doubles each time."""
RETRIES_MAX = 1_000
"""The number of deadlines whose delays are kept. Beyond it the oldest entry is dropped: the next failure of that
deadline has the shortest delay again, and is logged with its trace."""


class TimedState(Protocol):
    """The operations of a shard's state that the timer needs. `runtime.CoordinatorState` has all operations."""

    @property
    def deadlines(self) -> Deadlines[Any]:
        """The deadlines of the state, by name, in milliseconds of the steady clock."""
        ...

    def expire(self, name: Any, now: Now) -> Decision | Generator[Decision, None, None]:
        """Decide the consequences of a deadline that has passed and was removed.

        Returns:
            One decision, or a generator of decisions. Other operations may run between two decisions of a generator.
            If the append of a decision fails, the generator is closed and its other decisions are not made.
        """
        ...


class Timer:
    """Fires the deadlines of one shard.

    Args:
        state: The state of the shard.
        execute: Carries out a decision; returns whether its records were appended.
        now: Returns the current time on both clocks.
        partition: The name of the shard's partition, for log events.
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
        """By name of a deadline, the last delay before it was tried again, in milliseconds."""

    def wake(self) -> None:
        """Take notice of a changed deadline. Called after each decision, which may have set an earlier deadline."""
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
        """Carry out several decisions, until an append fails. Other operations run between two decisions."""
        with closing(decisions):
            for decision in decisions:
                if not self._execute(decision, self._now()):
                    break
                await trio.lowlevel.checkpoint()
        self.wake()

    @contextmanager
    def _retried(self, name: Any) -> Iterator[None]:
        """Set the deadline again if its decision raises an exception: otherwise its member would never expire."""
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
