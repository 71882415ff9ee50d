"""Signals at any moment: calls a handler at the n-th point of a block where CPython looks for signals."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_LOOKED_AFTER = ("RESUME", "CALL", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")


class Signal:
    """A trace function.

    Args:
        number: at which point the signal comes first, from 1 on.
        handler: what handles it; raises KeyboardInterrupt by default.
        where: whether points of a file count.
        pause: after so many more points another one comes, and so on until there were `times`.
    """

    def __init__(
        self,
        number: int,
        handler: Callable[[], None] | None = None,
        where: Callable[[str], bool] = lambda path: True,
        *,
        pause: int = 1,
        times: int = 1,
    ) -> None:
        self._left = number
        self._handler = handler or self._interrupt
        self._where = where
        self._pause = pause
        self._times = times
        self._last: dict[FrameType, str] = {}
        self.count = 0

    @property
    def came(self) -> bool:
        """Whether all of them came."""
        return self.count >= self._times

    @contextmanager
    def within(self) -> Iterator[None]:
        """The block; also frames that it is entered from do not count."""
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(None)
            self._last.clear()

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        if self.came or path == __file__ or not self._where(path):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._in_frame

    def _in_frame(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode" and not self.came:
            before = self._last.get(frame, "")
            self._last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if before.startswith(_LOOKED_AFTER) and not before.endswith("NO_INTERRUPT"):
                self._left -= 1
                if self._left <= 0:
                    self.count += 1
                    self._left = self._pause
                    self._handler()
        return self._in_frame

    @staticmethod
    def _interrupt() -> None:
        raise KeyboardInterrupt
