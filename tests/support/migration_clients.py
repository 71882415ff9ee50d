"""Consumers of both protocols as the migration machine sees them, and the bench that they talk to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minikafka.broker.coordinator.groups.classic_requests import (
    heartbeat_either,
    join_either,
    leave_either,
    sync_either,
)
from minikafka.broker.coordinator.groups.consumer.consumer_heartbeat import consumer_heartbeat
from minikafka.broker.coordinator.groups.group_settings import GroupSettings, MigrationPolicy
from minikafka.broker.coordinator.groups.state.classic_member import Caller
from minikafka.protocol.message import decode, encode
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from minikafka.protocol.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support.coordinator_bench import GROUP
from support.topics_bench import TopicsBench

Partition = tuple[str, int]
SESSION_MS, REBALANCE_MS = 10_000, 20_000


def subscription(topics: Iterable[str]) -> bytes:
    return bytes(2) + encode(ConsumerProtocolSubscription(topics=sorted(topics)), 0)


def assignment(partitions: Iterable[Partition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    named = [AssignmentTopicPartition(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    return bytes(2) + encode(ConsumerProtocolAssignment(assigned_partitions=named), 0)


def partitions_of(data: bytes) -> set[Partition]:
    """What an assignment says."""
    if not data:
        return set()
    found = decode(ConsumerProtocolAssignment, int.from_bytes(data[:2], "big"), data, 2)
    return {(topic.topic, number) for topic in found.assigned_partitions for number in topic.partitions}


@dataclass
class ClassicClient:
    """A consumer that gives up all that it has before it joins.

    Attributes:
        leads: The members that it assigns partitions to, if it is the leader.
        joining, syncing: Tickets of requests that are not answered yet.
    """

    name: str
    member_id: str = ""
    generation: int = -1
    owned: set[Partition] = field(default_factory=set)
    leads: list[str] = field(default_factory=list)
    joining: Any = None
    syncing: Any = None
    synced: bool = False

    @property
    def waits(self) -> bool:
        return self.joining is not None or self.syncing is not None

    def start_over(self, *, keep_id: bool) -> None:
        self.generation, self.synced, self.leads, self.owned = -1, False, [], set()
        self.joining = self.syncing = None
        if not keep_id:
            self.member_id = ""


@dataclass
class ConsumerClient:
    """A consumer of the new protocol.

    Attributes:
        given: An assignment that it has not acted on yet.
    """

    name: str
    epoch: int = 0
    owned: set[Partition] = field(default_factory=set)
    given: set[Partition] | None = None

    @property
    def member_id(self) -> str:
        return self.name


class MigrationBench(TopicsBench):
    """A coordinator that takes requests of both protocols.

    Attributes:
        topics: What everybody subscribes to.
    """

    def __init__(self, topics: Iterable[str], policy: MigrationPolicy) -> None:
        self.topics = tuple(topics)
        super().__init__(GroupSettings(initial_rebalance_delay_ms=0, migration_policy=policy))

    def join_group(self, client: ClassicClient) -> Any:
        """Returns the ticket."""
        protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription(self.topics))]
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=client.member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        caller = Caller(client.name, "/host", 5)
        return self.do(lambda builder, ticket: join_either(builder, request, caller, ticket))

    def sync_group(self, client: ClassicClient, shares: Mapping[str, set[Partition]]) -> Any:
        """Returns the ticket."""
        request = SyncGroupRequest(group_id=GROUP, generation_id=client.generation, member_id=client.member_id)
        request.assignments = [
            SyncGroupRequestAssignment(member_id=name, assignment=assignment(share)) for name, share in shares.items()
        ]
        return self.do(lambda builder, ticket: sync_either(builder, request, ticket))

    def classic_heartbeat(self, client: ClassicClient, generation: int) -> int:
        """Returns the error code."""
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=client.member_id)
        return int(self.ask(lambda builder, ticket: heartbeat_either(builder, request, ticket)).error_code)

    def leave_group(self, client: ClassicClient) -> None:
        request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=client.member_id)])
        self.ask(lambda builder, ticket: leave_either(builder, request, ticket))

    def consumer_heartbeat(self, client: ConsumerClient, epoch: int) -> ConsumerGroupHeartbeatResponse:
        """With all that the client has; says what it subscribes to if it joins."""
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=client.name, member_epoch=epoch)
        if epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names = REBALANCE_MS, list(self.topics)
        by_topic: dict[str, list[int]] = {}
        for topic, number in client.owned:
            by_topic.setdefault(topic, []).append(number)
        request.topic_partitions = [
            TopicPartitions(topic_id=self.image.topics[topic].id, partitions=sorted(numbers))
            for topic, numbers in by_topic.items()
        ]
        caller = Caller("client", "/host", 1)
        answer: ConsumerGroupHeartbeatResponse = self.ask(
            lambda builder, ticket: consumer_heartbeat(builder, request, caller, ticket)
        )
        return answer
