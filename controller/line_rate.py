"""`LineRate`: how many lines of the log about one kind of event are written, when strangers cause them.

A line costs up to a hundred microseconds, more than what it is about. So in each second only the first lines of each
subject, such as an address, and of all subjects are written; the number of the others follows in one line. Pure.
"""

from collections import Counter
from collections.abc import Callable

__all__ = ["LINES_MAX", "LineRate"]

LINES_MAX = 100
SECOND_MS = 1000


class LineRate:
    """Counts the lines of a second.

    Args:
        now_ms: The time in milliseconds.
        of_subject_max: The most lines of a subject in a second; of all subjects there are at most `LINES_MAX`.
    """

    def __init__(self, now_ms: Callable[[], float], of_subject_max: int = LINES_MAX) -> None:
        self._now_ms = now_ms
        self._of_subject_max = of_subject_max
        self._second = -1
        self._written: Counter[str] = Counter()
        self._left_out = 0

    def left_out(self) -> int:
        """Begin the present second; returns how many lines of the last one were not written, once."""
        second = int(self._now_ms() // SECOND_MS)
        if second == self._second:
            return 0
        left_out, self._left_out = self._left_out, 0
        self._second = second
        self._written.clear()
        return left_out

    def admits(self, subject: str = "") -> bool:
        """Count a line about a subject; returns whether it is to be written."""
        if self._written.total() < LINES_MAX and self._written[subject] < self._of_subject_max:
            self._written[subject] += 1
            return True
        self._left_out += 1
        return False
