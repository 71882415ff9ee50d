"""Lets requests wait: a Fetch until partitions grow (`min_bytes`), a Produce until its offset is flushed or committed.

A fetch that finds too little registers one `Waiter` with each of its partitions and sleeps. Growth of a partition
counts down the waiter's missing bytes; the end of leadership or of the topic wakes it at once. At a partition with
followers, any advance of the high watermark wakes the fetch (`UNKNOWN_BYTES`), which reads again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

import trio

from minikafka.protocol.errors import KafkaStorageError
from minikafka.storage.logs.log import Log
from minikafka.storage.waits import in_task


class Waiter:
    """One sleeping fetch.

    Attributes:
        missing_bytes: Bytes that still have to become visible before the fetch wakes.
    """

    __slots__ = ("_event", "missing_bytes")

    def __init__(self, missing_bytes: int) -> None:
        self.missing_bytes = missing_bytes
        self._event = trio.Event()

    def grew(self, size_bytes: int) -> None:
        """Count `size_bytes` that have become readable in one of the partitions."""
        self.missing_bytes -= size_bytes
        if self.missing_bytes <= 0:
            self._event.set()

    def wake(self) -> None:
        """Wake now: the fetch has to read again."""
        self._event.set()

    async def sleep(self) -> None:
        """Sleep until woken. Cancellation is safe."""
        await self._event.wait()


def steady_ms() -> int:
    """Trio's monotonic clock, in milliseconds."""
    return int(trio.current_time() * 1000)


def deadline_in(timeout_ms: int) -> float:
    """Return the time `timeout_ms` from now, in seconds on trio's clock."""
    return trio.current_time() + max(timeout_ms, 0) / 1000


async def before(deadline: float, what: Callable[[], Awaitable[None]]) -> bool:
    """Call `what` and await it until the deadline; returns whether it completed in time."""
    await in_task()
    with trio.move_on_at(deadline) as scope:
        await what()
    return not scope.cancelled_caught


class GrowthListener(Protocol):
    """An object that a `GrowthSignal` notifies, such as a `Waiter` or a `ChangeListener`."""

    def grew(self, size_bytes: int) -> None: ...

    def wake(self) -> None: ...


class GrowthSignal:
    """Notifies listeners of the growth of a partition's consumer-visible records, or of its log.

    Attributes:
        grown: The bytes of all growth so far. A reader compares the value before and after other tasks ran, to find out
            whether it may sleep.
    """

    __slots__ = ("_waiters", "grown")

    def __init__(self) -> None:
        self.grown = 0
        self._waiters: dict[GrowthListener, None] = {}

    @property
    def watcher_count(self) -> int:
        """The number of registered listeners."""
        return len(self._waiters)

    def watch(self, waiter: GrowthListener) -> None:
        """Register a listener."""
        self._waiters[waiter] = None

    def unwatch(self, waiter: GrowthListener) -> None:
        """Remove a listener; unknown ones are ignored."""
        self._waiters.pop(waiter, None)

    def grew(self, size_bytes: int) -> None:
        """Notify all listeners of `size_bytes` more; 0 if only the log start has moved, which wakes no fetch."""
        self.grown += size_bytes
        for waiter in self._waiters:
            waiter.grew(size_bytes)

    def wake(self) -> None:
        """Wake all waiting tasks."""
        self.grown += WAKE_BYTES
        for waiter in self._waiters:
            waiter.wake()


class ChangedPartitions:
    """The partitions of a fetch session that have grown or changed since they were last read.

    A session may have thousands of partitions; when one partition grows, a fetch must not read the others. Partitions
    are tracked until the session ends.

    Attributes:
        grown: The bytes by which all partitions together have grown, as in `GrowthSignal`.
        keys: The keys of the changed partitions, oldest first. The reader removes them.
        closed: Whether the session has ended, and no partition is tracked any more.
    """

    __slots__ = ("_followed", "_waiter", "closed", "grown", "keys")

    def __init__(self) -> None:
        self.closed = False
        self.grown = 0
        self.keys: dict[Hashable, None] = {}
        self._followed: dict[Hashable, list[tuple[GrowthSignal, ChangeListener]]] = {}
        self._waiter: GrowthListener | None = None

    def follow(self, key: Hashable, *signals: tuple[GrowthSignal, bool]) -> None:
        """Track a partition; no effect if it is already tracked, or after `close`.

        Args:
            signals: The signals to listen to, each with whether its growth wakes the waiter.
        """
        known = self._followed.get(key)
        if self.closed or (known is not None and known[0][0] is signals[0][0]):
            return
        self.unfollow(key)
        listeners = [(signal, ChangeListener(self, key, wakes=wakes)) for signal, wakes in signals]
        for signal, listener in listeners:
            signal.watch(listener)
        self._followed[key] = listeners

    def unfollow(self, key: Hashable) -> None:
        """Stop tracking a partition; unknown ones are ignored."""
        for signal, listener in self._followed.pop(key, ()):
            signal.unwatch(listener)

    def close(self) -> None:
        """Stop tracking all partitions, for good, and wake the waiter."""
        self.closed = True
        if self._waiter is not None:
            self._waiter.wake()
        for key in list(self._followed):
            self.unfollow(key)

    def watch(self, waiter: GrowthListener) -> None:
        """Register the one waiter to wake when a partition grows."""
        self._waiter = waiter

    def unwatch(self, waiter: GrowthListener) -> None:
        """Remove the waiter."""
        if self._waiter is waiter:
            self._waiter = None

    def changed(self, key: Hashable, size_bytes: int) -> None:
        """Record a change of a partition, and count `size_bytes` for the waiter; 0 does not wake the waiter."""
        self.keys[key] = None
        self.grown += size_bytes
        if size_bytes and self._waiter is not None:
            self._waiter.grew(size_bytes)


