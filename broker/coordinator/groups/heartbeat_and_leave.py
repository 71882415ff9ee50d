"""Heartbeats, and the three ways out of a classic group: to leave, to fall silent, to be removed by an administrator.

Source: Kafka's `GroupMetadataManager` (classicGroupHeartbeat, classicGroupLeave, expireClassicGroupMemberHeartbeat).
"""

from __future__ import annotations

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.groups.decision_builder import Turn
from minikafka.broker.coordinator.groups.group import ClassicGroup
from minikafka.broker.coordinator.groups.group_states import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from minikafka.broker.coordinator.groups.rebalance import (
    complete,
    complete_if_all_joined,
    finish_join,
    not_joined,
    prepare,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from minikafka.protocol.messages.sync_group import SyncGroupResponse


def heartbeat(turn: Turn, request: HeartbeatRequest, ticket: Ticket) -> None:
    """Keep a member's session alive, and tell it whether to join again."""
    turn.answer(ticket, HeartbeatResponse(error_code=_heard_of(turn, request)))


def _heard_of(turn: Turn, request: HeartbeatRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = turn.state.groups.get(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    fault = group.check_member(request.member_id, request.group_instance_id)
    if fault:
        return fault
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    keep_alive(turn, group, request.member_id)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else ErrorCode.NONE


def keep_alive(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """The member was heard of: its session begins anew."""
    turn.schedule_session(group, member_id, group.members[member_id].session_timeout_ms)


# -- leaving -----------------------------------------------------------------------------------------------------


def leave_group(turn: Turn, request: LeaveGroupRequest, ticket: Ticket) -> None:
    """Let members go, each with an answer of its own; a static one may be named by its instance alone (KIP-345)."""
    if not request.group_id:
        turn.answer(ticket, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    group = turn.state.groups.get(request.group_id)
    reply = LeaveGroupResponse()
    for asked in request.members:
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave(turn, group, asked)
        reply.members.append(
            MemberResponse(
                member_id=asked.member_id, group_instance_id=asked.group_instance_id, error_code=error
            )
        )
    turn.answer(ticket, reply)
    if group is None or all(member.error_code for member in reply.members):
        return
    if group.state in (STABLE, COMPLETING_REBALANCE):
        prepare(turn, group)
    else:
        complete_if_all_joined(turn, group)


def _leave(turn: Turn, group: ClassicGroup, asked: MemberIdentity) -> ErrorCode:
    member_id = asked.member_id
    if not member_id and asked.group_instance_id is not None:
        member_id = group.static_members.get(asked.group_instance_id, "")
    if asked.member_id not in group.pending_joins:
        fault = group.check_member(member_id, asked.group_instance_id)
        if fault:
            return fault
    _remove(turn, group, member_id)
    return ErrorCode.NONE


def _remove(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Take a member out; a request of it that waits is told, so that it can come back as somebody new."""
    member = group.members.get(member_id)
    if member is not None:
        finish_join(turn, member, not_joined(ErrorCode.UNKNOWN_MEMBER_ID))
        if member.syncing is not None:
            turn.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    turn.cancel_session(group, member_id)
    group.remove(member_id)


# -- silence -----------------------------------------------------------------------------------------------------


def session_is_over(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """The deadline of a member, or of an id that was handed out and never came back."""
    member = group.members.get(member_id)
    if member is None:
        if member_id in group.pending_joins:
            group.remove(member_id)
            if group.state is PREPARING_REBALANCE and group.all_joined:
                complete(turn, group)
        return
    if member.excused:
        return
    _remove(turn, group, member_id)
    if group.state in (STABLE, COMPLETING_REBALANCE):
        prepare(turn, group)
    elif group.state is PREPARING_REBALANCE and group.all_joined:
        complete(turn, group)
