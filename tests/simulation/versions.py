"""`Versions`: a value that is changed one time after the other, and the least version that each broker has applied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Versions(Generic[T]):
    """A broker applies the versions in their order, and each after the change to it was asked for.

    Attributes:
        values: the first value, then each that a change was asked for.
        is_known: whether the last change has succeeded; otherwise it may come into force later, or never.
    """

    def __init__(self, first: T) -> None:
        self.values = [first]
        self.is_known = True
        self._applied = defaultdict[str, int](int)
        self._agreed = defaultdict[str, int](int)

    def change(self, value: T) -> None:
        """Note that a change is asked for now, perhaps once more. Nothing else may be while that is not known."""
        assert self.is_known or value == self.values[-1], "two changes at a time have no order"
        if self.is_known:
            self.values.append(value)
        self.is_known = False

    def observer(self, broker: str) -> Callable[[Callable[[T], bool], str], None]:
        """What notes an answer of a broker to a request that is sent now.

        It takes which values are consistent with the answer, and what was answered. It raises AssertionError if no
        version is that the broker may have.
        """
        least, count = self._applied[broker], len(self.values)

        def observed(fits: Callable[[T], bool], answer: str) -> None:
            possible = [version for version in range(least, len(self.values)) if fits(self.values[version])]
            assert possible, f"{broker} {answer}: from version {least} on, the values are {self.values[least:]}"
            self._applied[broker] = max(self._applied[broker], possible[0])
            if possible[-1] == len(self.values) - 1:
                self._agreed[broker] = max(self._agreed[broker], count)

        return observed

    def is_in_force(self, broker: str) -> bool:
        """Whether an answer of the broker since the last change was that of the last version, if that is known."""
        return not self.is_known or self._agreed[broker] == len(self.values)
