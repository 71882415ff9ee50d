"""Long polls: requests that wait until partitions have grown, without a task for each request.

Requests that differ only in their correlation id form a group, such as the Fetches of thousands of consumers at the end
of a partition. Each partition has one listener for a group. When the partitions have grown, they are read once, and the
response is encoded once and sent to all members; if they still have too few bytes, the group waits on. A request whose
response is not the usual one (an error, another leader) is answered from its beginning in the task of its connection;
so is a request that is in no group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

import structlog
import trio

from minikafka.broker.partitions.request_waiters import Watchable
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.message import UnencodableMessage
from minikafka.storage.disks.disk import FileSlice
from minikafka.storage.waits import Offered

log = structlog.get_logger("minikafka.request")

TURN_S = 0.002
"""How long responses of a group are sent before other tasks run."""
COPIED_SIZE_BYTES_MAX = 32 << 10
"""The parts of larger responses are not joined into one, so that slices of logs are sent by `sendfile`."""
ENDED_GROUPS_MAX = 64
CORRELATION_ID = slice(4, 8)
"""The position of the correlation id in a request (without the frame's size), and in a response (with the size)."""


class Receiver(Protocol):
    """A connection whose request waits."""

    def deliver(self, parts: list[Any] | None) -> None:
        """Take the parts of the response; None: the connection's task answers the request from its beginning."""
        ...


@dataclass(slots=True)
class LongPoll(Offered):
    """The wait of a handler for records, which it offers (`offered`): its request may then wait in a group.

    Attributes:
        watched: The partitions, or sessions of partitions, that have to grow.
        missing_bytes: By how many bytes they have to grow, at least 1.
        wait_s: How long the request may wait; after that it is answered with the records that there are.
        again: Reads again; its argument is whether the request is still in time. Returns the response; or another
            `LongPoll`, only in time; or None if the response is not the usual one.
        sent: Called with the number of requests that get the response that `again` returned last.
    """

    watched: Sequence[Watchable]
    missing_bytes: int
    wait_s: float
    again: Callable[[bool], Any]
    sent: Callable[[int], None]


class Parked:
    """One waiting request, a member of a group."""

    __slots__ = ("_group", "correlation_id", "deadline", "receiver")

    def __init__(self, group: _Group, receiver: Receiver, correlation_id: bytes, deadline: float) -> None:
        self._group = group
        self.receiver: Receiver | None = receiver
        self.correlation_id = correlation_id
        self.deadline = deadline

    @property
    def frame(self) -> bytearray:
        """The request."""
        key = self._group.key
        return bytearray(key[: CORRELATION_ID.start] + self.correlation_id + key[CORRELATION_ID.start :])

    def withdraw(self) -> None:
        """Leave the group: the connection is closed. No effect once the response was delivered."""
        self.receiver = None
        self._group.leave(self)


class _Group:
    """Waiting requests that differ only in their correlation ids; the group listens to the partitions' growth."""

    __slots__ = ("_polls", "encode", "key", "members", "missing_bytes", "poll")

    def __init__(self, polls: LongPolls, key: bytes, poll: LongPoll, encode: Callable[[Any], list[Any]]) -> None:
        self._polls = polls
        self.key = key
        self.poll = poll
        self.encode = encode
        self.missing_bytes = poll.missing_bytes
        self.members: dict[Parked, None] = {}

    def grew(self, size_bytes: int) -> None:
        """Count `size_bytes` of growth; the group is ready when no bytes are missing. Implements `GrowthListener`."""
        self.missing_bytes -= size_bytes
        if self.missing_bytes <= 0:
            self._polls.ready(self)

    def wake(self) -> None:
        """Make the group ready now. Implements `GrowthListener`."""
        self._polls.ready(self)

    def leave(self, member: Parked) -> None:
        """Remove a member; the group ends with its last member."""
        self.members.pop(member, None)
        if not self.members:
            self._polls.end(self)


class LongPolls:
    """All groups of waiting requests of a node. `run` sends the responses; while it does not run, none is sent.

    Invariant: a group is in `_groups`, and listens to its partitions, exactly while it has members and was not woken
    (by enough growth or otherwise). So a request that joins the group would find too few bytes, too.
    """

    def __init__(self) -> None:
        self._groups: dict[bytes, _Group] = {}
        self._ready: deque[_Group] = deque()
        self._ready_event = trio.Event()
        self._deadlines: list[tuple[float, int, _Group]] = []
        self._count = 0
        self._expiry: trio.CancelScope | None = None

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(len(group.members) for group in self._groups.values())

    def join(self, frame: bytearray, receiver: Receiver) -> Parked | None:
        """Let a request wait in the group of equal requests; None if there is no such group."""
        group = self._groups.get(_key(frame))
        return None if group is None else self._add(group, frame, receiver)

    def park(
        self, frame: bytearray, receiver: Receiver, poll: LongPoll, encode: Callable[[Any], list[Any]]
    ) -> Parked:
        """Let a request wait in a new group. `encode` encodes a response, with any correlation id."""
        group = _Group(self, _key(frame), poll, encode)
        self._watch(group)
        member = self._add(group, frame, receiver)
        self._expire_at(member.deadline, group)
        return member

    async def run(self) -> None:
        """Send responses until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._expire)
            while True:
                await self._ready_event.wait()
                self._ready_event = trio.Event()
                while self._ready:
                    await self._answer(self._ready.popleft())

    # -- groups --------------------------------------------------------------------------------------------------

    def _add(self, group: _Group, frame: bytearray, receiver: Receiver) -> Parked:
        member = Parked(group, receiver, bytes(frame[CORRELATION_ID]), trio.current_time() + group.poll.wait_s)
        group.members[member] = None
        return member

    def _watch(self, group: _Group) -> None:
        self._groups[group.key] = group
        for watched in group.poll.watched:
            watched.watch(group)

    def end(self, group: _Group) -> None:
        """End a group's wait; no effect if the group does not wait."""
        if self._groups.get(group.key) is group:
            del self._groups[group.key]
            for watched in group.poll.watched:
                watched.unwatch(group)

    def ready(self, group: _Group) -> None:
        """Have `run` answer the group, and not this call, which happens while partitions change."""
        if self._groups.get(group.key) is group:
            del self._groups[group.key]  # still a listener: listeners are being called
            self._ready.append(group)
            self._ready_event.set()

    # -- responses -----------------------------------------------------------------------------------------------

    async def _answer(self, group: _Group) -> None:
        for watched in group.poll.watched:
            watched.unwatch(group)
        if not group.members:
            return
        response = _again(group, in_time=True)
        if isinstance(response, LongPoll):
            self._wait_on(group, response)
            return
        members, group.members = group.members, {}
        await _deliver(members, group, response)

    def _wait_on(self, group: _Group, poll: LongPoll) -> None:
        """Let the group wait on: the partitions have grown, but not enough."""
        group.poll, group.missing_bytes = poll, poll.missing_bytes
        if group.key in self._groups:  # requests that came meanwhile have made a new group
            members, group.members = group.members, {}
            for member in members:
                if member.receiver is not None:
                    member.receiver.deliver(None)
        elif group.members:
            self._watch(group)
            self._expire_at(next(iter(group.members)).deadline, group)

    # -- deadlines -----------------------------------------------------------------------------------------------

    def _expire_at(self, deadline: float, group: _Group) -> None:
        if len(self._deadlines) > 2 * len(self._groups) + ENDED_GROUPS_MAX:
            self._deadlines = [entry for entry in self._deadlines if self._is_waiting(entry[2])]
            heapify(self._deadlines)
        self._count += 1
        heappush(self._deadlines, (deadline, self._count, group))
        if self._expiry is not None and deadline < self._expiry.deadline:
            self._expiry.deadline = deadline

    async def _expire(self) -> None:
        while True:
            while self._deadlines and not self._is_waiting(self._deadlines[0][2]):
                heappop(self._deadlines)
            first = self._deadlines[0][0] if self._deadlines else float("inf")
            with trio.CancelScope(deadline=first) as self._expiry:
                await trio.sleep_forever()
            now = trio.current_time()
            while self._deadlines and self._deadlines[0][0] <= now:
                group = heappop(self._deadlines)[2]
                if self._is_waiting(group):
                    await self._answer_due(group, now)

    def _is_waiting(self, group: _Group) -> bool:
        return self._groups.get(group.key) is group

    async def _answer_due(self, group: _Group, now: float) -> None:
        """Answer the members whose time is over: the oldest, since all members of a group may wait equally long."""
        due = dict.fromkeys(member for member in group.members if member.deadline <= now)
        for member in due:
            group.leave(member)
        if group.members:
            self._expire_at(next(iter(group.members)).deadline, group)
        if due:
            await _deliver(due, group, _again(group, in_time=False))


def _key(frame: bytearray) -> bytes:
    return bytes(frame[:4]) + frame[8:]


def _again(group: _Group, *, in_time: bool) -> Any:
    """Call the group's `again`; returns the response, a `LongPoll`, or None after an error."""
    try:
        return group.poll.again(in_time)
    except KafkaError:
        return None
    except Exception:
        # A bug in minikafka: the request is answered again by tasks, and fails there.
        log.exception("request failed")
        return None


async def _deliver(members: dict[Parked, None], group: _Group, response: Any) -> None:
    """Send a response to all members; None: each member is answered by the task of its connection."""
    parts = None if response is None else _encoded(group, response)
    if parts is not None:
        group.poll.sent(len(members))
    end = trio.current_time() + TURN_S
    for member in members:
        if member.receiver is None:
            continue
        if parts is None:
            member.receiver.deliver(None)
        else:
            head = parts[0]
            member.receiver.deliver([head[:4] + member.correlation_id + head[8:], *parts[1:]])
        if trio.current_time() > end:
            await trio.lowlevel.checkpoint()
            end = trio.current_time() + TURN_S


def _encoded(group: _Group, response: Any) -> list[Any] | None:
    """Encode the response; returns its parts, or None if the response cannot be encoded or its records not read."""
    try:
        return _joined(group.encode(response))
    except UnencodableMessage:
        return None


def _joined(parts: list[Any]) -> list[Any] | None:
    """Join the parts of a small response into one, with the records read; None if the records cannot be read."""
    if sum(map(len, parts)) > COPIED_SIZE_BYTES_MAX:
        return parts
    try:
        return [b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)]
    except OSError:
        return None
