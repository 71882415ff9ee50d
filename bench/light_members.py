"""Members of groups, many in one process: the client's memberships, each with a task and a connection of its own."""

from __future__ import annotations

import random
import struct
import time
from typing import Any

import trio

from minikafka.client.groups.classic_membership import ClassicMembership
from minikafka.client.groups.consumer_membership import ConsumerMembership
from minikafka.client.options import ConsumerOptions, make
from minikafka.protocol.apis import api_of
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.messages.sync_group import SyncGroupRequest

HEARTBEAT_MS = 200
SESSION_MS = 2_100
"""Half an interval of heartbeats more than ten of them: else a session would end just when the others send theirs."""
RETRY_S = 0.05
SETTLE_TIMEOUT_S = 60
VERSIONS = {
    ConsumerGroupHeartbeatRequest: 1,
    JoinGroupRequest: 6,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    LeaveGroupRequest: 4,
}


class Group:
    """The members of one group, which share a topic.

    Attributes:
        changed: set when a member was answered.
        latencies_s: of heartbeats that were not delayed by the coordinator.
    """

    def __init__(self, address: tuple[str, int], group_id: str, topic: str, partitions: int) -> None:
        self.address, self.group_id, self.topic, self.partitions = address, group_id, topic, partitions
        self.members: list[Member] = []
        self.changed = trio.Event()
        self.latencies_s: list[float] = []

    async def settle(self, before: int = 0) -> float:
        """Wait until all members know the same epoch after `before`, and have all partitions; return the time."""
        while not self.is_settled(before):
            self.changed = trio.Event()
            with trio.fail_after(SETTLE_TIMEOUT_S):
                await self.changed.wait()
        return time.perf_counter()

    def is_settled(self, before: int) -> bool:
        epochs = {one.epoch for one in self.members}
        owned = sum(one.owned for one in self.members)
        return len(epochs) == 1 and min(epochs) > before and owned == self.partitions


class Member:
    """A member of a group; `run` lasts until it leaves or is cancelled, which is its death.

    Attributes:
        epoch: its epoch or generation; -1 while it has no assignment in it.
        owned: how many partitions it has.
        heard_at: when the coordinator heard of it last.
    """

    def __init__(self, group: Group, heartbeat_ms: int = HEARTBEAT_MS) -> None:
        self.group = group
        self.epoch, self.owned, self.heard_at = -1, 0, 0.0
        self.leaves, self.scope = trio.Event(), trio.CancelScope()
        self.heartbeat_ms = heartbeat_ms
        self._stream: trio.SocketStream | None = None
        self._received = b""
        group.members.append(self)

    async def run(self) -> None:
        with self.scope:
            self._stream = await trio.open_tcp_stream(*self.group.address)
            async with self._stream:
                while not self.leaves.is_set():
                    try:
                        await self.step()
                    except KafkaError as error:
                        self.failed(error)
                        await trio.sleep(RETRY_S if error.retriable else 0)
                await self.leave()

    async def step(self) -> None:
        """One exchange with the coordinator. Raises KafkaError."""
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    def failed(self, error: KafkaError) -> None:
        raise NotImplementedError

    async def rest(self) -> None:
        """Until the next heartbeat."""
        with trio.move_on_after(self.heartbeat_ms / 1000):
            await self.leaves.wait()

    def noted(self, epoch: int, owned: int) -> None:
        self.epoch, self.owned = epoch, owned
        self.group.changed.set()

    async def ask(self, request: Any) -> Any:
        """Send a request and return the response; its error is raised by who follows it."""
        assert self._stream is not None
        version, began = VERSIONS[type(request)], time.perf_counter()
        await self._stream.send_all(encode_request(request, version, 1, "bench"))
        while len(self._received) < 4 or len(self._received) < 4 + struct.unpack(">i", self._received[:4])[0]:
            data = await self._stream.receive_some()
            if not data:
                raise ConnectionError("connection closed by the node")
            self._received += bytes(data)
        frame, self._received = self._received[4:], b""
        self.heard_at = time.perf_counter()
        if type(request) in (HeartbeatRequest, ConsumerGroupHeartbeatRequest):
            self.group.latencies_s.append(self.heard_at - began)
        return decode_response(api_of(type(request)).response, version, frame)[1]


class ConsumerMember(Member):
    """A member under the consumer protocol, which gives up at once what it is told to."""

    def __init__(self, group: Group, heartbeat_ms: int = HEARTBEAT_MS) -> None:
        super().__init__(group, heartbeat_ms)
        given = {"group_id": group.group_id, "group_protocol": "consumer", "max_poll_interval_ms": 60_000}
        self.membership = ConsumerMembership(make(ConsumerOptions, given, "Consumer"), random.Random(id(self)))

    async def step(self) -> None:
        membership, subscription = self.membership, ([self.group.topic], None)
        request = membership.heartbeat_request(*subscription)
        membership.answered(request, await self.ask(request), subscription)
        if membership.target is not None:
            membership.own(membership.target)
        if membership.must_acknowledge:
            self.epoch = -1
            return
        self.noted(membership.epoch, sum(map(len, membership.owned.values())))
        await self.rest()

    def failed(self, error: KafkaError) -> None:
        self.membership.failed(error)

    async def leave(self) -> None:
        await self.ask(self.membership.leave_request())


class ClassicMember(Member):
    """A member under the classic protocol, with the range assignor; of a generation the leader assigns."""

    def __init__(self, group: Group, heartbeat_ms: int = HEARTBEAT_MS) -> None:
        super().__init__(group, heartbeat_ms)
        given = {
            "group_id": group.group_id,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "max_poll_interval_ms": 60_000,
            "partition_assignment_strategy": ["range"],
        }
        self.membership = ClassicMembership(make(ConsumerOptions, given, "Consumer"))

    async def step(self) -> None:
        membership = self.membership
        if self.epoch < 0:
            membership.joined(await self.ask(membership.join_request([self.group.topic])))
            counts = {self.group.topic: self.group.partitions}
            assigned = membership.synced(await self.ask(membership.sync_request(counts)))
            self.noted(membership.generation, len(assigned))
        else:
            response = await self.ask(membership.heartbeat_request())
            if response.error_code:
                raise error_for(response.error_code)
        await self.rest()

    def failed(self, error: KafkaError) -> None:
        self.membership.failed(error)
        self.epoch = -1

    async def leave(self) -> None:
        await self.ask(self.membership.leave_request(VERSIONS[LeaveGroupRequest]))


MEMBERS: dict[str, type[Member]] = {"classic": ClassicMember, "consumer": ConsumerMember}
