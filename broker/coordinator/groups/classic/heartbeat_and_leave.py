"""Handles Heartbeat, LeaveGroup and session timeouts of members of classic groups.

Source: Kafka's `GroupMetadataManager` (classicGroupHeartbeat, classicGroupLeave, expireClassicGroupMemberHeartbeat).
"""

from __future__ import annotations

import structlog

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.groups.classic.rebalance import (
    complete_if_all_joined,
    complete_join,
    finish_join,
    join_error,
    prepare_rebalance,
)
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.classic_group_states import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
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

log = structlog.get_logger("minikafka.groups")


def heartbeat(builder: DecisionBuilder, request: HeartbeatRequest, ticket: Ticket) -> None:
    """Renew a member's session; the response asks it to rejoin if a rebalance is in progress."""
    builder.answer(ticket, HeartbeatResponse(error_code=_heartbeat(builder, request)))


def _heartbeat(builder: DecisionBuilder, request: HeartbeatRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = builder.state.classic_groups.get(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    fault = group.check_member(request.member_id, request.group_instance_id)
    if fault:
        return fault
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    renew_session(builder, group, request.member_id)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else ErrorCode.NONE


def renew_session(builder: DecisionBuilder, group: ClassicGroup, member_id: str) -> None:
    """Restart a member's session timeout."""
    builder.schedule_session(group, member_id, group.members[member_id].session_timeout_ms)


# -- leaving -----------------------------------------------------------------------------------------------------


def leave_group(builder: DecisionBuilder, request: LeaveGroupRequest, ticket: Ticket) -> None:
    """Remove members, with a result for each; a static one may be identified by its instance id alone (KIP-345)."""
    if not request.group_id:
        builder.answer(ticket, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    group = builder.state.classic_groups.get(request.group_id)
    reply = LeaveGroupResponse()
    for identity in request.members:
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave(builder, group, identity)
        reply.members.append(
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
            )
        )
    builder.answer(ticket, reply)
    if group is None or all(member.error_code for member in reply.members):
        return
    if group.state in (STABLE, COMPLETING_REBALANCE):
        prepare_rebalance(builder, group)
    else:
        complete_if_all_joined(builder, group)


def _leave(builder: DecisionBuilder, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    member_id = identity.member_id
    if not member_id and identity.group_instance_id is not None:
        member_id = group.static_members.get(identity.group_instance_id, "")
    if identity.member_id not in group.pending_joins:
        fault = group.check_member(member_id, identity.group_instance_id)
        if fault:
            return fault
    remove_member(builder, group, member_id)
    return ErrorCode.NONE


def remove_member(builder: DecisionBuilder, group: ClassicGroup, member_id: str) -> None:
    """Remove a member; its waiting requests fail with UNKNOWN_MEMBER_ID, so that it joins as a new member."""
    member = group.members.get(member_id)
    if member is not None:
        finish_join(builder, member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
        if member.syncing is not None:
            builder.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    builder.cancel_session(group, member_id)
    group.remove(member_id)


# -- timeout -----------------------------------------------------------------------------------------------------


def session_expired(builder: DecisionBuilder, group: ClassicGroup, member_id: str) -> None:
    """A session timed out: of a member, or of a pending id that was never used."""
    member = group.members.get(member_id)
    if member is None:
        if member_id in group.pending_joins:
            group.remove(member_id)
            if group.state is PREPARING_REBALANCE and group.all_joined:
                complete_join(builder, group)
        return
    if member.session_suspended:
        return
    log.info("group member timed out", group=group.group_id, member=member_id, timeout="session")
    remove_member(builder, group, member_id)
    if group.state in (STABLE, COMPLETING_REBALANCE):
        prepare_rebalance(builder, group)
    elif group.state is PREPARING_REBALANCE and group.all_joined:
        complete_join(builder, group)