class ChangeListener:
    """Listens to a signal of one partition, and records its changes in `ChangedPartitions`."""

    __slots__ = ("_key", "_news", "_wakes")

    def __init__(self, news: ChangedPartitions, key: Hashable, *, wakes: bool) -> None:
        self._news = news
        self._key = key
        self._wakes = wakes

    def grew(self, size_bytes: int) -> None:
        """Record that the partition has grown by `size_bytes`."""
        self._news.changed(self._key, size_bytes if self._wakes else 0)

    def wake(self) -> None:
        """Record a change that wakes the waiter in any case."""
        self._news.changed(self._key, WAKE_BYTES)


WAKE_BYTES = 1 << 62
"""More bytes than any fetch waits for."""


CANCELLED_MAX = 64
"""Up to this many cancelled waits may stay in a heap of any size; more only while they are at most half of the heap."""


class CommitWaiters:
    """Tasks that wait until a partition is committed up to an offset, in a heap.

    Invariant: an event in the heap is set only if its task was cancelled; `_cancelled` is the number of such events.
    """

    __slots__ = ("_cancelled", "_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, trio.Event]] = []
        self._count = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._waiting)

    async def until(self, offset: int) -> None:
        """Wait until `advanced` reaches `offset`, or for `wake`. Cancelled waits are removed together, once many."""
        event = trio.Event()
        self._count += 1
        heappush(self._waiting, (offset, self._count, event))
        try:
            await event.wait()
        except trio.Cancelled:
            if not event.is_set():
                event.set()
                self._remove_cancelled()
            raise

    def _remove_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > max(len(self._waiting) // 2, CANCELLED_MAX):
            self._waiting = [entry for entry in self._waiting if not entry[2].is_set()]
            heapify(self._waiting)
            self._cancelled = 0

    def advanced(self, high_watermark: int) -> None:
        """Wake the tasks that wait for offsets up to the high watermark."""
        while self._waiting and self._waiting[0][0] <= high_watermark:
            event = heappop(self._waiting)[2]
            self._cancelled -= event.is_set()
            event.set()

    def wake(self) -> None:
        """Wake all waiting tasks."""
        waiting, self._waiting = self._waiting, []
        self._cancelled = 0
        for _, _, event in waiting:
            event.set()


class SharedFlush:
    """Flushes one log for many tasks: tasks that come during a flush wait; then one of them begins the next flush."""

    __slots__ = ("_flushing", "_log")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._flushing: trio.Event | None = None

    def switch(self, log: Log) -> None:
        """Flush another log from now on, which has the same records."""
        self._log = log

    async def until(self, offset: int) -> None:
        """Flush until the recovery point has reached `offset`, or the log's end if that is lower after a truncation.

        A flush that has begun is completed even if its task is cancelled.

        Raises:
            KafkaStorageError: The device failed, and the log is offline; or the log was deleted meanwhile.
        """
        while (log := self._log).recovery_point < min(offset, log.end_offset):
            if self._flushing is not None:
                await self._flushing.wait()
                continue
            self._flushing = trio.Event()
            try:
                await log.flush_async()
            except KafkaStorageError:
                if log is self._log:
                    raise  # Otherwise the log was closed when its copy replaced it.
            finally:
                flushing, self._flushing = self._flushing, None
                flushing.set()


class Watchable(Protocol):
    """An object with which a waiter can be registered: a partition, a `GrowthSignal` or `ChangedPartitions`."""

    grown: int

    def watch(self, waiter: GrowthListener) -> None: ...

    def unwatch(self, waiter: GrowthListener) -> None: ...


async def sleep_until_grown(watched: Sequence[Watchable], missing_bytes: int, deadline: float) -> bool:
    """Sleep until `missing_bytes` more are visible in all of `watched` together, or one of them wakes the waiter.

    Args:
        watched: Partitions or sessions of partitions, each at most once.
        missing_bytes: How many bytes have to become visible, at least 1.
        deadline: The end of the wait, in seconds on trio's clock.

    Returns:
        False if the deadline came first. Cancellation removes the waiter.
    """
    waiter = Waiter(missing_bytes)
    for partition in watched:
        partition.watch(waiter)
    try:
        with trio.move_on_at(deadline) as scope:
            await waiter.sleep()
    finally:
        for partition in watched:
            partition.unwatch(waiter)
    return not scope.cancelled_caught
