"""`ThreadedRun`: client programs of one run, each a thread that begins again when the cluster has ended it."""

from __future__ import annotations

import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

from support.logins import Login

from chaos.history import Action, Outcome, Recorder
from minikafka.protocol.names import TopicPartition

TIMEOUT_S = 20
END_MAX_S = 120
"""How long the programs have to end together; each call has TIMEOUT_S."""
Program = Callable[[str, str, Random], None]


class ThreadedRun:
    """The threads of one run. All write to, or read, one topic with a fixed number of partitions.

    Attributes:
        CLIENT: How the names of its processes begin.
        ENDS_A_LIFE: Errors of the cluster; all others are failures of the run.
        MAY_HANG: Whether the library has calls that do not return although a timeout is given: such a program is left
            behind with a warning. Otherwise it is a failure of the run.
        done: How often each thing succeeded.
    """

    CLIENT = ""
    MAY_HANG = False
    ENDS_A_LIFE: tuple[type[BaseException], ...] = ()

    def __init__(self, login: Login, recorder: Recorder, seed: str, topic: str, partitions: int) -> None:
        self.login = login
        self.recorder = recorder
        self.seed = seed
        self.partitions = [TopicPartition(topic, index) for index in range(partitions)]
        self.done: dict[str, int] = {}
        self.stopping = threading.Event()
        self._failures: list[BaseException] = []

    def programs(self) -> Sequence[Program]:
        """The programs: methods that are called with a name, the name of a process, and chance."""
        raise NotImplementedError

    @contextmanager
    def running(self) -> Iterator[None]:
        """All programs, during a block. Raises what ended a program."""
        threads = [
            threading.Thread(target=self._live_on, args=(name, program), name=name, daemon=True)
            for number, program in enumerate(self.programs())
            for name in [f"{self.CLIENT}-{program.__name__}-{number}"]
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            ends_at = time.monotonic() + END_MAX_S
            for thread in threads:
                thread.join(max(0.0, ends_at - time.monotonic()))
        for thread in threads:
            if thread.is_alive():
                self._hangs(thread)
        if self._failures:
            raise self._failures[0]

    def _hangs(self, thread: threading.Thread) -> None:
        frame = sys._current_frames().get(thread.ident or 0)
        where = "".join(traceback.format_stack(frame)[-4:]) if frame else ""
        told = f"{thread.name} has not ended within {END_MAX_S} s:\n{where}"
        if not self.MAY_HANG:
            raise RuntimeError(told)
        warnings.warn(told, stacklevel=2)

    def note(self, process: str, action: Action) -> None:
        """Record an operation that has succeeded."""
        self.recorder.complete(self.recorder.invoke(process, action), Outcome.OK)

    def _live_on(self, name: str, program: Program) -> None:
        """A program that ends, or is ended by an error of the cluster, begins again, as another process."""
        life = 0
        while not self.stopping.is_set():
            life += 1
            try:
                program(name, f"{name}/{life}", Random(f"{self.seed}/{name}/{life}"))
            except self.ENDS_A_LIFE:
                self.stopping.wait(0.5)
            except BaseException as error:
                self._failures.append(error)
                raise
