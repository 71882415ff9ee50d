"""`LargeMessages`: decodes and encodes large messages in a thread, and divides the memory for them into pools: of
followers, readers, producers and others.

Messages are decoded and encoded one at a time, so that no step of a task is long.

The cost of a message grows with the elements of its arrays: about 1 µs and 200 bytes for each element. A message of up
to `ELEMENTS_AT_ONCE` elements is decoded and encoded at once; a larger message in a thread, which also frees the
elements. A request with more elements than the bound of its API is refused. The bytes of a message cost little unless
they are strings: 10 MiB of names take 22 ms. So a request of more than `SIZE_BYTES_AT_ONCE`, and its response, are
left to the thread as well; except for Produce, whose bytes are records, which are not copied.

Large requests share memory, which is divided into pools. A request holds the memory that the elements of the request
and of its response may take, from before the request is decoded until the response is encoded. A request that finds no
room waits its turn, with its frame not decoded yet. There is no deadlock, since a request that holds room of a pool
never waits for a request that needs room of the same pool:

- *reads*: Fetch, which waits for at most `FETCH_WAITS_MS_MAX`, and OffsetForLeaderEpoch wait for no other request.
- *replication*: the same two APIs, from followers. Most other requests wait for followers. A follower's request does
  not wait for consumers, which may not read their responses.
- *writes*: Produce waits for its followers, that is for *replication*.
- *others*: all other APIs wait for followers and for the controller's quorum, which sends no requests of these APIs.
- `UNCOUNTED` APIs hold nothing: members of a group wait for each other's requests, and transactions of other nodes
  wait for the requests of the other two APIs.

A response may be large though its request is small, such as a response that lists all groups. The bytes of a large
response count from before it is encoded until it is sent, in a second set of the same pools. Responses that wait for
room wait as messages. These take little memory even where names are long, since they refer to objects that the node
has anyway. Responses wait for nothing but clients that read; slow clients are disconnected (`idle_connections.py`).
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from minikafka.broker.connections.request_memory import HeldRoom, RequestMemory
from minikafka.storage.disks.disk import FileSlice
from minikafka.storage.waits import in_task

ELEMENTS_AT_ONCE = 4_000
SIZE_BYTES_AT_ONCE = 1 << 20
ELEMENTS_MAX = 10_000
"""The bound of most APIs. Apache Kafka has no bound for messages, and the same bound for the changes of one request."""
ELEMENTS_MAX_WITH_PAUSES = 100_000
"""The bound of APIs whose handlers pause; their modules declare it as `ELEMENTS_MAX`."""

ELEMENT_SIZE_BYTES = 1_300
"""The memory that an element of a request and its part of the response take; measured with Metadata, Fetch and
ListOffsets."""
MEMORY_SIZE_BYTES_MAX = 128 << 20
"""The size of each pool of requests: while less is held, one more request is admitted."""
UNSENT_SIZE_BYTES_MAX = 64 << 20
FETCH_WAITS_MS_MAX = 500
"""How long a large Fetch may wait for records; the default of Kafka's consumers and followers."""
UNCOUNTED = {11: "JoinGroup", 14: "SyncGroup", 24: "AddPartitionsToTxn", 27: "WriteTxnMarkers"}
"""The APIs whose requests hold no memory, by API key. Their requests have at most `ELEMENTS_MAX` elements."""
AWAIT_MEMBERS = frozenset({11, 14})
"""Those of them that wait until other members of a group send something, for as long as the members have agreed. They
give up the room of their bytes once they are decoded; what they keep counts in `MembersRoom`."""
_POOLS = {1: "reads", 23: "reads", 0: "writes"}
"""The pool of Fetch (1), OffsetForLeaderEpoch (23) and Produce (0), by API key; other APIs are in "others"."""
_POOL_NAMES = ("reads", "replication", "writes", "others")
_FOLLOWER = re.compile(r"broker-\d+-fetcher")
"""Matches the client ids of followers, those of Apache Kafka too (`broker-1-fetcher-0`)."""

Run = Callable[..., Awaitable[Any]]


class LargeMessages:
    """Decodes and encodes the large messages of a node, and bounds the memory that they take.

    Args:
        run: Calls a function in a worker thread, as `Disk.run`.
        unsent_size_bytes_max: While the unsent large responses of a pool have fewer bytes, one more is encoded.
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
            elements_max: How many elements there may be.
            follows: Whether a follower sent the request.

        Returns:
            A function to call with the number of elements once it is known; the excess memory is released.
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
        """Encode a large response; returns its parts, and the room that they hold until they are sent.

        After cancellation or an error of `encode`, no room is held.
        """
        await in_task()
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
        """Call a function in the worker thread, after earlier calls. Cancellation waits for the function to return.

        Raises: What the function raises.
        """
        await in_task()
        async with self._free:
            return await self._run(function, *args)

    async def timed(
        self, clock: Callable[[], float], function: Callable[..., Any], *args: object
    ) -> tuple[Any, float]:
        """As `run`; returns also the seconds that the call took, without the wait for earlier calls."""
        await in_task()
        async with self._free:
            began_s = clock()
            return await self._run(function, *args), clock() - began_s


def is_of_follower(client_id: str | None) -> bool:
    """Whether a request that is not decoded yet comes from a follower, according to the client id in its header."""
    return client_id is not None and _FOLLOWER.match(client_id) is not None


def _pool(api_key: int, follows: bool) -> str:
    pool = _POOLS.get(api_key, "others")
    return "replication" if follows and pool == "reads" else pool


def elements_at_once(size_bytes: int, *, is_produce: bool) -> int:
    """The most elements that a request of `size_bytes`, and its response, may have to be decoded and encoded without
    the thread."""
    return 0 if size_bytes > SIZE_BYTES_AT_ONCE and not is_produce else ELEMENTS_AT_ONCE


def free_elements(message: Any) -> None:
    """Empty the arrays of a message, which frees elements without other references. Freeing 100,000 takes 10 ms."""
    for name in message.__slots__:
        if isinstance(getattr(message, name), list):
            setattr(message, name, [])


async def _at_once(function: Callable[..., Any], *args: object) -> Any:
    return function(*args)


LARGE_MESSAGES = LargeMessages(_at_once)
"""The default of `Dispatcher`: calls functions directly, without threads."""
