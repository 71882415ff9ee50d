"""SyncGroup: the leader brings the assignment of a generation, everybody fetches their own.

The assignment goes into the log before anybody is told of it. Source: Kafka's `GroupMetadataManager.classicGroupSync`.
"""

from __future__ import annotations

from functools import partial

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.errors import answered_as
from minikafka.broker.coordinator.groups.decision_builder import Turn
from minikafka.broker.coordinator.groups.group import ClassicGroup
from minikafka.broker.coordinator.groups.group_states import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from minikafka.broker.coordinator.groups.member import Member
from minikafka.broker.coordinator.groups.rebalance import finish_syncs, prepare, reset_assignments, synced
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync_group(turn: Turn, request: SyncGroupRequest, ticket: Ticket) -> None:
    """Answer at once, or let `ticket` wait until the leader has assigned."""
    group = turn.state.groups.get(request.group_id)
    fault = _fault(group, request)
    if fault or group is None:
        turn.answer(ticket, SyncGroupResponse(error_code=fault))
        return
    member = group.members[request.member_id]
    _has_synced(turn, group, member)
    if group.state is STABLE:
        turn.answer(ticket, synced(group, member))
        return
    if member.syncing is not None:
        turn.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.syncing = ticket
    if group.leader == member.member_id:
        _assign(turn, group, {part.member_id: bytes(part.assignment) for part in request.assignments})


def _fault(group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state is EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    fault = group.check_member(request.member_id, request.group_instance_id)
    if fault:
        return fault
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name) and group.protocol_name is not None:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else ErrorCode.NONE


def _has_synced(turn: Turn, group: ClassicGroup, member: Member) -> None:
    group.pending_syncs.pop(member.member_id, None)
    if not group.pending_syncs:
        turn.cancel("sync", group)


def _assign(turn: Turn, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    assert group.state is COMPLETING_REBALANCE, group.state
    turn.write_group(group, group.value(assignments=assignments))
    turn.follow(lambda again: finish_syncs(again, group), partial(_not_assigned, group))


def _not_assigned(group: ClassicGroup, turn: Turn, error: KafkaError) -> None:
    """The log did not take the assignment: nobody shall act on it, everybody joins again."""
    reset_assignments(turn, group, answered_as(error))
    prepare(turn, group)
