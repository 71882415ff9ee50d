"""Keys that are pressed while a command redraws a terminal: q ends it, as in `top` and `less`."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from minikafka.cli.redraw import is_terminal

_READ_BYTES = 1024


class Keys:
    """The keys of a terminal, or of none.

    Attributes:
        hint: what is told of them, behind the first line.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self.hint = "" if descriptor is None else "  (q: quit)"

    async def are_quit(self, seconds: float) -> bool:
        """Wait so long for q; returns whether it was pressed. Other keys are taken and ignored."""
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
    """The keys of standard input, without waiting for Enter and without echo, if it and the output are terminals."""
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
