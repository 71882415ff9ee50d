"""Reads the keys that are pressed while a command redraws a terminal: q ends the command, as in `top` and `less`."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from minikafka.cli.terminal.redraw import is_terminal

_READ_BYTES = 1024


class Keys:
    """The keys of a terminal; without a terminal there are none.

    Attributes:
        hint: the text about the keys, for the end of the first line; "" without a terminal.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self.hint = "" if descriptor is None else "  (q: quit)"

    async def are_quit(self, seconds: float) -> bool:
        """Wait for the key q, at most for `seconds`; return whether it was pressed. Other keys are ignored."""
        import anyio
        from anyio.to_thread import run_sync

        descriptor = self._descriptor
        if descriptor is None:
            await anyio.sleep(seconds)
            return False
        until = anyio.current_time() + seconds
        while (left := until - anyio.current_time()) > 0:
            ready, _, _ = await run_sync(select.select, [descriptor], [], [], left, abandon_on_cancel=True)
            if ready:
                pressed = os.read(descriptor, _READ_BYTES)
                if b"q" in pressed.lower():
                    return True
                if not pressed:  # The terminal is closed.
                    self._descriptor = None
                    await anyio.sleep(left)
        return False


@contextmanager
def keys_of_terminal(*, wanted: bool) -> Iterator[Keys]:
    """Read the keys of standard input, without Enter and without echo, if it and standard output are terminals."""
    if not (wanted and sys.stdin.isatty() and is_terminal(sys.stdout)):
        yield Keys(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield Keys(descriptor)
    finally:
        with suppress(termios.error):  # The terminal may be closed.
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
