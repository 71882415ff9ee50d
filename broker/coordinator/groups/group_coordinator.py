"""The group coordinator as the API handlers see it: requests in, answers out, every error in its place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

import trio

from minikafka.broker.coordinator.decision import Decision, Now, Ticket
from minikafka.broker.coordinator.groups.decision_builder import Turn
from minikafka.broker.coordinator.groups.group_admin import delete_groups, describe_group, list_groups
from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.heartbeat_and_leave import heartbeat, leave_group
from minikafka.broker.coordinator.groups.join_group import fault_of, join_group
from minikafka.broker.coordinator.groups.member import Caller
from minikafka.broker.coordinator.groups.offset_commits import (
    commit_offsets,
    commit_offsets_in_transaction,
    delete_offsets,
    fetch_offsets,
    forget_partitions,
)
from minikafka.broker.coordinator.groups.rebalance import not_joined
from minikafka.broker.coordinator.groups.shard_state import GroupsState
from minikafka.broker.coordinator.groups.sync_group import sync_group
from minikafka.broker.coordinator.runtime import CoordinatorRuntime, Environment, Status, partition_for
from minikafka.protocol.errors import ErrorCode, KafkaError, NotCoordinatorError
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

TOPIC = "__consumer_offsets"
R = TypeVar("R")


class GroupCoordinator:
    """Coordinates the groups whose partitions of `__consumer_offsets` this node leads.

    Args:
        environment: The node.
        settings: The node's.
        random: For member ids.
        topic_id: The id of a topic that exists, else the nil id.
    """

    def __init__(
        self,
        environment: Environment,
        settings: GroupSettings,
        random: Random,
        topic_id: Callable[[str], bytes],
    ) -> None:
        self._environment = environment
        self._settings = settings
        self.runtime: CoordinatorRuntime[GroupsState] = CoordinatorRuntime(
            environment,
            TOPIC,
            lambda: GroupsState(settings, random, topic_id),
            commit_timeout_ms=settings.commit_timeout_ms,
            load_buffer_size=settings.load_buffer_size,
            codec=settings.codec,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. `elected` may be called once this has started."""
        await self.runtime.run(task_status=task_status)

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This node leads a partition of `__consumer_offsets` now."""
        self.runtime.elected(partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """It leads it no longer."""
        self.runtime.resigned(partition, leader_epoch)

    # -- membership ----------------------------------------------------------------------------------------------

    async def join(self, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
        """May take as long as a rebalance."""
        fault = fault_of(request, self._settings)
        if fault:
            return not_joined(fault, request.member_id)
        return await self._ask(
            request.group_id,
            lambda turn, ticket: join_group(turn, request, caller, ticket),
            lambda error: not_joined(error, request.member_id),
        )

    async def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """May take until the leader has assigned."""
        return await self._ask(
            request.group_id,
            lambda turn, ticket: sync_group(turn, request, ticket),
            lambda error: SyncGroupResponse(error_code=error),
        )

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """While the group is still being read all is well: its members must not be driven away."""
        return await self._ask(
            request.group_id,
            lambda turn, ticket: heartbeat(turn, request, ticket),
            lambda error: HeartbeatResponse(
                error_code=ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
            ),
        )

    async def leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """Members in `request.members`, whatever the version."""
        return await self._ask(
            request.group_id,
            lambda turn, ticket: leave_group(turn, request, ticket),
            lambda error: LeaveGroupResponse(error_code=error),
        )

    # -- offsets -------------------------------------------------------------------------------------------------

    async def commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        """Topics have name and id, and exist with all their partitions."""
        return await self._ask(
            request.group_id,
            lambda turn, ticket: commit_offsets(turn, request, version, ticket),
            lambda error: _no_commit(request, error),
        )

    async def commit_in_transaction(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        """Likewise; that the transaction is open and has the group must have been verified."""
        return await self._ask(
            request.group_id,
            lambda turn, ticket: commit_offsets_in_transaction(turn, request, ticket),
            lambda error: _no_commit_in_transaction(request, error),
        )

    async def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """Topics have name and id; those of all topics have the nil id where the topic is gone."""
        return await self._ask(
            request.group_id,
            lambda turn, ticket: fetch_offsets(turn, request, ticket, require_stable=require_stable),
            lambda error: _no_offsets(request.group_id, error),
        )

    async def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Topics exist with all their partitions."""
        return await self._ask(
            request.group_id,
            lambda turn, ticket: delete_offsets(turn, request, ticket),
            lambda error: OffsetDeleteResponse(error_code=error),
        )

    async def partitions_deleted(self, partitions: list[TopicPartition]) -> None:
        """Forget the offsets in partitions that are no more. What is not coordinated here is left to who does."""

        def forget(turn: Turn, ticket: Ticket) -> None:
            forget_partitions(turn, partitions)
            turn.answer(ticket, None)

        for partition, status in list(self.runtime.partitions()):
            if status is Status.ACTIVE:
                await self._ask_partition(partition, forget, lambda _: None)

    async def coordinates(self, group_id: str) -> ErrorCode:
        """NONE where this node coordinates the group; else that it does not, or is still reading its groups."""

        def yes(turn: Turn, ticket: Ticket) -> None:
            turn.answer(ticket, ErrorCode.NONE)

        code: ErrorCode = await self._ask(group_id, yes, lambda error: error)
        return code

    # -- administration ------------------------------------------------------------------------------------------

    async def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """Of all groups coordinated here; an error while some are still being read."""
        reply = ListGroupsResponse()
        for partition, _ in list(self.runtime.partitions()):
            listed = await self._ask_partition(
                partition, lambda turn, ticket: list_groups(turn, request, ticket), lambda error: error
            )
            if isinstance(listed, list):
                reply.groups += listed
            elif listed is not ErrorCode.NOT_COORDINATOR:
                return ListGroupsResponse(error_code=listed)
        return reply

    async def describe(self, group_id: str, version: int) -> DescribedGroup:
        """One group."""
        return await self._ask(
            group_id,
            lambda turn, ticket: describe_group(turn, group_id, version, ticket),
            lambda error: DescribedGroup(group_id=group_id, error_code=error),
        )

    async def delete(self, group_ids: list[str]) -> list[DeletableGroupResult]:
        """Each named once in the answer, those of one partition all or none by the log."""
        by_partition: dict[int, list[str]] = {}
        for group_id in dict.fromkeys(group_ids):
            by_partition.setdefault(self._partition_of(group_id), []).append(group_id)
        results: list[DeletableGroupResult] = []
        for partition, names in by_partition.items():
            results += await self._ask_partition(partition, _deleting(names), partial(_not_deleted, names))
        return results

    # -- asking --------------------------------------------------------------------------------------------------

    def _partition_of(self, group_id: str) -> int:
        """-1 while the topic does not exist, so that nobody coordinates the group."""
        count = self._environment.partition_count(TOPIC)
        return -1 if count is None else partition_for(group_id, count)

    async def _ask(
        self, group_id: str, step: Callable[[Turn, Ticket], None], failed: Callable[[ErrorCode], R]
    ) -> Any:
        return await self._ask_partition(self._partition_of(group_id), step, failed)

    async def _ask_partition(
        self, partition: int, step: Callable[[Turn, Ticket], None], failed: Callable[[ErrorCode], R]
    ) -> Any:
        def decide(state: GroupsState, now: Now, ticket: Ticket) -> Decision:
            turn = Turn(state, now)
            step(turn, ticket)
            return turn.decision

        try:
            return await self.runtime.submit(partition, decide)
        except KafkaError as error:
            return failed(ErrorCode(error.code))


def _deleting(names: list[str]) -> Callable[[Turn, Ticket], None]:
    return lambda turn, ticket: delete_groups(turn, names, ticket)


def _not_deleted(names: list[str], error: ErrorCode) -> list[DeletableGroupResult]:
    return [DeletableGroupResult(group_id=name, error_code=error) for name in names]


def _no_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    reply = OffsetCommitResponse()
    for topic in request.topics:
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        reply.topics.append(answered)
        for partition in topic.partitions:
            index = partition.partition_index
            answered.partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
    return reply


def _no_commit_in_transaction(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    reply = TxnOffsetCommitResponse()
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(name=topic.name)
        reply.topics.append(answered)
        for partition in topic.partitions:
            index = partition.partition_index
            answered.partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
    return reply


def _no_offsets(group_id: str, error: ErrorCode) -> OffsetFetchResponseGroup:
    """Clients before 3.9 do not know COORDINATOR_NOT_AVAILABLE here; NOT_COORDINATOR has them look again."""
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = ErrorCode(NotCoordinatorError.code)
    return OffsetFetchResponseGroup(group_id=group_id, error_code=error)
