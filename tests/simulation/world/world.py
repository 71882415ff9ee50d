"""`World`: virtual time, the machines, and what is to happen when; it records a trace, whose hash names the run.

    world = World(seed=7)
    world.at(2.0, fault)                     at an absolute time, in seconds
    world.boot(machine, function, …)         machines start, and are stepped when they are due
    world.run_until(60.0)

The world takes the earliest entry of one heap: a call, or a step of a machine. A step takes a little virtual time, so
that machines run side by side and a task that never waits does not stop the clock.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from random import Random
from typing import Any

from simulation.world.machine import Machine, seed_scheduler

STEP_S_MIN, STEP_S_MAX = 20e-6, 200e-6
"""Virtual time that a step of a machine takes."""
ROUNDS_MAX = 6
"""Rounds of trio's loop in one step at most; how many there may be is random, so that anything can come in between."""
EVENTS_KEPT = 60
"""Trace lines kept for each machine."""
WATCHED_S = 5.0
STEPS_PER_S_MAX = 2000
"""Of a machine, on average of `WATCHED_S`: busy nodes take 400, a machine that never waits 9000."""


class TooManySteps(AssertionError):
    """A machine never waits, or nearly so: some task runs in a circle."""


class World:
    """See above.

    Args:
        seed: Decides everything that is random.
        steps_max: The most steps of machines; more are a livelock.

    Attributes:
        now: Virtual time in seconds.
        coverage: Counts what happened: faults, and notable events.
        recent: The last lines of the trace, by host.
        running: The machine that takes a step now.
        bugs: The tracebacks that were logged.
    """

    def __init__(self, seed: object, *, steps_max: int = 20_000_000) -> None:
        self.seed = seed
        self.now = 0.0
        self.machines: dict[str, Machine] = {}
        self.coverage: Counter[str] = Counter()
        self.recent: dict[str, deque[str]] = {}
        self.running: Machine | None = None
        self.steps = 0
        self.on_close: list[Callable[[], None]] = []
        self.bugs: list[str] = []
        self.listeners: list[Callable[[str], None]] = []
        """Called with each line of the trace."""
        self._steps_max = steps_max
        self._heap: list[tuple[float, int, Callable[..., object] | None, tuple[Any, ...]]] = []
        self._entries = 0
        self._digest = blake2b(digest_size=16)
        self._random = self.random("world")
        seed_scheduler(self.random("tasks"))
        self._watch({})

    def random(self, name: str) -> Random:
        """A source of randomness for one purpose, so that purposes do not disturb each other."""
        return Random(f"{self.seed}/{name}")

    # -- the trace -----------------------------------------------------------------------------------------------

    def trace(self, host: str, text: str) -> None:
        """Add a line to the trace."""
        line = f"{self.now:11.6f} {host}: {text}"
        self._digest.update(line.encode())
        self.recent.setdefault(host, deque(maxlen=EVENTS_KEPT)).append(line)
        for listener in self.listeners:
            listener(line)

    def note(self, data: bytes) -> None:
        """Add bytes to the trace's hash only."""
        self._digest.update(data)

    @property
    def trace_hash(self) -> str:
        return self._digest.hexdigest()

    # -- what is to happen ---------------------------------------------------------------------------------------

    def at(self, time: float, call: Callable[..., object], *arguments: object) -> None:
        """Call a function at a time; calls at the same time are made in the order in which they were asked for."""
        self._entries += 1
        heapq.heappush(self._heap, (max(time, self.now), self._entries, call, arguments))

    def after(self, delay_s: float, call: Callable[..., object], *arguments: object) -> None:
        """Call a function after a delay."""
        self.at(self.now + delay_s, call, *arguments)

    # -- machines ------------------------------------------------------------------------------------------------

    def boot(
        self, name: str, host: str, function: Callable[..., Awaitable[object]], *arguments: object
    ) -> Machine:
        """Start a process. Its name is that of no other process before."""
        assert name not in self.machines, name
        uptime_s = self.random(f"uptime of {name}").uniform(1, 1e6)
        machine = Machine(name, host, self, uptime_s=uptime_s, woken=self._wake)
        self.machines[name] = machine
        machine.boot(function, *arguments)
        self._schedule(machine, self.now)
        return machine

    def kill(self, machine: Machine) -> None:
        """Kill a process: at once, or after its step if it takes one now."""
        if machine is self.running:
            machine.doomed = True
        else:
            self._kill(machine)

    def _kill(self, machine: Machine) -> None:
        machine.kill()
        self.machines.pop(machine.name, None)

    def pause(self, machine: Machine, seconds: float) -> None:
        """Stop a process for a while, as SIGSTOP and SIGCONT do."""
        machine.paused_until = max(machine.paused_until, self.now + seconds)
        if not machine.ended:
            self._schedule(machine, max(machine.due, machine.paused_until))

    def resume(self, machine: Machine) -> None:
        """End a pause."""
        machine.paused_until = 0.0
        self._wake(machine)

    def _wake(self, machine: Machine) -> None:
        due = max(self.now, machine.busy_until, machine.paused_until)
        if machine is not self.running and machine.due > due:
            self._schedule(machine, due)

    def _schedule(self, machine: Machine, due: float) -> None:
        machine.due = due
        if due != float("inf"):
            self._entries += 1
            heapq.heappush(self._heap, (due, self._entries, None, (machine,)))

    def _watch(self, before: dict[str, tuple[int, dict[int, int]]]) -> None:
        """Find tasks that run in a circle. Raises TooManySteps, which names them."""
        for machine in self.machines.values():
            steps_before, turns_before = before.get(machine.name, (0, {}))
            steps = machine.steps - steps_before
            if steps > STEPS_PER_S_MAX * WATCHED_S:
                found = f"{steps} steps within {WATCHED_S:g} s at {self.now:.3f} s: {machine}"
                raise TooManySteps("; ".join([found, *machine.busiest(turns_before)]))
        now = {name: (machine.steps, machine.turns()) for name, machine in self.machines.items()}
        self.after(WATCHED_S, self._watch, now)

    def _step(self, machine: Machine) -> None:
        machine.steps += 1
        self.steps += 1
        if self.steps > self._steps_max:
            raise TooManySteps(f"{self.steps} steps at {self.now:.3f} s; the last one of {machine}")
        self.running = machine
        try:
            rounds = 1 + int(self._random.random() * ROUNDS_MAX)
            sleeps_s = machine.step(rounds)
        finally:
            self.running = None
        if machine.ended:
            self.machines.pop(machine.name, None)
        elif machine.doomed:
            self._kill(machine)
        else:
            busy_until = self.now + STEP_S_MIN + (STEP_S_MAX - STEP_S_MIN) * self._random.random()
            machine.busy_until = busy_until
            self._schedule(machine, max(busy_until, self.now + sleeps_s, machine.paused_until))

    # -- time ----------------------------------------------------------------------------------------------------

    def run_until(self, time: float, done: Callable[[], bool] | None = None) -> bool:
        """Run until a time, or until `done` (asked after each step); returns whether it is done."""
        heap = self._heap
        while heap and heap[0][0] <= time:
            due, _, call, arguments = heapq.heappop(heap)
            if call is None:
                machine = arguments[0]
                if machine.ended or machine.due != due:
                    continue  # it was rescheduled
                self.now = due
                self._step(machine)
            else:
                self.now = due
                call(*arguments)
            if done is not None and done():
                return True
        self.now = max(self.now, time)
        return done is not None and done()

    def close(self) -> None:
        """Kill what still runs, and undo what the world changed in its process."""
        for machine in list(self.machines.values()):
            machine.kill()
        self.machines.clear()
        while self.on_close:
            self.on_close.pop()()
