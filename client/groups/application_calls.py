"""`ApplicationCall`: a call that a group's background task has the application make, where it requests records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio


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
        self._task: int | None = None

    @property
    def running(self) -> bool:
        """Whether the application is calling now."""
        return self._task is not None

    async def run(self) -> None:
        """Call now, unless another task does: then wait for that.

        Raises what is called raises, and RuntimeError if it is what is called that requests records. A call that is
        cancelled is made again by the next request.
        """
        task = anyio.get_current_task().id
        if self._task is not None:
            if self._task == task:
                raise RuntimeError("a Listener must not request records: they may belong to other members already")
            await self.done.wait()
            return
        self._task = task
        try:
            await self._call()
        except anyio.get_cancelled_exc_class():
            self._task = None
            raise
        except BaseException:
            self._finish()
            raise
        self._finish()

    def _finish(self) -> None:
        self.done.set()
        if self.waiting is not None:
            self.waiting.cancel()
