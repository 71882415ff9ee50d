"""Decodes and encodes large messages in a worker thread, one at a time, so that no step of a task is long.

A message costs time and memory by the elements of its arrays, about 1 µs and 200 bytes for each. Up to
`ELEMENTS_AT_ONCE` it is decoded and encoded at once, above in a thread, which also frees the elements; above the bound
of its API it is refused. Its bytes cost little unless they are strings: 10 MiB of names take 22 ms. So a request of
more than `SIZE_BYTES_AT_ONCE`, and what is answered to it, is left to the thread as well. Those of Produce are records,
which are not copied.

Large requests share memory. A request holds what the elements of itself and its response may take, from before it is
decoded until its response is encoded. Others that find no room wait in their order; their frames are not decoded yet.
That cannot be a deadlock, since what holds room of a pool never waits for a request that needs room of the same pool:

- *reads*: Fetch, for at most `FETCH_WAITS_MS_MAX`, and OffsetForLeaderEpoch wait for no other request.
- *replication*: these of followers, for whom most of the others wait. They wait for no consumer, which may not read.
- *writes*: Produce waits for its followers, that is for replication.
- *others* wait for followers and for the controller: for its quorum, which sends no requests of these APIs.
- `UNCOUNTED` APIs hold nothing: members of a group wait for each other's, and other nodes' transactions for the rest.

A response may be large though its request is small, as one that lists all groups is. Its bytes count from before it is
encoded until it is sent, for each of the same pools. Others wait as messages, which is little where names are long:
they refer to what the node has anyway. They wait for nothing but clients that read; slow ones are disconnected
(`idle_connections.py`).
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from minikafka.broker.connections.request_memory import HeldRoom, RequestMemory
from minikafka.storage.disk import FileSlice

ELEMENTS_AT_ONCE = 4_000
SIZE_BYTES_AT_ONCE = 1 << 20
ELEMENTS_MAX = 10_000
"""The bound of most APIs. Apache Kafka has none on the wire; of changes by one request it has the same."""
ELEMENTS_MAX_WITH_PAUSES = 100_000
"""The bound of APIs whose handlers pause: their `ELEMENTS_MAX`."""

ELEMENT_SIZE_BYTES = 1_300
"""What an element takes in memory with what is answered about it, measured with Metadata, Fetch and ListOffsets."""
MEMORY_SIZE_BYTES_MAX = 128 << 20
"""Of each pool: while less is held, one more request is admitted."""
UNSENT_SIZE_BYTES_MAX = 64 << 20
FETCH_WAITS_MS_MAX = 500
"""How long a large Fetch may wait for records; the default of Kafka's consumers and followers."""
UNCOUNTED = {11: "JoinGroup", 14: "SyncGroup", 24: "AddPartitionsToTxn", 27: "WriteTxnMarkers"}
"""By API key; of `ELEMENTS_MAX` elements at most."""
_POOLS = {1: "reads", 23: "reads", 0: "writes"}
"""By API key, Fetch, OffsetForLeaderEpoch and Produce; all else is in "others"."""
_POOL_NAMES = ("reads", "replication", "writes", "others")
_FOLLOWER = re.compile(r"broker-\d+-fetcher")
"""The client ids of followers, of Apache Kafka as well (`broker-1-fetcher-0`)."""

_PRODUCE = b"\x00\x00"

Run = Callable[..., Awaitable[Any]]


class LargeMessages:
    """The large messages of a node.

    Args:
        run: Calls a function in a worker thread, as `Disk.run`.
        unsent_size_bytes_max: Of large responses of each pool: while less is unsent, one more is encoded.
    """

    def __init__(self, run: Run, unsent_size_bytes_max: int = UNSENT_SIZE_BYTES_MAX) -> None:
        self._run = run
        self._free = trio.Semaphore(1)
        self._memory = {name: RequestMemory(MEMORY_SIZE_BYTES_MAX) for name in _POOL_NAMES}
        self._unsent_size_bytes_max = unsent_size_bytes_max
        self._unsent = {name: RequestMemory(unsent_size_bytes_max) for name in _POOL_NAMES}

    @asynccontextmanager
    async def room(
        self, api_key: int, elements_max: int, *, follows: bool = False
    ) -> AsyncIterator[Callable[[int], None]]:
        """Hold memory for the elements of a request and its response. Cancellation while it waits holds nothing.

        Args:
            elements_max: How many there may be.
            follows: Whether a follower sent it.

        Returns:
            To be called with their number once that is known.
        """
        if api_key in UNCOUNTED:
            yield lambda _: None
            return
        memory = self._memory[_pool(api_key, follows)]
        held_bytes = elements_max * ELEMENT_SIZE_BYTES
        await memory.reserve(held_bytes)

        def counted(elements: int) -> None:
            nonlocal held_bytes
            excess_bytes = held_bytes - elements * ELEMENT_SIZE_BYTES
            held_bytes -= excess_bytes
            memory.release(excess_bytes)

        try:
            yield counted
        finally:
            memory.release(held_bytes)

    async def encoded(
        self, api_key: int, encode: Callable[..., list[Any]], *args: object, follows: bool = False
    ) -> tuple[list[Any], HeldRoom]:
        """The parts of a large response, and the room that they hold until they are sent.

        Cancellation, and an error of `encode`, hold nothing.
        """
        room = HeldRoom(self._unsent[_pool(api_key, follows)], self._unsent_size_bytes_max)
        await room.memory.reserve(room.size_bytes)  # No other is encoded before the size of this one is known.
        try:
            parts = await self.run(encode, *args)
        except BaseException:
            room.release()
            raise
        room.become(sum(len(part) for part in parts if not isinstance(part, FileSlice)))
        return parts, room

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        """The function's result. Cancellation waits for the function to return.

        Raises: What the function raises.
        """
        async with self._free:
            return await self._run(function, *args)


def is_of_follower(client_id: str | None) -> bool:
    """Whether a request that is not decoded yet is a follower's, as far as its header says."""
    return client_id is not None and _FOLLOWER.match(client_id) is not None


def _pool(api_key: int, follows: bool) -> str:
    pool = _POOLS.get(api_key, "others")
    return "replication" if follows and pool == "reads" else pool


def elements_at_once(frame: bytearray) -> int:
    """How many elements a request and its response may have to be decoded and encoded at once."""
    is_long = len(frame) > SIZE_BYTES_AT_ONCE and frame[:2] != _PRODUCE
    return 0 if is_long else ELEMENTS_AT_ONCE


def free_elements(message: Any) -> None:
    """Give up the arrays of a message, which frees their elements unless others have them. 100,000 take 10 ms."""
    for name in message.__slots__:
        if isinstance(getattr(message, name), list):
            setattr(message, name, [])


async def _at_once(function: Callable[..., Any], *args: object) -> Any:
    return function(*args)


LARGE_MESSAGES = LargeMessages(_at_once)
"""Without threads."""
