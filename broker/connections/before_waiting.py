"""`BeforeWaiting`: awaits a coroutine, and calls a function once, when the coroutine waits for the first time."""

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class BeforeWaiting(Generic[T]):
    """Awaits `coroutine`, and calls `call` when `coroutine` first waits; never if it completes without waiting.

    A checkpoint counts as waiting. The event loop runs no other task before `call`, which must neither wait nor raise.
    """

    __slots__ = ("_call", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T], call: Callable[[], None]) -> None:
        self._coroutine = coroutine
        self._call: Callable[[], None] | None = call

    def __await__(self) -> "BeforeWaiting[T]":
        return self

    def __iter__(self) -> "BeforeWaiting[T]":
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Resume the coroutine, and call `call` if the coroutine waits for the first time; see `Coroutine.send`."""
        try:
            waits_for = self._coroutine.send(value)
        finally:
            # An exception in `value` is raised in the coroutine; its traceback then has this frame: a reference cycle.
            del value
        if self._call is not None:
            call, self._call = self._call, None
            call()
        return waits_for

    def throw(self, *error: Any) -> Any:
        """Raise an error in the coroutine, where it waits; see `Coroutine.throw`."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """Close the coroutine; see `Coroutine.close`."""
        self._coroutine.close()
