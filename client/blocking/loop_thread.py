"""`LoopThread`: an async client that is open in an event loop on a thread of its own, and calls from other threads.

The thread is a daemon: it does not keep the interpreter from ending. A call that is interrupted (by Ctrl-C, or a signal
handler that raises) is cancelled in the loop, and calls that still wait when the client is closed end with an error.

A signal handler may raise between any two instructions of a call, and may make calls itself. So threads share no locks
here, nor what has locks inside, as `concurrent.futures.Future`: a handler that raises would leave them locked, and
one that makes a call would wait for itself. The loop writes attributes, and wakes the thread that waits by a
`SimpleQueue`, which is made for that.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import anyio
import sniffio

from minikafka.client.user_code import ENDS_PROGRAM, NoException, of_thread

_CANCEL_TIMEOUT_S = 1
"""How long an interrupted call may take to end; it goes on in the background after that."""
_INTERRUPTED_CLOSE_TIMEOUT_S = 6
"""The same for a client that is being closed: a bit more than it takes to abort a transaction or to leave a group."""

Todo = SimpleQueue[Callable[[], None] | None]
todo: contextvars.ContextVar[Todo] = contextvars.ContextVar("todo")
"""In a call in the loop: what the thread that waits for it is to do meanwhile; None at the end."""


class _Call:
    """What a thread waits for in the loop: a call, or another event.

    Attributes:
        is_left: whether nobody waits for it any more.
        is_over: whether it has ended, or will not begin.
        value: what the function returned.
        error: what it raised; None also if it was cancelled, or never began.
        has_value: whether it has returned.
    """

    def __init__(self, function: Callable[[], Any] = lambda: None) -> None:
        self._function = function
        self._todo: Todo = SimpleQueue()
        self._scope: anyio.CancelScope | None = None
        self._ended: anyio.Event | None = None
        self.is_left = False
        self.is_over = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.has_value = False

    def begin(self) -> None:
        """It will `run`. Called in the loop, as `cancel`, `run`, `gone` and `end`."""
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()

    async def run(self) -> None:
        """Raises KeyboardInterrupt and SystemExit, which end the loop; the rest is kept for the thread that waits."""
        assert self._scope is not None
        try:
            todo.set(self._todo)
            with self._scope:
                if not self._scope.cancel_called:
                    value = self._function()
                    self.value = await value if isinstance(value, Awaitable) else value
                    self.has_value = True
        except anyio.get_cancelled_exc_class():
            pass  # The client is being closed; the task has nothing more to do.
        except ENDS_PROGRAM as error:
            self.error = error
            raise
        except BaseException as error:  # noqa: BLE001 (raised by the thread that waits)
            self.error = error
        finally:
            self.end()

    def cancel(self) -> None:
        """Have it end soon; at once if it was not to begin yet."""
        if self._scope is None:
            self.end()
        elif not self.is_over:
            self._scope.cancel()

    def end(self) -> None:
        """Wake up who waits for it."""
        self.is_over = True
        self._todo.put(None)
        if self._ended is not None:
            self._ended.set()

    def interrupt(self, error: BaseException) -> None:
        """Have the thread that waits raise this, as if a signal handler did."""

        def raise_it() -> None:
            raise error

        self._todo.put(raise_it)

    async def gone(self) -> None:
        """Wait until it has ended, in the loop."""
        if self._ended is not None:
            await self._ended.wait()

    def wait(self) -> None:
        """Wait until it has ended, and do meanwhile what there is to do. Raises what that raises."""
        while (one := self._todo.get()) is not None:
            one()

    def wait_for(self, timeout_s: float) -> None:
        """Wait until it has ended, for a time, and do nothing meanwhile."""
        with suppress(Empty):
            while not self.is_over:
                self._todo.get(timeout=timeout_s)


class LoopThread:
    """One open client.

    Args:
        client: the async client; it is entered and left on the thread.
        name: the class, for messages.
    """

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name
        self._calls: dict[_Call, None] = {}
        """Those that threads wait for. It is written before `_is_over` is read, and read after that was written."""
        self._ends: list[_Call] = []
        """What waits for the end of the loop; likewise."""
        self._interruptions: deque[BaseException] = deque()
        """What callbacks have raised to end the program, and no thread has raised yet. A call is in `_calls` before it
        looks here."""
        self._opening = _Call()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_abandoned = False
        self._is_stopping = False
        self._is_over = False
        self._failure: BaseException | None = None
        self._left: tuple[Any, Any, Any] = (None, None, None)
        self._thread = threading.Thread(target=self._run, name=f"minikafka {name}", daemon=True)

    def open(self) -> None:
        """Start the thread, and enter the client. Raises what that raises."""
        try:
            self._thread.start()
            self._opening.wait()
        except BaseException:
            self._cancel(_INTERRUPTED_CLOSE_TIMEOUT_S)
            raise
        if not self._opening.has_value:
            assert self._failure is not None
            raise self._failure

    def close(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Leave the client as a block that ends with this exception, and end the thread. Raises what that raises.

        An interruption cancels that, and waits for a few seconds until it has ended. It waits for nothing if an
        interruption of the same type has ended the block.
        """
        try:
            self.soon(self.leave, kind, error, trace)
            self._awaited_end().wait()
        except BaseException as again:
            self._cancel(0 if type(again) is kind else _INTERRUPTED_CLOSE_TIMEOUT_S)
            raise
        if self._failure is not None:
            raise self._failure
        self._raise_interruption()

    def abandon(self) -> None:
        """Leave the client in the background, if the program goes on, and nothing else has done so."""
        if not self._is_abandoned:
            self._cancel(0)

    def leave(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """As `close`, in the loop, without waiting."""
        self._left = kind, error, trace
        self._leave.set()

    def is_current(self) -> bool:
        """Whether the calling thread is that of the loop, as in callbacks of the application."""
        return threading.get_ident() == self._thread.ident

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the loop; return whether it has ended."""
        self._awaited_end().wait_for(timeout_s)
        return self._is_over

    def call(self, function: Callable[[], Any], *, cancel_timeout_s: float = _CANCEL_TIMEOUT_S) -> Any:
        """Call a function or coroutine function in the loop, and wait for its result; do meanwhile what is in `todo`.

        Raises what either raises, what a callback has raised to end the program, and RuntimeError on the loop's own
        thread, or if the client is closed meanwhile. What interrupts this thread cancels the call, and waits for its
        end for `cancel_timeout_s`. The next call does so if that is interrupted in turn.
        """
        if self.is_current():
            raise RuntimeError(
                f"this call of {self._name} waits for the thread that makes it: callbacks, as on_delivery, may only"
                " call send(); have another thread do the rest"
            )
        call = _Call(function)
        try:
            self._calls[call] = None
            self._raise_interruption()
            self.soon(self._begin, call, [one for one in list(self._calls) if one.is_left or one.is_over])
            if self._is_over:
                call.end()
            call.wait()
            result = self._result(call)
            return result
        except BaseException:
            if not call.is_over:
                self.soon(call.cancel)
                call.wait_for(cancel_timeout_s)
            raise
        finally:
            call.is_left = True  # This is done always: no signal is handled before.
            call.error = None  # It has this frame, which has the call.
            if call.is_over:
                self._calls.pop(call, None)

    def start(self, function: Callable[[], Awaitable[None]]) -> None:
        """Call a coroutine function in the loop, without waiting; what it raises is dropped."""
        self.soon(self._begin, _Call(function), [])

    def soon(self, function: Callable[..., None], *args: Any) -> None:
        """Call a function that neither waits nor raises in the loop, unless that has ended. From any thread."""
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            if not self._loop.is_closed():  # `_run` ends the calls then.
                raise

    def _result(self, call: _Call) -> Any:
        if call.has_value:
            return call.value
        if call.error is None:
            raise RuntimeError(f"this {self._name} was closed by another thread during the call")
        if isinstance(call.error, NoException):
            raise call.error.original from None
        raise call.error

    def _begin(self, call: _Call, interrupted: list[_Call]) -> None:
        if self._is_stopping:
            call.end()
            return
        sniffio.current_async_library_cvar.set("asyncio")  # The context is that of the calling thread.
        for one in interrupted:
            one.cancel()
            self._calls.pop(one, None)
        call.begin()
        self._tasks.start_soon(self._run_call, call, interrupted)

    async def _run_call(self, call: _Call, interrupted: list[_Call]) -> None:
        with anyio.move_on_after(_CANCEL_TIMEOUT_S):
            for one in interrupted:
                await one.gone()
        await call.run()

    def _interrupt(self, error: BaseException) -> None:
        """In the loop: a thread that waits raises this, or else the next call, or `close`."""
        self._interruptions.append(error)
        waiting = next((one for one in list(self._calls) if not (one.is_left or one.is_over)), None)
        if waiting is not None:
            with suppress(IndexError):
                waiting.interrupt(self._interruptions.popleft())

    def _raise_interruption(self) -> None:
        if self._interruptions:
            with suppress(IndexError):  # Another thread may have taken it.
                raise self._interruptions.popleft()

    def _awaited_end(self) -> _Call:
        """Ends with the loop."""
        waiting = _Call()
        self._ends.append(waiting)
        if self._is_over:
            waiting.end()
        return waiting

    def _cancel(self, timeout_s: float) -> None:
        """Have what the thread does end soon, and wait for that for a time."""
        self._is_abandoned = True
        if self._loop is not None and not self._is_over:
            self.soon(self._scope.cancel)
            self.join(timeout_s)

    def _run(self) -> None:
        of_thread.interrupt = self._interrupt
        try:
            anyio.run(self._main)
        except BaseException as error:  # noqa: BLE001 (a partitioner may raise SystemExit, which ends the loop)
            self._failure = error
        self._is_over = True
        for one in [self._opening, *self._ends, *self._calls]:
            one.end()

    async def _main(self) -> None:
        self._leave, self._scope = anyio.Event(), anyio.CancelScope()
        async with anyio.create_task_group() as self._tasks:
            self._loop = asyncio.get_running_loop()
            with self._scope:
                if not self._is_abandoned:
                    await self._live()
            self._is_stopping = True
            self._tasks.cancel_scope.cancel()

    async def _live(self) -> None:
        try:
            await self._client.__aenter__()
            self._opening.has_value = True
            self._opening.end()
            try:
                await self._leave.wait()
            finally:
                await self._client.__aexit__(*self._left)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 (raised by the call that waits for it)
            self._failure = error
