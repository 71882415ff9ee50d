"""`GroupCoordinator`: the entry point of the API handlers: takes requests, returns responses with each API's errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from random import Random
from typing import Any, TypeVar

import trio

from minikafka.broker.coordinator.decision import Decision, Now, Ticket
from minikafka.broker.coordinator.environment import Environment
from minikafka.broker.coordinator.groups.classic.classic_join import check_join
from minikafka.broker.coordinator.groups.classic.rebalance import join_error
from minikafka.broker.coordinator.groups.classic_requests import (
    heartbeat_either,
    join_either,
    leave_either,
    sync_either,
)
from minikafka.broker.coordinator.groups.consumer.consumer_description import describe_consumer_group
from minikafka.broker.coordinator.groups.consumer.consumer_heartbeat import consumer_heartbeat
from minikafka.broker.coordinator.groups.consumer.subscription_changes import newest_topic, patterns_resolved
from minikafka.broker.coordinator.groups.consumer.subscription_pattern import resolve
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.group_admin import delete_groups, describe_group, group_filter, list_groups
from minikafka.broker.coordinator.groups.group_settings import ConsumerGroupTimes, GroupSettings
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.members_room import MembersRoom
from minikafka.broker.coordinator.groups.offsets.offset_commits import (
    AllOffsets,
    commit_offsets,
    commit_offsets_in_transaction,
    delete_offsets,
    fetch_offsets,
)
from minikafka.broker.coordinator.groups.offsets.removal_in_steps import delete_partition_offsets
from minikafka.broker.coordinator.groups.offsets.request_parts import deleted_in_parts, is_large, parts, whole
from minikafka.broker.coordinator.groups.state.classic_member import Caller, join_size_bytes
from minikafka.broker.coordinator.groups.state.consumer_member import heartbeat_size_bytes
from minikafka.broker.coordinator.runtime import CoordinatorRuntime, partition_for
from minikafka.controller.metadata.image import Image
from minikafka.controller.security.access import Access
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode, KafkaError, NotCoordinatorError
from minikafka.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from minikafka.protocol.messages.delete_groups import DeletableGroupResult
from minikafka.protocol.messages.describe_groups import DescribedGroup
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage.steps import Pauses, in_steps, pause
from minikafka.storage.waits import Several

TOPIC = "__consumer_offsets"
R = TypeVar("R")
A = TypeVar("A", OffsetCommitResponse, TxnOffsetCommitResponse)
Q = TypeVar("Q", OffsetCommitRequest, TxnOffsetCommitRequest, OffsetDeleteRequest)


class GroupCoordinator:
    """Coordinates the groups whose partitions of `__consumer_offsets` this node leads.

    Args:
        environment: The node.
        settings: The node's settings.
        random: Source of member ids.
        image: The cluster's topics and brokers.
        consumer_times: Returns the times of a consumer group; by default the times of the node's settings.
        has_lease: Whether no other node can have been elected as coordinator; see `BrokerLease`.
    """

    def __init__(
        self,
        environment: Environment,
        settings: GroupSettings,
        random: Random,
        image: Image,
        consumer_times: Callable[[str], ConsumerGroupTimes] | None = None,
        has_lease: Callable[[], bool] = lambda: True,
    ) -> None:
        self._has_lease = has_lease
        self._environment = environment
        self._settings = settings
        self._image = image
        self._resolving: set[str] = set()
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            environment,
            TOPIC,
            lambda partition, leader_epoch: GroupShard(
                settings, random, image, consumer_times, partial(self._start_resolving, partition)
            ),
            commit_timeout_ms=settings.commit_timeout_ms,
            load_buffer_size=settings.load_buffer_size,
            codec=settings.codec,
        )
        self._room = MembersRoom(
            lambda: (group for shard in self.runtime.states() for group in shard.groups()),
            trio.current_time,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Call `elected` only after this has started."""
        await self.runtime.run(task_status=task_status)

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Load a partition of `__consumer_offsets` whose leader this node has become."""
        self.runtime.elected(partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """Drop a partition that this node leads no longer."""
        self.runtime.resigned(partition, leader_epoch)

    # -- membership ----------------------------------------------------------------------------------------------

    async def join(self, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
        """JoinGroup: answered when the rebalance completes."""
        fault = check_join(request, self._settings)
        if fault:
            return join_error(fault, request.member_id)
        if not await in_steps(self._room.take(join_size_bytes(request, caller.client_id))):
            return join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        return await self._submit(
            request.group_id,
            lambda builder, ticket: join_either(builder, request, caller, ticket),
            lambda error: join_error(error, request.member_id),
        )

    async def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """SyncGroup: answered when the leader's assignment is committed."""
        size_bytes = sum(len(assignment.assignment) for assignment in request.assignments)
        if size_bytes and not await in_steps(self._room.take(size_bytes)):
            return SyncGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return await self._submit(
            request.group_id,
            lambda builder, ticket: sync_either(builder, request, ticket),
            lambda error: SyncGroupResponse(error_code=error),
        )

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Heartbeat: succeeds while the partition is loading, so that members stay in the group."""
        return await self._submit(
            request.group_id,
            lambda builder, ticket: heartbeat_either(builder, request, ticket),
            lambda error: HeartbeatResponse(
                error_code=ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
            ),
        )

    async def leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """LeaveGroup: members are in `request.members` in every version."""
        return await self._submit(
            request.group_id,
            lambda builder, ticket: leave_either(builder, request, ticket),
            lambda error: LeaveGroupResponse(error_code=error),
        )

    # -- consumer groups -----------------------------------------------------------------------------------------

    @property
    def supports_consumer_groups(self) -> bool:
        """Whether `group.coordinator.rebalance.protocols` lists the protocol of consumer groups."""
        return "consumer" in self._settings.rebalance_protocols

    async def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerGroupHeartbeatResponse:
        """ConsumerGroupHeartbeat. A heartbeat with a subscription first takes room for it (`MembersRoom`)."""
        size_bytes = heartbeat_size_bytes(request, caller.client_id)
        if size_bytes and not await in_steps(self._room.take(size_bytes)):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return await self._submit(
            request.group_id,
            lambda builder, ticket: consumer_heartbeat(builder, request, caller, ticket),
            lambda error: ConsumerGroupHeartbeatResponse(error_code=error),
        )

    async def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """ConsumerGroupDescribe for one group."""
        if not group_id:
            return DescribedConsumerGroup(error_code=ErrorCode.INVALID_GROUP_ID)
        return await self._submit(
            group_id,
            lambda builder, ticket: describe_consumer_group(builder, group_id, ticket),
            lambda error: DescribedConsumerGroup(group_id=group_id, error_code=error),
        )

    def _start_resolving(self, partition: int, group_id: str, patterns: frozenset[str], access: Access) -> None:
        """Find the topics of a group's regular expressions, one time after the other.

        As in Kafka, these are the topics that the member whose heartbeat begins the search may describe.
        """
        if group_id not in self._resolving:
            self._resolving.add(group_id)
            self.runtime.start_soon(partition, self._resolve, partition, group_id, patterns, access)

    async def _resolve(self, partition: int, group_id: str, patterns: frozenset[str], access: Access) -> None:
        def write(builder: DecisionBuilder, ticket: Ticket) -> None:
            group = builder.state.consumer_groups.get(group_id)
            if group is not None:
                patterns_resolved(builder, group, found, seen)
            builder.answer(ticket, None)

        try:
            seen = newest_topic(self._image)
            names = await _described(list(self._image.topics), access)
            found = await in_steps(resolve(sorted(patterns), names))
            await self._submit_to_partition(partition, write, lambda error: None)
        finally:
            self._resolving.discard(group_id)

    # -- offsets -------------------------------------------------------------------------------------------------

    async def commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        """OffsetCommit: topics have name and id; topics and partitions exist."""
        if is_large(request):
            return await self._commit_in_parts(
                request, lambda builder, part, ticket: commit_offsets(builder, part, version, ticket), _commit_error
            )
        return await self._submit(
            request.group_id,
            lambda builder, ticket: commit_offsets(builder, request, version, ticket),
            lambda error: _commit_error(request, error),
        )

    async def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, verification: object | None = None
    ) -> TxnOffsetCommitResponse:
        """TxnOffsetCommit.

        The parts of a large one do not wait for anything in between. Those that come after a marker of the transaction
        are refused, as late batches are.

        Args:
            verification: Shows that the group's partition belongs to the transaction; None if it is open there.
        """
        if is_large(request):
            return await self._commit_in_parts(
                request,
                lambda builder, part, ticket: commit_offsets_in_transaction(builder, part, ticket, verification),
                transactional_commit_error,
            )
        return await self._submit(
            request.group_id,
            lambda builder, ticket: commit_offsets_in_transaction(builder, request, ticket, verification),
            lambda error: transactional_commit_error(request, error),
        )

    async def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """OffsetFetch: requested topics have name and id. In a fetch of all topics, deleted topics have the nil id.

        Without a lease the offsets may be out of date. A program that reads them to repeat a transaction would process
        records twice, so that a node which was paused refuses until it has been in contact with the controller.
        """
        if require_stable and not self._has_lease():
            return _fetch_error(request.group_id, ErrorCode.NOT_COORDINATOR)
        found: OffsetFetchResponseGroup | AllOffsets = await self._submit(
            request.group_id,
            lambda builder, ticket: fetch_offsets(builder, request, ticket, require_stable=require_stable),
            lambda error: _fetch_error(request.group_id, error),
        )
        return await in_steps(found.response()) if isinstance(found, AllOffsets) else found

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """OffsetDelete: topics and partitions exist."""
        if is_large(request):
            return deleted_in_parts(request, await self._in_parts(request, delete_offsets, _delete_offsets_error))
        return await self._submit(
            request.group_id,
            lambda builder, ticket: delete_offsets(builder, request, ticket),
            partial(_delete_offsets_error, request),
        )

    def partitions_deleted(self, partitions: list[TopicPartition]) -> None:
        """Begin to delete offsets in deleted partitions, of the groups that this node coordinates."""
        self.runtime.start_decisions(partial(delete_partition_offsets, partitions=partitions))

    async def coordinates(self, group_id: str) -> ErrorCode:
        """NONE if this node coordinates the group; else NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""

        def yes(builder: DecisionBuilder, ticket: Ticket) -> None:
            builder.answer(ticket, ErrorCode.NONE)

        code: ErrorCode = await self._submit(group_id, yes, lambda error: error)
        return code

    # -- administration ------------------------------------------------------------------------------------------

    async def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """ListGroups over all partitions of this node; an error while one of them is loading."""
        reply, wanted = ListGroupsResponse(), await in_steps(group_filter(request))
        for partition, _ in list(self.runtime.partitions()):
            try:
                reply.groups += await self.runtime.read(partition, partial(list_groups, wanted=wanted))
            except NotCoordinatorError:
                continue
            except KafkaError as error:
                return ListGroupsResponse(error_code=error.code)
        return reply

    async def describe(self, group_id: str, version: int) -> DescribedGroup:
        """DescribeGroups for one group."""
        return await self._submit(
            group_id,
            lambda builder, ticket: describe_group(builder, group_id, version, ticket),
            lambda error: DescribedGroup(group_id=group_id, error_code=error),
        )

    async def delete(self, group_ids: list[str]) -> list[DeletableGroupResult]:
        """DeleteGroups: one result per distinct group; deletions in one partition are one batch, or several if there is
        much to delete. A group that gets members meanwhile has no offsets left."""
        by_partition: dict[int, list[str]] = {}
        pauses = Pauses()
        for group_id in dict.fromkeys(group_ids):
            await pauses(group_id)
            by_partition.setdefault(self.partition_of(group_id), []).append(group_id)
        results: list[DeletableGroupResult] = []
        for partition, names in by_partition.items():
            left = deque(names)
            while left:
                done = await self._submit_to_partition(
                    partition, partial(_delete_step, left), partial(_delete_error, left)
                )
                results += done
                for _ in done:
                    left.popleft()
                await pause()
        return results

    # -- submit --------------------------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        """The group's partition of `__consumer_offsets`; -1 while the topic does not exist: NOT_COORDINATOR."""
        count = self._environment.partition_count(TOPIC)
        return -1 if count is None else partition_for(group_id, count)

    def partition_in_transaction(self, group_id: str) -> int:
        """As `partition_of`; before the topic exists, the partition that the group will have, as in Kafka.

        The clients add offsets to a transaction before they look for the group's coordinator, which creates the topic.
        """
        index = self.partition_of(group_id)
        return index if index >= 0 else partition_for(group_id, self._settings.partitions)

    async def _submit(
        self, group_id: str, step: Callable[[DecisionBuilder, Ticket], None], failed: Callable[[ErrorCode], R]
    ) -> Any:
        return await self._submit_to_partition(self.partition_of(group_id), step, failed)

    async def _submit_to_partition(
        self, partition: int, step: Callable[[DecisionBuilder, Ticket], None], failed: Callable[[ErrorCode], R]
    ) -> Any:
        return await _or_error(self.runtime.submit(partition, partial(_decide, step)), failed)

    async def _commit_in_parts(
        self, request: Q, step: Callable[[DecisionBuilder, Q, Ticket], None], failed: Callable[[Q, ErrorCode], A]
    ) -> A:
        return whole(request, [reply for _, reply in await self._in_parts(request, step, failed)])

    async def _in_parts(
        self, request: Q, step: Callable[[DecisionBuilder, Q, Ticket], None], failed: Callable[[Q, ErrorCode], R]
    ) -> list[tuple[Q, R]]:
        """Decide about each part of a large request, while others run in between; then await the replies."""
        partition = self.partition_of(request.group_id)
        begun: list[Q] = []
        with Several[R]() as replies:
            for part in parts(request):
                if begun:
                    await pause()
                decided = self.runtime.decide(partition, partial(_decide, partial(_with_part, step, part)))
                replies.begin(_or_error(decided, partial(failed, part)))
                begun.append(part)
            return list(zip(begun, await replies.results(), strict=True))


