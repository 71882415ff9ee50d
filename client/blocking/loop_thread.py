"""`LoopThread`: runs an async client in an event loop on a thread of its own, and passes other threads' calls to it.

The thread is a daemon: it does not keep the interpreter from ending. A call that is interrupted (by Ctrl-C, or a signal
handler that raises) is cancelled in the loop, and calls that still wait when the client is closed end with an error.

A signal handler may raise between any two instructions of a call, and may make calls itself. Therefore threads share
neither locks nor objects that contain locks, such as `concurrent.futures.Future`: a handler that raises would leave a
lock locked, and a handler that makes a call would wait for itself. The loop writes attributes, and wakes the waiting
thread through a `SimpleQueue`, which is reentrant.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import anyio
import sniffio

from minikafka.client.user_code import ENDS_PROGRAM, NoException, of_thread

_CANCEL_TIMEOUT_S = 1
"""How long an interrupted call may take to end; after that, the call continues in the background."""
_INTERRUPTED_CLOSE_TIMEOUT_S = 6
"""How long an interrupted `close` may take: a little more than aborting a transaction or leaving a group takes."""

Todo = SimpleQueue[Callable[[], None] | None]
todo: contextvars.ContextVar[Todo] = contextvars.ContextVar("todo")
"""Within a call in the loop: the queue of functions that the waiting thread runs meanwhile; None ends the wait."""


class Interpreter:
    """The state of the Python interpreter.

    Attributes:
        ends: whether it ends. Only daemon threads, and the main one, are left then.
    """

    ends = False


class _Call:
    """A call, or another event in the loop, for which a thread waits.

    Attributes:
        is_left: whether the thread has stopped waiting for the call.
        is_over: whether the call has ended, or will not begin.
        value: the return value of the function.
        error: the exception that the function raised; None also if the call was cancelled, or never began.
        has_value: whether the function has returned.
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
        """Prepare the call for `run`. Called in the loop, like `cancel`, `run`, `gone` and `end`."""
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()

    async def run(self) -> None:
        """Run the function. KeyboardInterrupt and SystemExit are raised, and end the loop; `error` keeps the others."""
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
        """Cancel the call; a call that has not begun ends at once."""
        if self._scope is None:
            self.end()
        elif not self.is_over:
            self._scope.cancel()

    def end(self) -> None:
        """Mark the call as ended, and wake the thread and the tasks that wait for its end."""
        self.is_over = True
        self._todo.put(None)
        if self._ended is not None:
            self._ended.set()

    def interrupt(self, error: BaseException) -> None:
        """Make the waiting thread raise this error, as a signal handler would."""

        def raise_it() -> None:
            raise error

        self._todo.put(raise_it)

    async def gone(self) -> None:
        """Wait in the loop until the call has ended."""
        if self._ended is not None:
            await self._ended.wait()

    def wait(self) -> None:
        """Wait until the call has ended, and run the functions of `todo` meanwhile. Raises the errors of these."""
        while (one := self._todo.get()) is not None:
            one()

    def wait_until(self, deadline: float) -> None:
        """Like `wait`, but for a limited time: a queued function that has begun is not interrupted."""
        with suppress(Empty):
            while (one := self._todo.get(timeout=max(deadline - time.monotonic(), 0))) is not None:
                one()

    def wait_for(self, timeout_s: float) -> None:
        """Wait until the call has ended, for a limited time, without running queued functions."""
        with suppress(Empty):
            while not self.is_over:
                self._todo.get(timeout=timeout_s)


class LoopThread:
    """The thread and event loop of one open client.

    Args:
        client: the async client; it is entered and left on the thread.
        name: the name of the client's class, for messages.
    """

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name
        self._calls: dict[_Call, None] = {}
        """The calls for which threads wait. Written before `_is_over` is read, and read after `_is_over` is written."""
        self._ends: list[_Call] = []
        """The waits for the end of the loop. Written and read in the same order as `_calls`."""
        self._interruptions: deque[BaseException] = deque()
        """The exceptions with which callbacks end the program, and that no thread has raised yet. A call is added to
        `_calls` before it reads this queue."""
        self._opening = _Call()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_abandoned = False
        self._is_stopping = False
        self._is_over = False
        self._failure: BaseException | None = None
        self._left: tuple[Any, Any, Any] = (None, None, None)
        self._thread = threading.Thread(target=self._run, name=f"minikafka {name}", daemon=True)

    def open(self) -> None:
        """Start the thread, and enter the client. Raises the error of entering the client."""
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
        """Leave the client's block with the given exception or None, and end the thread. Raises the client's error.

        An interruption cancels the closing, and waits for a few seconds until it has ended. If an interruption of the
        same type has ended the block already, it does not wait.
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
        """Cancel the client in the background, without waiting, unless it was cancelled before."""
        if not self._is_abandoned:
            self._cancel(0)

    def leave(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Leave the client's block like `close`, but without waiting. Called in the loop."""
        self._left = kind, error, trace
        self._leave.set()

    def is_current(self) -> bool:
        """Whether the calling thread is the loop's thread, as it is in callbacks of the application."""
        return threading.get_ident() == self._thread.ident

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the loop; return whether it has ended."""
        self._awaited_end().wait_for(timeout_s)
        return self._is_over

    def call(self, function: Callable[[], Any], *, cancel_timeout_s: float = _CANCEL_TIMEOUT_S) -> Any:
        """Call a function or coroutine function in the loop, and wait for its result; run `todo` functions meanwhile.

        Raises the errors of the function and of functions in `todo`, exceptions with which a callback ends the program,
        and RuntimeError on the loop's own thread, or if the client is closed meanwhile. An interruption of this thread
        cancels the call, and waits `cancel_timeout_s` for its end. If this wait is interrupted, the next call cancels.
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
            call.is_left = True  # This always runs: no signal is handled before.
            call.error = None  # Breaks a reference cycle: the traceback has this frame, which has the call.
            if call.is_over:
                self._calls.pop(call, None)

    def start(self, function: Callable[[], Awaitable[None]]) -> _Call:
        """Call a coroutine function in the loop, without waiting; the call keeps its error."""
        call = _Call(function)
        self.soon(self._begin, call, [])
        if self._is_over:
            call.end()
        return call

    def soon(self, function: Callable[..., None], *args: Any) -> None:
        """Schedule a function that neither waits nor raises in the loop, unless the loop has ended. From any thread."""
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
        if Interpreter.ends and threading.current_thread() is not threading.main_thread():
            SimpleQueue[None]().get()  # A daemon thread stops where it is: nobody expects its errors any more.
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
        """Make a waiting thread raise this error; if none waits, the next call or `close` raises it. In the loop."""
        self._interruptions.append(error)
        waiting = next((one for one in list(self._calls) if not (one.is_left or one.is_over)), None)
        if waiting is not None:
            with suppress(IndexError):
                waiting.interrupt(self._interruptions.popleft())

    def _raise_interruption(self) -> None:
        if self._interruptions:
            with suppress(IndexError):  # Another thread may have taken the interruption.
                raise self._interruptions.popleft()

    def _awaited_end(self) -> _Call:
        """A `_Call` that ends when the loop ends, for threads that wait for the end of the loop."""
        waiting = _Call()
        self._ends.append(waiting)
        if self._is_over:
            waiting.end()
        return waiting

    def _cancel(self, timeout_s: float) -> None:
        """Cancel everything in the loop, and wait `timeout_s` for its end."""
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
