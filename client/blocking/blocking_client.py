"""Runs an async client in an event loop on a separate thread, and calls its methods from other threads."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

import anyio

from minikafka.client.argument_checks import knows_arguments
from minikafka.client.blocking.loop_thread import Interpreter, LoopThread
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.escaped_log import escaped
from minikafka.client.metrics import MetricName
from minikafka.client.mixups import MixedWithAsync

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type[Any])
_logger = escaped(logging.getLogger("minikafka.client"))
EXIT_TIMEOUT_S = 5
"""How long the end of the interpreter waits for clients that were never closed: for deliveries, and to leave groups."""
_LEAVING_S = 1
"""The part of `EXIT_TIMEOUT_S` that is reserved for leaving groups, if deliveries take longer."""


@knows_arguments()
class BlockingClient(MixedWithAsync):
    """The base class of the blocking clients: a `with` block that opens and closes the async client on its thread."""

    def __init__(self, client: ClusterClient) -> None:
        self._async_client = client
        self._thread: LoopThread | None = None
        self._is_open = False
        name = type(self).__name__
        self._unusable = f"this {name} is not open: use it inside `with {name}(…) as …:`"

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise RuntimeError(f"this {type(self).__name__} was already entered: create a new one")
        self._thread = LoopThread(self._async_client, type(self).__name__)
        try:
            self._thread.open()
            _open_clients[self] = None
            self._is_open = True
        except BaseException:
            self._thread.abandon()  # An interruption came after it was opened.
            self._end()
            raise
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool | None:
        if not self._is_open:
            return None
        try:
            self._open_thread().close(kind, error, trace)
        except BaseException:
            self._open_thread().abandon()  # An interruption came before `close` had begun.
            raise
        finally:
            self._end()
        return None

    def _abandon(self) -> None:
        """Leave the client's block like `__exit__`, but without waiting."""
        self._open_thread().abandon()
        self._end()

    def metrics(self) -> dict[MetricName, float]:
        """The client's metrics, by name; see the async `metrics`."""
        return self._run(self._async_client.metrics)

    def _end(self, unusable: str = "") -> None:
        """Make every later call raise RuntimeError with this message; by default, that the client is closed."""
        _open_clients.pop(self, None)  # first, as the next lines may be interrupted
        self._is_open = False
        self._unusable = unusable or f"this {type(self).__name__} is closed: create a new one"

    def _wait(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a coroutine function on the event loop's thread, and wait for its result."""
        result: T = self._open_thread().call(partial(function, *args, **kwargs))
        return result

    def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a plain function on the event loop's thread."""
        result: T = self._open_thread().call(partial(function, *args, **kwargs))
        return result

    def _open_thread(self) -> LoopThread:
        """The client's `LoopThread`. Raises RuntimeError outside of the `with` block, and in a forked process."""
        if not self._is_open:
            raise RuntimeError(self._unusable)
        assert self._thread is not None
        return self._thread

    async def _finish(self, left_by: Exception) -> None:
        """Complete pending work of a client that was never closed, when the interpreter ends. Overridden."""

    async def _leave_at_exit(self) -> None:
        unfinished = RuntimeError("the interpreter ends")
        try:
            with anyio.move_on_after(EXIT_TIMEOUT_S - _LEAVING_S):
                await self._finish(unfinished)
        finally:
            self._open_thread().leave(RuntimeError, unfinished, None)


_open_clients: dict[BlockingClient, None] = {}


def _close_open_clients() -> None:
    """Close all open clients at the end of the interpreter, within `EXIT_TIMEOUT_S`: daemon threads would just stop."""
    Interpreter.ends = True
    deadline = time.monotonic() + EXIT_TIMEOUT_S
    left = list(_open_clients)
    for client in left:
        _logger.warning("client never closed: %s", type(client).__name__)
    calls = [client._open_thread().start(client._leave_at_exit) for client in left]
    for client, call in zip(left, calls, strict=True):
        call.wait_until(deadline)  # It may call a listener, on this thread.
        client._open_thread().join(max(deadline - time.monotonic(), 0))
        if call.error is not None:
            _logger.error("client failed when the program ended: %s", type(client).__name__, exc_info=call.error)


def _forget_open_clients() -> None:
    """Make open clients unusable in a forked process, which has none of their threads: calls would wait for ever."""
    for client in list(_open_clients):
        name = type(client).__name__
        client._end(f"this {name} was opened before the fork: each process needs a {name} of its own, so open one here")


atexit.register(_close_open_clients)
os.register_at_fork(after_in_child=_forget_open_clients)


def documented_as(original: type[Any]) -> Callable[[C], C]:
    """Give the methods of a blocking client the docstrings of the async client's methods of the same names."""

    def decorate(blocking: C) -> C:
        for name, method in vars(blocking).items():
            is_public = callable(method) or isinstance(method, property)
            if is_public and not method.__doc__ and hasattr(original, name):
                method.__doc__ = getattr(original, name).__doc__
        return blocking

    return decorate
