"""Errors of functions that applications pass to a client, and that it calls: callbacks, interceptors, partitioners.

They may raise anything, also what is no `Exception`: `CancelledError` of a cancelled future, or what `pytest.fail`
raises. Only `KeyboardInterrupt` and `SystemExit` are meant for the program.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

ENDS_PROGRAM = (KeyboardInterrupt, SystemExit)


class _OfThread(threading.local):
    """What a thread does with an error that ends the program; None if it is to end the thread's event loop."""

    interrupt: Callable[[BaseException], None] | None = None


of_thread = _OfThread()


def called(function: Callable[..., Any], *arguments: object) -> Any:
    """What an application's function returns.

    Raises what it raises, but RuntimeError for what would end the task as if it were cancelled.
    """
    try:
        return function(*arguments)
    except (Exception, *ENDS_PROGRAM):
        raise
    except BaseException as error:
        raise RuntimeError(f"{getattr(function, '__qualname__', function)} raised {error!r}") from error


class NoException(RuntimeError):
    """Carries what is no `Exception` from a task of an event loop, which it would end, to who called the function.

    Attributes:
        original: What was raised.
    """

    def __init__(self, original: BaseException) -> None:
        super().__init__(f"a function of the application raised {original!r}")
        self.original = original
        self.__cause__ = original


class tolerated:  # noqa: N801 (used like a function)
    """The block calls an application's function whose errors must not affect others: they are logged with this text.

    What ends the program is raised here, or by the thread that a blocking client finds for it.
    """

    __slots__ = ("_arguments", "_logger", "_text")

    def __init__(self, logger: logging.Logger, text: str, *arguments: object) -> None:
        self._logger = logger
        self._text = text
        self._arguments = arguments

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            return False
        if isinstance(error, ENDS_PROGRAM):
            if of_thread.interrupt is None:
                return False
            of_thread.interrupt(error)
            return True
        self._logger.error(self._text, *self._arguments, exc_info=error)
        return True
