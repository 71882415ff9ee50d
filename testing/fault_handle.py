"""`FaultHandle`: a fault of a cluster for tests, in the hands of the test that made it."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from minikafka.testing.control.http_client import Control

__all__ = ["FaultHandle"]

PART_S = 0.5


class FaultHandle:
    """A fault. As a context manager, it is removed at the end of the block.

    Attributes:
        fault_id: Its number, by which the control server knows it.
    """

    def __init__(self, control: Control, described: dict[str, Any]) -> None:
        self.fault_id: int = described["id"]
        self._control = control
        self._verb = str(described["verb"])
        of_state = ("id", "verb", "hits", "is_over")
        named = [f"{name}={value!r}" for name, value in described.items() if name not in of_state]
        self._text = f"{self._verb}({', '.join(named)})"

    @property
    def hits(self) -> int:
        """How many requests it has hit."""
        return int(self._control.get(f"/faults/{self.fault_id}")["hits"])

    def wait(self, n: int = 1, timeout: float = 10.0) -> Self:
        """Wait until it has hit `n` requests. Raises TimeoutError, which says how many it has hit."""
        deadline = time.monotonic() + timeout
        while True:
            part_s = min(max(deadline - time.monotonic(), 0), PART_S)  # other threads ask the cluster in between
            answer = self._control.post(f"/faults/{self.fault_id}/wait", hits=n, timeout=part_s)
            if answer["reached"]:
                return self
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{self._text} has hit {answer['hits']} requests after {timeout:g} s, not {n}")

    def remove(self) -> None:
        """End it. Requests that it holds are given up: their connections are closed."""
        self._control.delete(f"/faults/{self.fault_id}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<fault {self.fault_id}: {self._text}>"
