"""SyncGroup for classic groups: the leader sends the assignment of a generation, each member receives its part.

The assignment is written to the log before any member receives it. Source: Kafka's
`GroupMetadataManager.classicGroupSync`.
"""

from __future__ import annotations

from functools import partial

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.error_mapping import coordinator_error
from minikafka.broker.coordinator.groups.classic.rebalance import (
    finish_syncs,
    prepare_rebalance,
    reset_assignments,
    sync_response,
)
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.classic_group_states import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from minikafka.broker.coordinator.groups.state.classic_member import Member
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync_group(builder: DecisionBuilder, request: SyncGroupRequest, ticket: Ticket) -> None:
    """Answer now, or when the leader's assignment is in the log."""
    group = builder.state.classic_groups.get(request.group_id)
    fault = _fault(group, request)
    if fault or group is None:
        builder.answer(ticket, SyncGroupResponse(error_code=fault))
        return
    member = group.members[request.member_id]
    _remove_pending_sync(builder, group, member)
    if group.state is STABLE:
        builder.answer(ticket, sync_response(group, member))
        return
    if member.syncing is not None:
        builder.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.syncing = ticket
    if group.leader == member.member_id:
        _assign(builder, group, {part.member_id: bytes(part.assignment) for part in request.assignments})
    request.assignments = []  # The request stays in memory while it waits, and they count nowhere.


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


def _remove_pending_sync(builder: DecisionBuilder, group: ClassicGroup, member: Member) -> None:
    group.pending_syncs.pop(member.member_id, None)
    if not group.pending_syncs:
        builder.cancel("sync", group)


def _assign(builder: DecisionBuilder, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    assert group.state is COMPLETING_REBALANCE, group.state
    builder.write_group(group, group.value(assignments=assignments))
    builder.follow(lambda later: finish_syncs(later, group), partial(_assignment_failed, group))


def _assignment_failed(group: ClassicGroup, builder: DecisionBuilder, error: KafkaError) -> None:
    """The append failed: no member receives the assignment, all join again."""
    reset_assignments(builder, group, coordinator_error(error))
    prepare_rebalance(builder, group)
