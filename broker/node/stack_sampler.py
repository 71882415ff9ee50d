"""`StackSampler`: a thread that samples the stack of the event loop while a step exceeds its budget.

It serves tests and the search for the cause of long steps: set `LONG_STEP_STACKS=1`. Without that variable a node has
no such thread, since the thread wakes two hundred times a second.
"""

import sys
import threading
from collections.abc import Callable
from types import FrameType

from minikafka.broker.node.step_watch import FRAMES_MAX, StepWatch, place

PERIOD_S = 0.005
EVENT_LOOP = "trio/_core/_run.py"


class StackSampler:
    """Samples the stack of the thread that creates the sampler, from a daemon thread.

    The daemon thread ends with the process or with `stop`.

    Args:
        watch: Tells when the step in progress began, and receives the sample.
        clock: The clock of the watch.
    """

    def __init__(self, watch: StepWatch, clock: Callable[[], float]) -> None:
        self._watch = watch
        self._clock = clock
        self._sampled_thread = threading.get_ident()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stack sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the sampling thread, and wait for its end."""
        self._stopped.set()
        self._thread.join()

    def sample(self) -> None:
        """Sample the stack of the step in progress, if the step exceeds the budget and has no sample yet."""
        began = self._watch.began
        if self._clock() - began > self._watch.budget_s and self._watch.sampled[0] != began:
            frame = sys._current_frames().get(self._sampled_thread)
            if self._watch.began == began:
                self._watch.sampled = began, _stack(frame)

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD_S):
            self.sample()


def _stack(frame: FrameType | None) -> tuple[str, ...]:
    places: list[str] = []
    while frame is not None and not frame.f_code.co_filename.endswith(EVENT_LOOP):
        places.append(place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(reversed(places[:FRAMES_MAX]))
