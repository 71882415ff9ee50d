"""Helpful errors for calls meant for the other kind of client (async or blocking), or for other libraries' clients,
and for copies of clients.

The methods are hidden from type checkers, which find such mistakes by themselves.
"""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

from minikafka.client.escaped_log import escaped

_logger = escaped(logging.getLogger("minikafka.client"))
_MILLISECONDS_FEW = 10


class _OfOtherLibraries:
    """A descriptor for a method with which other libraries open or close clients; access raises AttributeError.

    A `__getattr__` would slow down each access to an attribute: CPython does not specialize attribute accesses of a
    class that has one.
    """

    def __init__(self, block: str, stack: str) -> None:
        self._block, self._stack = block, stack

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, client: object, owner: type) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__} has no {self._name}(): `{self._block} {owner.__name__}(…) as …:` opens it, and closes it"
            f" at the end of the block; a contextlib.{self._stack} ends the block elsewhere",
            name=self._name,
            obj=client,
        )


def _refuse_copy(client: object, protocol: SupportsIndex) -> NoReturn:
    """The `__reduce_ex__` of clients, for `pickle`, `copy.copy` and `copy.deepcopy`."""
    name = type(client).__name__
    raise TypeError(
        f"a {name} cannot be pickled or copied, as its connections cannot: create a {name} where it is used, for"
        " example in the other process, or in the function that Spark calls"
    )


class MixedWithBlocking:
    """The errors of an async client that is used like a blocking one."""

    __reduce_ex__ = _refuse_copy

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            name = type(self).__name__
            raise TypeError(
                f"this {name} is async: use it inside `async with {name}(…) as …:`, or use"
                f" minikafka.client.blocking.{name}"
            )

        def __exit__(self, *exception: object) -> None:
            """Does nothing; Python requires `__exit__` before it calls `__enter__`."""

        close = _OfOtherLibraries("async with", "AsyncExitStack")
        aclose = _OfOtherLibraries("async with", "AsyncExitStack")
        stop = _OfOtherLibraries("async with", "AsyncExitStack")
        start = _OfOtherLibraries("async with", "AsyncExitStack")
        open = _OfOtherLibraries("async with", "AsyncExitStack")
        shutdown = _OfOtherLibraries("async with", "AsyncExitStack")


class MixedWithAsync:
    """The errors of a blocking client that is used like an async one."""

    __reduce_ex__ = _refuse_copy

    if not TYPE_CHECKING:

        def __aenter__(self) -> NoReturn:
            name = type(self).__name__
            raise TypeError(
                f"this {name} is blocking: use it inside `with {name}(…) as …:`, or use minikafka.client.{name}"
            )

        def __aexit__(self, *exception: object) -> None:
            """Does nothing; Python requires `__aexit__` before it calls `__aenter__`."""

        close = _OfOtherLibraries("with", "ExitStack")
        aclose = _OfOtherLibraries("with", "ExitStack")
        stop = _OfOtherLibraries("with", "ExitStack")
        start = _OfOtherLibraries("with", "ExitStack")
        open = _OfOtherLibraries("with", "ExitStack")
        shutdown = _OfOtherLibraries("with", "ExitStack")


class IteratedWithoutAsync:
    """The error of an async consumer in a plain `for`."""

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            raise TypeError(
                "this Consumer is async: iterate over it with `async for`, or use minikafka.client.blocking.Consumer"
            )


class IteratedWithAsync:
    """The error of a blocking consumer in an `async for`."""

    if not TYPE_CHECKING:

        def __aiter__(self) -> NoReturn:
            raise TypeError("this Consumer is blocking: iterate over it with `for`, or use minikafka.client.Consumer")


class Awaited:
    """The error of `await` on a blocking producer's delivery."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            raise TypeError(
                "this Producer is blocking: wait for a delivery with `.result()`, or use minikafka.client.Producer"
            )


class AsyncTransaction(AbstractAsyncContextManager[None]):
    """The block of `Producer.transaction`, and its error in a plain `with`."""

    def __init__(self, block: AbstractAsyncContextManager[None]) -> None:
        self._block = block

    async def __aenter__(self) -> None:
        await self._block.__aenter__()

    async def __aexit__(self, *exception: Any) -> bool | None:
        return await self._block.__aexit__(*exception)

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError("this transaction is async: begin it with `async with producer.transaction():`")

        def __exit__(self, *exception: object) -> None:
            """Does nothing; Python requires `__exit__` before it calls `__enter__`."""


def check_milliseconds(timeout_ms: float) -> None:
    """Warn, once in a process, of a timeout such as 0.5 or 1.0: other libraries' polls take seconds."""
    if isinstance(timeout_ms, float) and 0 < timeout_ms < _MILLISECONDS_FEW:
        _warn_of_milliseconds()


@cache
def _warn_of_milliseconds() -> None:
    _logger.warning("poll waits for a few milliseconds only: its timeout is not in seconds")
