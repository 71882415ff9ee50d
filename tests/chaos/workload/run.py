"""`Run`: all programs at work on a real cluster while faults are injected, and the history of it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Awaitable, Callable, Collection

import trio
from support.logins import Logins

from chaos.history import Action, Event, Outcome, Recorder
from chaos.workload.administration import create_topics
from chaos.workload.final_reading import final_reading
from chaos.workload.plan import Plan
from chaos.workload.process import ClientProcess
from chaos.workload.programs import members, programs
from minikafka.client.connections.seams import Seams

Faults = Callable[[], Awaitable[None]]


class ThreadsafeRecorder(Recorder):
    """A recorder for several threads: the order of the events is that of the calls."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self._lock = threading.Lock()

    def invoke(self, process: str, action: Action) -> Event:
        with self._lock:
            return super().invoke(process, action)

    def complete(self, invocation: Event, outcome: Outcome, action: Action | None = None, info: str = "") -> None:
        with self._lock:
            super().complete(invocation, outcome, action, info)


class Run:
    """Client processes of one run, each a task.

    Args:
        brokers: Their number.
        pace_s: The mean pause of a process between two operations.
    """

    def __init__(self, logins: Logins, brokers: int, seed: str, *, pace_s: float = 0.05) -> None:
        self.logins = logins
        self.plan = Plan.of(brokers)
        self.recorder = ThreadsafeRecorder(time.monotonic_ns)
        self.seed = seed
        self.pace_s = pace_s

    def process(self, name: str) -> ClientProcess:
        seams = Seams(random=random.Random(f"{self.seed}/{name}/client"))
        return ClientProcess(
            name,
            self.recorder,
            random.Random(f"{self.seed}/{name}"),
            seams,
            self.logins,
            self.plan,
            pace_s=self.pace_s,
        )

    async def run(self, faults: Faults, *, ended: Collection[str] = ()) -> list[Event]:
        """All programs during `faults`, then the final reading, while the groups' members go on. The history.

        Args:
            ended: Groups of other clients, which have ended with the faults.
        """
        await create_topics(self.process("creator/1"))
        in_groups = members(self.plan)
        async with trio.open_nursery() as staying:
            async with trio.open_nursery() as leaving:
                for name, program in programs(self.plan).items():
                    for number in (1, 2) if name in in_groups else (1,):
                        process = self.process(f"{name.replace(' ', '-')}-{number}/1")
                        (staying if name in in_groups else leaving).start_soon(program, process)
                await faults()
                leaving.cancel_scope.cancel()
            await final_reading(self.process("final/1"), groups=list(self.plan.groups), ended=ended)
            staying.cancel_scope.cancel()
        return self.recorder.events
