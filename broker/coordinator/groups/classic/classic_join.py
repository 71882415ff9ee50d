"""JoinGroup for classic groups: new members, members that join again, static members.

From version 4 a new member first receives its id and joins again with it (KIP-394), so that clients that give up before
receive their id leave no member behind. Static members (KIP-345) are identified by their instance id and may return
with a new member id; if nothing else changes they keep their assignment without a rebalance (KIP-814).
Source: Kafka's `GroupMetadataManager.classicGroupJoin` and the methods around it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from uuid import UUID

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.error_mapping import coordinator_error
from minikafka.broker.coordinator.groups.classic.heartbeat_and_leave import remove_member
from minikafka.broker.coordinator.groups.classic.rebalance import (
    complete_if_all_joined,
    finish_join,
    join_error,
    join_response,
    prepare_rebalance,
    rebalance_or_complete,
)
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.classic_group_states import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from minikafka.broker.coordinator.groups.state.classic_member import (
    Caller,
    Member,
    join_size_bytes,
    member_of_request,
    protocols_of,
    rebalance_timeout_ms,
)
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.protocol.messages.sync_group import SyncGroupResponse

MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9
PREFIX_LENGTH_MAX = 1_000


def join_group(builder: DecisionBuilder, request: JoinGroupRequest, caller: Caller, ticket: Ticket) -> None:
    """Answer now, or when the rebalance completes."""
    fault = check_join(request, builder.state.settings)
    if fault:
        builder.answer(ticket, join_error(fault, request.member_id))
        return
    group = builder.state.classic_groups.get(request.group_id)
    if group is not None:
        _join(builder, group, request, caller, ticket)
    elif request.member_id:
        builder.answer(ticket, join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
    else:
        _create_group(builder, request, caller, ticket)


def check_join(request: JoinGroupRequest, settings: GroupSettings) -> ErrorCode:
    """Checks that need no state of the group."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def _create_group(builder: DecisionBuilder, request: JoinGroupRequest, caller: Caller, ticket: Ticket) -> None:
    """Write the record of the empty group; the member joins once that is applied."""
    group = ClassicGroup(request.group_id, state_timestamp=builder.now.clock_ms)
    builder.write_group(group, group.value())
    builder.follow(
        lambda later: join_group(later, request, caller, ticket),
        lambda later, error: later.answer(ticket, join_error(coordinator_error(error))),
    )


