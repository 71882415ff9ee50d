"""`RequestMemory`: one count of bytes in memory, with a limit, at which connections wait for room.

The pools of large messages are such counts (`large_messages.py`), and so are the bytes of unsent large responses.

One object limits the large requests of all connections together (`queued.max.request.bytes`). The bytes of a request
count from the time when its first MiB has arrived, before the rest is read, until it is answered; those of JoinGroup
and SyncGroup, which wait for other clients, until it is decoded. A request is admitted while there is any room. It may
exceed the limit, so that every request fits some time; at most `socket.request.max.bytes` are held above the limit.
Requests of up to 1 MiB do not count. Uses trio: connections wait for room.

Source: Kafka's `SimpleMemoryPool` with `strict=false`, which counts each request from its first byte on.
"""

from collections import deque
from dataclasses import dataclass

import trio


@dataclass(slots=True, eq=False)
class _Waiter:
    task: trio.lowlevel.Task
    size_bytes: int
    since_s: float


class RequestMemory:
    """Counts the bytes of requests, or of responses, that are in memory, and lets callers wait for room.

    Args:
        size_bytes_max: The limit, such as `queued.max.request.bytes`; 0 or less is unlimited.

    Attributes:
        held_bytes: The bytes of all requests that count. *Invariant:* 0 when all are answered.
        waited_for_s: For how many seconds the oldest waiting `reserve` has waited for room; 0 if none waits.
    """

    def __init__(self, size_bytes_max: int = -1) -> None:
        self.held_bytes = 0
        self._limit = size_bytes_max if size_bytes_max > 0 else float("inf")
        self._waiting: deque[_Waiter] = deque()

    @property
    def waited_for_s(self) -> float:
        return trio.current_time() - self._waiting[0].since_s if self._waiting else 0.0

    async def reserve(self, size_bytes: int) -> None:
        """Hold bytes as soon as there is room, in the order of the calls. Cancellation while it waits holds nothing."""
        if self.held_bytes < self._limit and not self._waiting:
            self.held_bytes += size_bytes
            return
        waiter = _Waiter(trio.lowlevel.current_task(), size_bytes, trio.current_time())
        self._waiting.append(waiter)

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._waiting.remove(waiter)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def hold(self, size_bytes: int) -> None:
        """Count bytes that were read already."""
        self.held_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Give up bytes that are no longer in memory, and admit waiting calls of `reserve`, oldest first."""
        self.held_bytes -= size_bytes
        assert self.held_bytes >= 0, "released more than was held"
        while self._waiting and self.held_bytes < self._limit:
            waiter = self._waiting.popleft()
            self.held_bytes += waiter.size_bytes
            trio.lowlevel.reschedule(waiter.task)


@dataclass(slots=True, eq=False)
class HeldRoom:
    """Room in a `RequestMemory` that is held until `release`, such as the room of a response until it is sent."""

    memory: RequestMemory
    size_bytes: int

    def become(self, size_bytes: int) -> None:
        """Change the size of the room to `size_bytes`, without waiting."""
        self.memory.hold(size_bytes)
        self.release()
        self.size_bytes = size_bytes

    def release(self) -> None:
        """Give up the room; no effect if it was given up before."""
        size_bytes, self.size_bytes = self.size_bytes, 0
        self.memory.release(size_bytes)
