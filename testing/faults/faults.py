"""`Faults`: the faults in force in a cluster for tests, by id."""

from __future__ import annotations

import itertools
import threading

from minikafka.testing.faults.fault import Action, Fault, Limits, Selection

__all__ = ["Faults"]


class Faults:
    """All faults of a cluster, until a reset. Several threads use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._faults: dict[int, Fault] = {}

    def add(self, selection: Selection, action: Action, limits: Limits) -> Fault:
        """Put a fault into force."""
        with self._lock:
            fault = Fault(next(self._numbers), selection, action, limits)
            self._faults[fault.fault_id] = fault
        return fault

    @property
    def is_any(self) -> bool:
        """Whether a fault was made since the last `clear`."""
        with self._lock:
            return bool(self._faults)

    def get(self, fault_id: int) -> Fault:
        """Return a fault, also if it is over. Raises LookupError."""
        with self._lock:
            if fault_id not in self._faults:
                raise LookupError(f"there is no fault {fault_id}: it was never made, or a reset has removed it")
            return self._faults[fault_id]

    def in_force(self) -> list[Fault]:
        """The faults that may hit requests, oldest first."""
        with self._lock:
            return [fault for fault in self._faults.values() if not fault.is_over]

    def clear(self) -> None:
        """Remove all faults, and forget them."""
        with self._lock:
            faults, self._faults = list(self._faults.values()), {}
            self._numbers = itertools.count(1)
        for fault in faults:
            fault.remove()
