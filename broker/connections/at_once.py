"""`AtOnce`: what functions return that wait only if they must: their result, or a coroutine of it.

A request that is answered without waiting needs no task of its connection (`connection.py`).
"""

from collections.abc import Coroutine
from types import CoroutineType
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

AtOnce: TypeAlias = T | Coroutine[Any, Any, T]
"""The result, or a coroutine that has not begun: it is awaited, or closed."""


async def completed(answer: AtOnce[T]) -> T:
    """The result, waiting for it if need be."""
    if isinstance(answer, CoroutineType):
        awaited: T = await answer
        return awaited
    assert not isinstance(answer, Coroutine)
    return answer
