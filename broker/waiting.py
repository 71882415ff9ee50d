"""Waiting for a log to grow: the whole of what Kafka's purgatory does for fetches, as an `await`.

A fetch that finds too little registers one `Waiter` with each of its partitions and sleeps. Whatever makes more of a
partition visible counts its bytes down; an end of leadership or of the topic wakes it outright.
"""

from collections.abc import Sequence
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


class Watched(Protocol):
    """What a waiter can be registered with."""

    def watch(self, waiter: Waiter) -> None: ...

    def unwatch(self, waiter: Waiter) -> None: ...


async def sleep_until_grown(watched: Sequence[Watched], missing_bytes: int, deadline: float) -> bool:
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
