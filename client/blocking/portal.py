"""Runs an async client in an event loop on a separate thread, and calls its methods from other threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.metrics import MetricName

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type[Any])


class BlockingClient:
    """The base of the blocking clients: a `with` block that opens and closes the async client on its thread."""

    def __init__(self, client: ClusterClient) -> None:
        self._async_client = client
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(self._portal.wrap_async_context_manager(self._async_client))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> bool | None:
        try:
            return self._stack.__exit__(*exception)
        finally:
            self._portal = None

    def metrics(self) -> dict[MetricName, float]:
        """As the async `metrics`."""
        return self._run(self._async_client.metrics)

    def _open_portal(self) -> BlockingPortal:
        """Raises RuntimeError outside of the `with` block."""
        if self._portal is None:
            name = type(self).__name__
            raise RuntimeError(f"this {name} is not open: use it inside `with {name}(…) as …:`")
        return self._portal

    def _wait(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a coroutine function on the event loop's thread, and wait for its result."""
        return self._open_portal().call(partial(function, *args, **kwargs))

    def _run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a plain function on the event loop's thread."""
        return self._open_portal().call(partial(function, *args, **kwargs))


def documented_as(original: type[Any]) -> Callable[[C], C]:
    """Give the methods of a blocking client the docstrings of the async client's methods of the same names."""

    def decorate(blocking: C) -> C:
        for name, method in vars(blocking).items():
            is_public = callable(method) or isinstance(method, property)
            if is_public and not method.__doc__ and hasattr(original, name):
                method.__doc__ = getattr(original, name).__doc__
        return blocking

    return decorate
