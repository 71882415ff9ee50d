"""Iterators that can be continued after a request for the next item was cancelled, was interrupted or failed.

A generator ends with the first exception that leaves it. These iterators then create a new generator. Their `__anext__`
and `__next__` are those of the generator, without a Python call in between, so a loop over records is as fast as a loop
over the generator.

*Caveat*: an iterator that is interrupted before the first instruction of its generator has run still ends. A new
iterator continues.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from types import AsyncGeneratorType
from typing import Any, Generic, Self, TypeVar, cast
from weakref import ref

T = TypeVar("T")
G = TypeVar("G")
Block = AbstractContextManager[None]


class _GoesOn(Generic[G]):
    """The base class of the iterators: holds the current generator.

    Args:
        begin: creates a generator, whose whole body runs inside the block that `begin` is passed.

    Attributes:
        failed: whether the last request failed, and no other was made since.
    """

    __slots__ = ("__weakref__", "_begin", "_generator", "failed")

    def __init__(self, begin: Callable[[Block], G]) -> None:
        self._begin = begin
        self.failed = False
        self.begin()

    def begin(self) -> None:
        """Create a new generator."""
        self._generator: G = self._begin(_Attempt(self))


class AsyncIteration(_GoesOn[AsyncGenerator[T, None]], Generic[T]):
    """An iterator for `async for`."""

    __slots__ = ("__anext__",)
    __anext__: Callable[[], Awaitable[T]]

    def begin(self) -> None:
        super().begin()
        self.__anext__ = self._first

    def _first(self) -> Awaitable[T]:
        """The first request of a generator, which the event loop does not learn of: Python alone ends it.

        A loop that is left by `break` leaves its generator at a `yield`, and ending it needs no event loop. Trio would
        warn of it, and asyncio keep it until another turn of the loop.
        """
        self.__anext__ = self._generator.__anext__
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=None)
        try:
            return self._generator.__anext__()
        finally:
            sys.set_asyncgen_hooks(*hooks)

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        """Close the generator, which ends the iterator."""
        await self._generator.aclose()

    @property
    def is_open(self) -> bool:
        """Whether a loop over the iterator may still be running: its generator has not ended, and nothing failed."""
        return not self.failed and cast("AsyncGeneratorType[T, None]", self._generator).ag_frame is not None


class Iteration(_GoesOn[Generator[T, None, None]], Generic[T]):
    """An iterator for `for`."""

    __slots__ = ("__next__",)
    __next__: Callable[[], T]

    def begin(self) -> None:
        super().begin()
        self.__next__ = self._generator.__next__

    def __iter__(self) -> Self:
        return self

    def close(self) -> None:
        """Close the generator, which ends the iterator."""
        self._generator.close()


class _Attempt:
    """The block in which a generator's body runs; if the body fails, the iterator gets a new generator.

    The reference to the iterator is weak, so that an iterator that was left by `break` is deleted at once.
    """

    def __init__(self, iterator: _GoesOn[Any]) -> None:
        self._iterator = ref(iterator)

    def __enter__(self) -> None:
        iterator = self._iterator()
        if iterator is not None:
            iterator.failed = False

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        iterator = self._iterator()
        if iterator is not None and kind not in (None, GeneratorExit):
            iterator.failed = True
            iterator.begin()