def _with_part(
    step: Callable[[DecisionBuilder, Q, Ticket], None], part: Q, builder: DecisionBuilder, ticket: Ticket
) -> None:
    step(builder, part, ticket)


def _decide(step: Callable[[DecisionBuilder, Ticket], None], state: GroupShard, now: Now, ticket: Ticket) -> Decision:
    builder = DecisionBuilder(state, now)
    step(builder, ticket)
    return builder.decision


async def _or_error(reply: Coroutine[Any, Any, Any], failed: Callable[[ErrorCode], R]) -> Any:
    try:
        return await reply
    except KafkaError as error:
        return failed(ErrorCode(error.code))


def _delete_step(names: Iterable[str], builder: DecisionBuilder, ticket: Ticket) -> None:
    delete_groups(builder, names, ticket)


def _delete_error(names: Iterable[str], error: ErrorCode) -> list[DeletableGroupResult]:
    return [DeletableGroupResult(group_id=name, error_code=error) for name in names]


def _delete_offsets_error(_: OffsetDeleteRequest, error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error)


def _commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    reply = OffsetCommitResponse()
    for topic in request.topics:
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        reply.topics.append(answered)
        for partition in topic.partitions:
            index = partition.partition_index
            answered.partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
    return reply


def transactional_commit_error(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """The response with one error for all partitions."""
    reply = TxnOffsetCommitResponse()
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(name=topic.name)
        reply.topics.append(answered)
        for partition in topic.partitions:
            index = partition.partition_index
            answered.partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
    return reply


def _fetch_error(group_id: str, error: ErrorCode) -> OffsetFetchResponseGroup:
    """Clients before 3.9 do not handle COORDINATOR_NOT_AVAILABLE here; NOT_COORDINATOR makes them retry."""
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = ErrorCode(NotCoordinatorError.code)
    return OffsetFetchResponseGroup(group_id=group_id, error_code=error)


async def _described(names: list[str], access: Access) -> list[str]:
    """Return the topics that a client may describe."""
    if access.is_open:
        return names
    pause, described = Pauses(), list[str]()
    for name in names:
        await pause()
        if access.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, name, log_denied=False):
            described.append(name)
    return described
