"""`ApplicationCall`: a call that a group's background task has the application make, where it requests records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import anyio

_inside: ContextVar[tuple[ApplicationCall, ...]] = ContextVar("inside", default=())
"""The calls within which this code runs, in tasks and threads that they started as well."""


class ApplicationCall:
    """One call. The background task announces it and waits for `done`; the application's next request calls `run`.

    Attributes:
        done: set when the call has returned or raised.
        waiting: a scope of the background task to cancel then: whatever it does meanwhile is no longer needed.
    """

    def __init__(self, call: Callable[[], Awaitable[None]]) -> None:
        self.done = anyio.Event()
        self.waiting: anyio.CancelScope | None = None
        self._call = call
        self._running = False

    @property
    def running(self) -> bool:
        """Whether the application is calling now."""
        return self._running

    async def run(self) -> None:
        """Call now, unless another task does: then wait for that.

        Raises what is called raises, and RuntimeError if it is what is called that requests records. A call that is
        cancelled is made again by the next request.
        """
        if self in _inside.get():
            raise RuntimeError("a Listener must not request records: they may belong to other members already")
        if self._running:
            await self.done.wait()
            return
        self._running = True
        outside = _inside.set((*_inside.get(), self))
        try:
            await self._call()
        except anyio.get_cancelled_exc_class():
            self._running = False
            raise
        except BaseException:
            self._finish()
            raise
        finally:
            _inside.reset(outside)
        self._finish()

    def _finish(self) -> None:
        self.done.set()
        if self.waiting is not None:
            self.waiting.cancel()
