"""`ReadySockets`: calls a function of each connection whose socket can be read, in one task for all connections.

A task that waits for its own socket costs more in trio's scheduler than a small request costs otherwise. Here one task
waits for an epoll instance that has all sockets, and calls the turns of all ready connections, one after another. The
task of a connection runs only for work that a turn cannot do. Linux only: elsewhere each task waits for its own socket.
"""

import select
import sys
from collections.abc import Callable
from contextlib import suppress

import trio

from minikafka.broker.connections.request_times import STEADY

Turn = Callable[[], bool]
"""Reads the received bytes and answers requests, without waiting; returns whether to call it again for more bytes."""

EVENTS_MAX = 256
TURN_S = 0.002
"""Seconds for which turns are called, or requests of one connection are answered together, before other tasks run."""


class ReadySockets:
    """The sockets whose tasks wait in `wait_while`, in one epoll instance.

    Invariant: a socket in `_waiting` is registered. A socket that no task waits for stays registered until it is
    readable: a client that sends its next request after the response to the last costs no further system call.

    Attributes:
        polled_s: When epoll reported the sockets whose turns are being called, on `clock`.
    """

    def __init__(self, clock: Callable[[], float] = STEADY) -> None:
        assert sys.platform == "linux"
        self.polled_s = 0.0
        self._clock = clock
        self._epoll = select.epoll()
        self._waiting: dict[int, tuple[Turn, trio.lowlevel.Task]] = {}
        self._registered: set[int] = set()

    async def run(self) -> None:
        """Call turns until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll)
            ready = self._epoll.poll(0, EVENTS_MAX)
            self.polled_s = now = self._clock()
            end = now + TURN_S
            while ready:
                for fd, _ in ready:
                    self._turn(fd)
                    now = self._clock()
                    if now > end:
                        await trio.lowlevel.checkpoint()
                        end = self._clock() + TURN_S
                # If several sockets were ready, more are likely to be ready by now.
                ready = self._epoll.poll(0, EVENTS_MAX) if len(ready) > 1 else []
                self.polled_s = now

    def _turn(self, fd: int) -> None:
        waiting = self._waiting.get(fd)
        if waiting is None:
            self._unregister(fd)
        elif not waiting[0]():
            self.resume(fd)

    async def wait_while(self, fd: int, turn: Turn) -> None:
        """Call `turn` whenever the socket can be read, until it returns False or `resume` is called.

        `turn` must not raise. Cancellation ends the wait.
        """
        if fd not in self._registered:
            self._epoll.register(fd, select.EPOLLIN)
            self._registered.add(fd)
        self._waiting[fd] = turn, trio.lowlevel.current_task()

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            del self._waiting[fd]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def resume(self, fd: int) -> None:
        """Let `wait_while` return; no effect if no task waits for the socket."""
        waiting = self._waiting.pop(fd, None)
        if waiting is not None:
            trio.lowlevel.reschedule(waiting[1])

    def forget(self, fd: int) -> None:
        """Unregister a socket that is about to be closed; no task waits for it."""
        self._unregister(fd)

    def _unregister(self, fd: int) -> None:
        if fd in self._registered:
            self._registered.remove(fd)
            with suppress(OSError):
                self._epoll.unregister(fd)
