"""`BeforeWaiting`: awaits a coroutine, and calls a function once, when the coroutine waits for the first time."""

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class BeforeWaiting(Generic[T]):
    """Awaits `coroutine`; `call` is called when it waits first, and not at all if it completes without waiting.

    A checkpoint counts as waiting. The loop runs no other task in between; `call` must neither wait nor raise.
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
        """See `Coroutine.send`."""
        try:
            waits_for = self._coroutine.send(value)
        finally:
            del value  # An exception that is raised where it waited; with this frame in its traceback it were a cycle.
        if self._call is not None:
            call, self._call = self._call, None
            call()
        return waits_for

    def throw(self, *error: Any) -> Any:
        """See `Coroutine.throw`."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """See `Coroutine.close`."""
        self._coroutine.close()
