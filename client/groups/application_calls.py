"""`ApplicationCall`: a listener's call that a group's task requests, and that the application's next request makes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import anyio

_inside: ContextVar[tuple[ApplicationCall, ...]] = ContextVar("inside", default=())
"""The calls within which the current code runs; tasks and threads that a call starts inherit them."""


class ApplicationCall:
    """One call of a listener. The group's task announces the call and waits for `done`; the next request calls `run`.

    Attributes:
        done: set when the call has returned or raised.
        waiting: a cancel scope of the background task, cancelled when the call is done: it covers what that task does
            meanwhile, such as heartbeats.
    """

    def __init__(self, call: Callable[[], Awaitable[None]]) -> None:
        self.done = anyio.Event()
        self.waiting: anyio.CancelScope | None = None
        self._over = anyio.Event()
        """Set when the call that is running is done, or was cancelled."""
        self._call = call
        self._running = False

    @property
    def running(self) -> bool:
        """Whether the application is calling now."""
        return self._running

    async def run(self) -> None:
        """Make the call now; if another task is making it, wait for its end, and make the call if it was cancelled.

        Raises the error of the called function, and RuntimeError if that function requests records itself. A call that
        is cancelled is made again by the next request.
        """
        if self in _inside.get():
            raise RuntimeError("a Listener must not request records: they may belong to other members already")
        while self._running and not self.done.is_set():
            await self._over.wait()
        if self.done.is_set():
            return
        self._running, self._over = True, anyio.Event()
        outside = _inside.set((*_inside.get(), self))
        try:
            await self._call()
        except anyio.get_cancelled_exc_class():
            self._running = False
            self._over.set()
            raise
        except BaseException:
            self._finish()
            raise
        finally:
            _inside.reset(outside)
        self._finish()

    def _finish(self) -> None:
        self.done.set()
        self._over.set()
        if self.waiting is not None:
            self.waiting.cancel()
