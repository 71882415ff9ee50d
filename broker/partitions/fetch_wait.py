"""Waiting for a log to grow: the whole of what Kafka's purgatory does for fetches, as an `await`.

A fetch that finds too little registers one `Waiter` with each of its partitions and sleeps. Whatever makes more of a
partition visible counts its bytes down; an end of leadership or of the topic wakes it outright.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Sequence
from heapq import heappop, heappush
from typing import Protocol

import trio


class Waiter:
    """One sleeping fetch.

    Attributes:
        missing_bytes: How much still has to become visible before it is worth waking.
    """

    __slots__ = ("_event", "missing_bytes")

    def __init__(self, missing_bytes: int) -> None:
        self.missing_bytes = missing_bytes
        self._event = trio.Event()

    def grew(self, size_bytes: int) -> None:
        """`size_bytes` more can be read in one of the partitions."""
        self.missing_bytes -= size_bytes
        if self.missing_bytes <= 0:
            self._event.set()

    def wake(self) -> None:
        """Something changed that the fetch must look at now."""
        self._event.set()

    async def sleep(self) -> None:
        """Until woken. Cancellation leaves nothing behind."""
        await self._event.wait()


def steady_ms() -> int:
    """Trio's clock in milliseconds: it never jumps."""
    return int(trio.current_time() * 1000)


def deadline_in(timeout_ms: int) -> float:
    """So long from now, on trio's clock in seconds."""
    return trio.current_time() + max(timeout_ms, 0) / 1000


async def before(deadline: float, what: Awaitable[None]) -> bool:
    """Wait for `what` until the deadline; whether it came in time."""
    with trio.move_on_at(deadline) as scope:
        await what
    return not scope.cancelled_caught


class GrowthListener(Protocol):
    """Who is told of growth: a `Waiter`, or a `ChangeListener`."""

    def grew(self, size_bytes: int) -> None: ...

    def wake(self) -> None: ...


class GrowthSignal:
    """Who is to be told of the growth of one thing: what consumers may see of a partition, or the end of its log."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[GrowthListener, None] = {}

    def watch(self, waiter: GrowthListener) -> None:
        """Tell `waiter` of every growth from now on."""
        self._waiters[waiter] = None

    def unwatch(self, waiter: GrowthListener) -> None:
        """No longer; unknown waiters are no error."""
        self._waiters.pop(waiter, None)

    def grew(self, size_bytes: int) -> None:
        """`size_bytes` more are there."""
        for waiter in self._waiters:
            waiter.grew(size_bytes)

    def wake(self) -> None:
        """Everybody must look again."""
        for waiter in self._waiters:
            waiter.wake()


class ChangedPartitions:
    """Which of many partitions have grown or changed since they were last looked at.

    A follower has one standing question for all partitions of its leader; thousands of them must not be looked at for
    each fetch because one has grown. Partitions are followed for as long as the question stands.

    Attributes:
        keys: Those with news, the oldest first. Whoever has looked takes them out.
    """

    __slots__ = ("_followed", "_waiter", "keys")

    def __init__(self) -> None:
        self.keys: dict[Hashable, None] = {}
        self._followed: dict[Hashable, tuple[GrowthSignal, ChangeListener, GrowthSignal, ChangeListener]] = {}
        self._waiter: Waiter | None = None

    def follow(self, key: Hashable, tail: GrowthSignal, visible: GrowthSignal, *, wakes_when_visible: bool) -> None:
        """Hear of a partition; of one that is changed of already nothing changes."""
        known = self._followed.get(key)
        if known is not None and known[0] is tail:
            return
        self.unfollow(key)
        of_tail, of_visible = ChangeListener(self, key, wakes=True), ChangeListener(self, key, wakes=wakes_when_visible)
        tail.watch(of_tail)
        visible.watch(of_visible)
        self._followed[key] = tail, of_tail, visible, of_visible

    def unfollow(self, key: Hashable) -> None:
        """Hear of it no longer; an unknown one is no error."""
        known = self._followed.pop(key, None)
        if known is not None:
            known[0].unwatch(known[1])
            known[2].unwatch(known[3])

    def close(self) -> None:
        """Hear of nothing any more."""
        for key in list(self._followed):
            self.unfollow(key)

    def watch(self, waiter: Waiter) -> None:
        """Wake `waiter`, one at a time, when any partition grows."""
        self._waiter = waiter

    def unwatch(self, waiter: Waiter) -> None:
        """No longer."""
        if self._waiter is waiter:
            self._waiter = None

    def changed(self, key: Hashable, size_bytes: int) -> None:
        """A partition has news; `size_bytes` of them are worth waking somebody, 0 are not."""
        self.keys[key] = None
        if size_bytes and self._waiter is not None:
            self._waiter.grew(size_bytes)


class ChangeListener:
    """A partition's entry in somebody's `ChangedPartitions`."""

    __slots__ = ("_key", "_news", "_wakes")

    def __init__(self, news: ChangedPartitions, key: Hashable, *, wakes: bool) -> None:
        self._news = news
        self._key = key
        self._wakes = wakes

    def grew(self, size_bytes: int) -> None:
        """See `Waiter`."""
        self._news.changed(self._key, size_bytes if self._wakes else 0)

    def wake(self) -> None:
        """See `Waiter`."""
        self._news.changed(self._key, WAKE_BYTES)


WAKE_BYTES = 1 << 62
"""Bytes: more than anybody waits for."""


class CommitWaiters:
    """Who waits until a partition is committed up to an offset; those who are not yet due sleep on."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, trio.Event]] = []
        self._count = 0

    async def until(self, offset: int) -> None:
        """Until `advanced` to `offset`, or `wake`. Cancellation leaves an entry behind until its offset is reached."""
        event = trio.Event()
        self._count += 1
        heappush(self._waiting, (offset, self._count, event))
        await event.wait()

    def advanced(self, high_watermark: int) -> None:
        """Everything below is committed."""
        while self._waiting and self._waiting[0][0] <= high_watermark:
            heappop(self._waiting)[2].set()

    def wake(self) -> None:
        """Everybody must look again."""
        waiting, self._waiting = self._waiting, []
        for _, _, event in waiting:
            event.set()


class Watchable(Protocol):
    """What a waiter can be registered with."""

    def watch(self, waiter: Waiter) -> None: ...

    def unwatch(self, waiter: Waiter) -> None: ...


async def sleep_until_grown(watched: Sequence[Watchable], missing_bytes: int, deadline: float) -> bool:
    """Sleep until `missing_bytes` more are visible in all of `watched` together, or something happened to one.

    Args:
        watched: Partitions, each at most once.
        missing_bytes: At least 1.
        deadline: On trio's clock, in seconds.

    Returns:
        False if the deadline came first. Cancellation leaves no waiter behind.
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
