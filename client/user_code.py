"""Handles errors of the application's functions that a client calls: callbacks, interceptors, partitioners.

Such functions may raise anything, even a BaseException that is no `Exception`: the `CancelledError` of a cancelled
future, or the exception of `pytest.fail`. Only `KeyboardInterrupt` and `SystemExit` are meant to end the program.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

ENDS_PROGRAM = (KeyboardInterrupt, SystemExit)


class _OfThread(threading.local):
    """The current thread's handler of errors that end the program; None: such an error ends the event loop."""

    interrupt: Callable[[BaseException], None] | None = None


of_thread = _OfThread()


def called(function: Callable[..., Any], *arguments: object) -> Any:
    """Call an application's function, and return its result.

    Raises the function's error, but RuntimeError in place of a BaseException that would end the task like cancellation.
    """
    try:
        return function(*arguments)
    except (Exception, *ENDS_PROGRAM):
        raise
    except BaseException as error:
        raise RuntimeError(f"{getattr(function, '__qualname__', function)} raised {error!r}") from error


class NoException(RuntimeError):
    """Carries a BaseException that is no `Exception` out of a task, whose event loop it would end, to the caller.

    Attributes:
        original: the exception that was raised.
    """

    def __init__(self, original: BaseException) -> None:
        super().__init__(f"a function of the application raised {original!r}")
        self.original = original
        self.__cause__ = original


class tolerated:  # noqa: N801 (used like a function)
    """A block that calls an application's function; its errors are logged with this text, and not raised.

    KeyboardInterrupt and SystemExit are raised: here, or in a blocking client by a thread that waits for the client.
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
