"""Long polls: requests that wait until partitions have grown, without a task for each.

Requests that differ only in their correlation id form a group, such as those of thousands of consumers at the end
of a partition. The partitions have one listener for a group. When they have grown, they are read once, and the response
is encoded once and sent to all members. A request whose response is not the usual one (an error, another leader) is
answered from its beginning in the task of its connection, as are those for which the dispatcher makes no group.
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
from minikafka.storage.disk import FileSlice

log = structlog.get_logger("minikafka.request")

TURN_S = 0.002
"""How long responses are sent before other tasks run."""
COPIED_SIZE_BYTES_MAX = 32 << 10
"""Larger responses are not joined for a group, so that logs are sent by `sendfile`."""
ENDED_GROUPS_MAX = 64
CORRELATION_ID = slice(4, 8)
"""The place of the correlation id: in a request without its size, and in a response with its size."""


class Receiver(Protocol):
    """A connection whose request waits."""

    def deliver(self, parts: list[Any] | None) -> None:
        """The response, or None: the request is to be answered from its beginning, by a task."""
        ...


@dataclass(slots=True)
class LongPoll:
    """A handler's answer to a request that has to wait.

    Attributes:
        watched: What has to grow.
        missing_bytes: By how much, at least 1.
        wait_s: How long it may wait; then it is answered with what there is.
        again: Reads again, given whether it is still in time. Returns the response; in time also another LongPoll; or
            None where the response is not the usual one.
        sent: Called with the number of requests that get the response that `again` returned last.
    """

    watched: Sequence[Watchable]
    missing_bytes: int
    wait_s: float
    again: Callable[[bool], Any]
    sent: Callable[[int], None]


class Parked:
    """One waiting request."""

    __slots__ = ("_group", "correlation_id", "deadline", "receiver")

    def __init__(self, group: _Group, receiver: Receiver, correlation_id: bytes, deadline: float) -> None:
        self._group = group
        self.receiver: Receiver | None = receiver
        self.correlation_id = correlation_id
        self.deadline = deadline

    def withdraw(self) -> None:
        """The connection is closed. No effect once the response was delivered."""
        self.receiver = None
        self._group.leave(self)


class _Group:
    """Requests that are equal but for their correlation ids; a listener of what they wait for."""

    __slots__ = ("_polls", "encode", "key", "members", "missing_bytes", "poll")

    def __init__(self, polls: LongPolls, key: bytes, poll: LongPoll, encode: Callable[[Any], list[Any]]) -> None:
        self._polls = polls
        self.key = key
        self.poll = poll
        self.encode = encode
        self.missing_bytes = poll.missing_bytes
        self.members: dict[Parked, None] = {}

    def grew(self, size_bytes: int) -> None:
        """See `GrowthListener`."""
        self.missing_bytes -= size_bytes
        if self.missing_bytes <= 0:
            self._polls.ready(self)

    def wake(self) -> None:
        """See `GrowthListener`."""
        self._polls.ready(self)

    def leave(self, member: Parked) -> None:
        """Forget a member, and the group with its last."""
        self.members.pop(member, None)
        if not self.members:
            self._polls.end(self)


class LongPolls:
    """All groups of a node. `run` sends the responses; without it none is sent.

    Invariant: a group is in `_groups`, and a listener of what it waits for, exactly while it has members and was not
    woken by enough growth or otherwise. So a request that joins it would find too little, too.
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
        """Let a request wait in the group of equal ones; None if there is none."""
        group = self._groups.get(_key(frame))
        return None if group is None else self._add(group, frame, receiver)

    def park(
        self, frame: bytearray, receiver: Receiver, poll: LongPoll, encode: Callable[[Any], list[Any]]
    ) -> Parked:
        """Let a request wait that has no group yet. `encode` makes a response with any correlation id."""
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
        """The group waits no longer; no effect if it does not wait."""
        if self._groups.get(group.key) is group:
            del self._groups[group.key]
            for watched in group.poll.watched:
                watched.unwatch(group)

    def ready(self, group: _Group) -> None:
        """The group is to be answered, by `run`: this is called while partitions change."""
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
        """There is still too little, though more than before."""
        group.poll, group.missing_bytes = poll, poll.missing_bytes
        if group.key in self._groups:  # of requests that came meanwhile
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
        """Answer the members whose time is over: the first, since all of a group may wait equally long."""
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
    """The response, a LongPoll, or None."""
    try:
        return group.poll.again(in_time)
    except KafkaError:
        return None
    except Exception:
        # A bug in minikafka: the request is answered again by tasks, and fails there.
        log.exception("request failed")
        return None


async def _deliver(members: dict[Parked, None], group: _Group, response: Any) -> None:
    """Send a response to all members, None for each to be answered by its own task."""
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
    """The parts of the response; None for each member to be answered by its own task."""
    try:
        return _joined(group.encode(response))
    except UnencodableMessage:
        return None


def _joined(parts: list[Any]) -> list[Any] | None:
    """The parts of a small response in one, with the records read; None if they cannot be read."""
    if sum(map(len, parts)) > COPIED_SIZE_BYTES_MAX:
        return parts
    try:
        return [b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)]
    except OSError:
        return None
