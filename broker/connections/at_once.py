"""`AtOnce`: the return type of a function that returns its result, or a coroutine where it has to wait for the result.

A request that is answered without waiting does not need the task of its connection (`connection.py`).
"""

from collections.abc import Coroutine
from types import CoroutineType
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

AtOnce: TypeAlias = T | Coroutine[Any, Any, T]
"""The result, or a coroutine that returns the result. The coroutine has not begun; the caller awaits or closes it."""


async def completed(answer: AtOnce[T]) -> T:
    """Return the result; if `answer` is a coroutine, await it first."""
    if isinstance(answer, CoroutineType):
        awaited: T = await answer
        return awaited
    assert not isinstance(answer, Coroutine)
    return answer
