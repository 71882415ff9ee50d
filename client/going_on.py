"""Iterators that go on after a request for the next item that was cancelled, interrupted or failed.

A generator ends with the exception that leaves it: after that it only says that it has ended. These iterators begin a
new one then. Their `__anext__` and `__next__` are those of the generator, without a call of Python between: a loop over
records is as fast as one over the generator.

*Caveat*: an iterator that is interrupted before the first instruction of its generator has run ends all the same. A new
one goes on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from types import AsyncGeneratorType
from typing import Any, Generic, Self, TypeVar, cast
from weakref import ref

T = TypeVar("T")
G = TypeVar("G")
Block = AbstractContextManager[None]


class _GoesOn(Generic[G]):
    """The iterator.

    Args:
        begin: makes a generator, which does all that it does inside the block that it gets.

    Attributes:
        failed: whether the last request failed, and there was none since.
    """

    __slots__ = ("__weakref__", "_begin", "_generator", "failed")

    def __init__(self, begin: Callable[[Block], G]) -> None:
        self._begin = begin
        self.failed = False
        self.begin()

    def begin(self) -> None:
        """Have a new generator."""
        self._generator: G = self._begin(_Attempt(self))


class AsyncIteration(_GoesOn[AsyncGenerator[T, None]], Generic[T]):
    """For `async for`."""

    __slots__ = ("__anext__",)
    __anext__: Callable[[], Awaitable[T]]

    def begin(self) -> None:
        super().begin()
        self.__anext__ = self._generator.__anext__

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        """End it."""
        await self._generator.aclose()

    @property
    def is_open(self) -> bool:
        """Whether its owner is in a loop over it, as far as is known."""
        return not self.failed and cast("AsyncGeneratorType[T, None]", self._generator).ag_frame is not None


class Iteration(_GoesOn[Generator[T, None, None]], Generic[T]):
    """For `for`."""

    __slots__ = ("__next__",)
    __next__: Callable[[], T]

    def begin(self) -> None:
        super().begin()
        self.__next__ = self._generator.__next__

    def __iter__(self) -> Self:
        return self

    def close(self) -> None:
        """End it."""
        self._generator.close()


class _Attempt:
    """What a generator does. The iterator is not kept: one that was left by `break` is gone at once."""

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
