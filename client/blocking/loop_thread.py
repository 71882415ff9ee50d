"""`LoopThread`: an async client that is open in an event loop on a thread of its own, and calls from other threads.

The thread is a daemon: it does not keep the interpreter from ending. A call that is interrupted (by Ctrl-C, or a signal
handler that raises) is cancelled in the loop, and calls that still wait when the client is closed end with an error.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal

from minikafka.client.user_code import ENDS_PROGRAM, NoException

_CANCEL_TIMEOUT_S = 1
"""How long an interrupted call may take to end; it goes on in the background after that."""
_INTERRUPTED_CLOSE_TIMEOUT_S = 6
"""The same for a client that is being closed: a bit more than it takes to abort a transaction or to leave a group."""


class _Call:
    """A call in the loop.

    Attributes:
        is_interrupted: whether it is not to begin any more.
        ended: whether it has ended, or will not begin.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._scope: anyio.CancelScope | None = None
        self.is_interrupted = False
        self.ended = threading.Event()

    async def run(self) -> Any:
        """Raises what the function raises, NoException for what is none: the portal would end the loop."""
        try:
            with anyio.CancelScope() as self._scope:
                if self.is_interrupted:
                    return None
                value = self._function()
                return await value if isinstance(value, Awaitable) else value
        except (Exception, anyio.get_cancelled_exc_class(), *ENDS_PROGRAM):
            raise
        except BaseException as error:
            raise NoException(error) from error
        finally:
            self.ended.set()

    def cancel(self) -> None:
        """Cancel it in the loop; it was not started at all if it has no scope."""
        if self._scope is None:
            self.ended.set()
        else:
            self._scope.cancel()


class LoopThread:
    """One open client.

    Args:
        client: the async client; it is entered and left on the thread.
        name: the class, for messages.
    """

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name
        self._opened: Future[BlockingPortal] = Future()
        self._ended: Future[None] = Future()
        self._failure: BaseException | None = None
        self._left: tuple[Any, Any, Any] = (None, None, None)
        self._thread = threading.Thread(target=self._run, name=f"minikafka {name}", daemon=True)

    def open(self) -> BlockingPortal:
        """Start the thread, and enter the client. Raises what that raises."""
        self._thread.start()
        try:
            return self._opened.result()
        except BaseException:
            self._cancel(_INTERRUPTED_CLOSE_TIMEOUT_S)
            raise

    def close(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Leave the client as a block that ends with this exception, and end the thread. Raises what that raises.

        An interruption cancels that, and waits for a few seconds until it has ended. It waits for nothing if an
        interruption of the same type has ended the block.
        """
        try:
            self.leave_soon(kind, error, trace)
            self._ended.result()
        except BaseException as again:
            self._cancel(0 if type(again) is kind else _INTERRUPTED_CLOSE_TIMEOUT_S)
            raise

    def abandon(self) -> None:
        """Leave the client in the background, if the program goes on."""
        self._cancel(0)

    def leave_soon(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """As `close`, without waiting."""
        with suppress(RuntimeError):  # The loop has ended, or ends: `_ended` will say why.
            self._portal.start_task_soon(self.leave, kind, error, trace)

    def leave(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """As `leave_soon`, in the loop."""
        self._left = kind, error, trace
        self._leave.set()

    def is_current(self) -> bool:
        """Whether the calling thread is that of the loop, as in callbacks of the application."""
        return threading.current_thread() is self._thread

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def call(
        self,
        function: Callable[[], Any],
        meanwhile: Callable[[Future[Any]], None] = lambda future: None,
        *,
        cancel_timeout_s: float = _CANCEL_TIMEOUT_S,
    ) -> Any:
        """Call a function or coroutine function in the loop, and wait for its result, after `meanwhile` on this thread.

        Raises what the call raises, and RuntimeError on the loop's own thread, or if the client is closed meanwhile.
        What interrupts this thread cancels the call, and waits for its end for `cancel_timeout_s`.
        """
        if self.is_current():
            raise RuntimeError(
                f"this call of {self._name} waits for the thread that makes it: callbacks, as on_delivery, may only"
                " call send(); have another thread do the rest"
            )
        call, future = _Call(function), None
        try:
            future = self._portal.start_task_soon(call.run)
            meanwhile(future)
            return future.result()
        except NoException as error:
            raise error.original from None
        except CancelledError:
            if future is None or not future.cancelled():  # The application's code has raised it.
                raise
            raise RuntimeError(f"this {self._name} was closed by another thread during the call") from None
        except BaseException:
            call.is_interrupted = True
            if future is None:  # The interruption came while the call was started: it may run.
                with suppress(RuntimeError):  # The loop has ended.
                    self._portal.start_task_soon(call.cancel)
                    call.ended.wait(cancel_timeout_s)
            elif future.cancel():
                call.ended.wait(cancel_timeout_s)
            raise

    def _cancel(self, timeout_s: float) -> None:
        """Have what the thread does end soon, and wait for that for a time."""
        if not self._ended.done() and hasattr(self, "_portal"):
            with suppress(RuntimeError):  # The loop ends already.
                self._portal.start_task_soon(self._scope.cancel)
            self.join(timeout_s)

    def _run(self) -> None:
        try:
            anyio.run(self._main)
        except BaseException as error:  # noqa: BLE001 (a callback may raise SystemExit, which ends the loop)
            self._failure = error
        if self._failure is None or not self._opened.done():
            self._ended.set_result(None)
        else:
            self._ended.set_exception(self._failure)
        if self._failure is not None and not self._opened.done():
            self._opened.set_exception(self._failure)

    async def _main(self) -> None:
        async with BlockingPortal() as portal:
            self._portal, self._leave = portal, anyio.Event()
            with anyio.CancelScope() as self._scope:
                try:
                    await self._live(portal)
                except anyio.get_cancelled_exc_class():
                    raise
                except BaseException as error:  # noqa: BLE001 (raised by the call that waits for it)
                    self._failure = error
            await portal.stop(cancel_remaining=True)

    async def _live(self, portal: BlockingPortal) -> None:
        await self._client.__aenter__()
        self._opened.set_result(portal)
        try:
            await self._leave.wait()
        finally:
            await self._client.__aexit__(*self._left)