def _join(
    builder: DecisionBuilder, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket
) -> None:
    if not _accepts(group, request, caller, builder.state.settings):
        remove_member(builder, group, request.member_id)
        builder.answer(ticket, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    member_id = request.member_id
    if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
        builder.answer(ticket, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif not member_id and request.group_instance_id is not None:
        _join_static(builder, group, request, caller, ticket)
    elif not member_id:
        _join_dynamic(builder, group, request, caller, ticket)
    elif member_id in group.pending_joins and request.group_instance_id is None:
        _add(builder, group, member_of_request(request, member_id, caller), request.protocol_type, ticket)
    else:
        _rejoin(builder, group, request, caller, ticket)


def _accepts(group: ClassicGroup, request: JoinGroupRequest, caller: Caller, settings: GroupSettings) -> bool:
    """Enforce `group.max.size`, and a bound in bytes.

    In the join phase only waiting members count as members: the last ones to join are refused.
    """
    member = group.members.get(request.member_id)
    size_max = settings.group_size_max
    others_bytes = group.size_bytes - (member.size_bytes if member is not None else 0)
    if others_bytes + join_size_bytes(request, caller.client_id) > settings.group_size_bytes_max:
        return False
    if group.state is EMPTY:
        return True
    if group.state is PREPARING_REBALANCE:
        return (member is not None and member.joining is not None) or group.joining_count < size_max
    return member is not None or len(group.members) < size_max


def _new_id(builder: DecisionBuilder, prefix: str) -> str:
    """A random member id with a readable prefix, truncated to fit into every message, and into `MEMBER_SIZE_BYTES`."""
    length = PREFIX_LENGTH_MAX if prefix.isascii() else PREFIX_LENGTH_MAX // 4
    return f"{prefix[:length]}-{UUID(int=builder.state.random.getrandbits(128), version=4)}"


# -- new members -------------------------------------------------------------------------------------------------


def _join_dynamic(
    builder: DecisionBuilder, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket
) -> None:
    member_id = _new_id(builder, caller.client_id)
    if caller.version < MEMBER_ID_REQUIRED_FROM:
        _add(builder, group, member_of_request(request, member_id, caller), request.protocol_type, ticket)
        return
    group.pending_joins[member_id] = None
    builder.schedule_session(group, member_id, request.session_timeout_ms)
    builder.answer(ticket, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def _add(builder: DecisionBuilder, group: ClassicGroup, member: Member, protocol_type: str, ticket: Ticket) -> None:
    member.is_new = True
    member.joining = ticket
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
        group.new_member_added = True
    group.add(member, protocol_type)
    builder.schedule_session(group, member.member_id, builder.state.settings.new_member_timeout_ms)
    rebalance_or_complete(builder, group)


# -- static members ----------------------------------------------------------------------------------------------


def _join_static(
    builder: DecisionBuilder, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket
) -> None:
    assert request.group_instance_id is not None
    new_id = _new_id(builder, request.group_instance_id)
    old_id = group.static_members.get(request.group_instance_id)
    candidate = member_of_request(request, new_id, caller)
    if old_id is None:
        _add(builder, group, candidate, request.protocol_type, ticket)
        return
    known = group.members[old_id]
    candidate = replace(known, member_id=new_id, protocols=candidate.protocols)
    members = [candidate if member is known else member for member in group.members.values()]
    if group.state is STABLE and group.select_protocol(members) == group.protocol_name:
        _replace_static_member(builder, group, request, caller, ticket, (old_id, new_id), members)
    else:
        _replace_static_member_and_rebalance(builder, group, request, caller, ticket, (old_id, new_id))


def _replace_static_member(
    builder: DecisionBuilder,
    group: ClassicGroup,
    request: JoinGroupRequest,
    caller: Caller,
    ticket: Ticket,
    ids: tuple[str, str],
    members: list[Member],
) -> None:
    """A static member returns and nothing else changes: write its new id and keep the generation."""
    old_id, new_id = ids
    old_leader = group.leader or ""
    value = group.value(members=members)
    for record, member in zip(value.members, members, strict=True):
        if member.member_id == new_id:
            record.rebalance_timeout = rebalance_timeout_ms(request, caller.version)
            record.session_timeout = request.session_timeout_ms
    value.leader = new_id if group.leader == old_id else group.leader

    def then(later: DecisionBuilder) -> None:
        member = group.members[new_id]
        _update(group, member, request, caller)
        later.cancel_session(group, old_id)
        later.schedule_session(group, new_id, member.session_timeout_ms)
        reply = join_response(group, member)
        if caller.version >= SKIP_ASSIGNMENT_FROM:
            reply.skip_assignment = group.leader == new_id
        else:
            # Before KIP-814, a returning leader that must not assign receives its old id as leader.
            reply.leader, reply.members = old_leader, []
        later.answer(ticket, reply)

    builder.write_group(group, value)
    builder.follow(then, partial(_replacement_failed, group, ticket))


def _replacement_failed(group: ClassicGroup, ticket: Ticket, builder: DecisionBuilder, error: KafkaError) -> None:
    reply = JoinGroupResponse(
        error_code=coordinator_error(error),
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
    )
    builder.answer(ticket, reply)


def _replace_static_member_and_rebalance(
    builder: DecisionBuilder,
    group: ClassicGroup,
    request: JoinGroupRequest,
    caller: Caller,
    ticket: Ticket,
    ids: tuple[str, str],
) -> None:
    """A static member returns during a rebalance, or changes the protocol: its old id is fenced."""
    old_id, new_id = ids
    member = group.rename(old_id, new_id)
    finish_join(builder, member, join_error(ErrorCode.FENCED_INSTANCE_ID, old_id))
    if member.syncing is not None:
        builder.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        member.syncing = None
    builder.cancel_session(group, old_id)
    _update(group, member, request, caller)
    builder.schedule_session(group, new_id, member.session_timeout_ms)
    member.joining = ticket
    if group.state is PREPARING_REBALANCE:
        complete_if_all_joined(builder, group)
    else:
        # Between join and sync the leader may be assigning to the old id; its assignment would lack the new one.
        prepare_rebalance(builder, group)


# -- known members -----------------------------------------------------------------------------------------------


def _rejoin(
    builder: DecisionBuilder, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket
) -> None:
    fault = group.check_member(request.member_id, request.group_instance_id)
    if fault or group.state is EMPTY:
        builder.answer(ticket, join_error(fault or ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        return
    member = group.members[request.member_id]
    same = member.protocols == protocols_of(request)
    if group.state is COMPLETING_REBALANCE and same:
        # It may have missed the response.
        builder.answer(ticket, join_response(group, member))
    elif group.state is STABLE and same and group.leader != member.member_id:
        builder.answer(ticket, join_response(group, member))
    else:
        # The metadata changed, or the leader requests a new assignment by joining again.
        _update(group, member, request, caller)
        finish_join(builder, member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.joining = ticket
        rebalance_or_complete(builder, group)


def _update(group: ClassicGroup, member: Member, request: JoinGroupRequest, caller: Caller) -> None:
    group.update(
        member, protocols_of(request), rebalance_timeout_ms(request, caller.version), request.session_timeout_ms
    )


