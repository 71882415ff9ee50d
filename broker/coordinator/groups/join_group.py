"""JoinGroup: become a member of a classic group, or join again.

Versions 4 and newer hand a new member its id first and want it back (KIP-394), so that clients that give up before they
know their id leave no member behind. Static members (KIP-345) are known by their instance id and may come back under a
new member id; if that changes nothing they get their old assignment without a rebalance (KIP-814).
Source: Kafka's `GroupMetadataManager.classicGroupJoin` and around.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from uuid import UUID

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.errors import answered_as
from minikafka.broker.coordinator.groups.decision_builder import Turn
from minikafka.broker.coordinator.groups.group import ClassicGroup
from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.group_states import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from minikafka.broker.coordinator.groups.member import (
    Caller,
    Member,
    member_of_request,
    protocols_of,
    rebalance_timeout_ms,
)
from minikafka.broker.coordinator.groups.rebalance import (
    complete_if_all_joined,
    finish_join,
    joined,
    not_joined,
    prepare,
    prepare_or_complete,
)
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.protocol.messages.sync_group import SyncGroupResponse

MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9
PREFIX_LENGTH_MAX = 1_000


def join_group(turn: Turn, request: JoinGroupRequest, caller: Caller, ticket: Ticket) -> None:
    """Answer at once, or let `ticket` wait until the rebalance completes."""
    fault = fault_of(request, turn.state.settings)
    if fault:
        turn.answer(ticket, not_joined(fault, request.member_id))
        return
    group = turn.state.groups.get(request.group_id)
    if group is not None:
        _join(turn, group, request, caller, ticket)
    elif request.member_id:
        turn.answer(ticket, not_joined(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
    else:
        _found_group(turn, request, caller, ticket)


def fault_of(request: JoinGroupRequest, settings: GroupSettings) -> ErrorCode:
    """What is wrong with a request, whoever coordinates the group."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def _found_group(turn: Turn, request: JoinGroupRequest, caller: Caller, ticket: Ticket) -> None:
    """The group exists once its empty record is in the log; then the member joins it."""
    group = ClassicGroup(request.group_id, state_timestamp=turn.now.clock_ms)
    turn.write_group(group, group.value())
    turn.follow(
        lambda again: join_group(again, request, caller, ticket),
        lambda again, error: again.answer(ticket, not_joined(answered_as(error))),
    )


def _join(turn: Turn, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket) -> None:
    if not _has_room(group, request.member_id, turn.state.settings.group_size_max):
        group.remove(request.member_id)
        turn.cancel_session(group, request.member_id)
        turn.answer(ticket, not_joined(ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    member_id = request.member_id
    if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
        turn.answer(ticket, not_joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif not member_id and request.group_instance_id is not None:
        _join_static(turn, group, request, caller, ticket)
    elif not member_id:
        _join_dynamic(turn, group, request, caller, ticket)
    elif member_id in group.pending_joins and request.group_instance_id is None:
        _add(turn, group, member_of_request(request, member_id, caller), request.protocol_type, ticket)
    else:
        _join_again(turn, group, request, caller, ticket)


def _has_room(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    """While members join, those who wait are counted: so the last ones of a group that is too big stay outside."""
    member = group.members.get(member_id)
    if group.state is EMPTY:
        return True
    if group.state is PREPARING_REBALANCE:
        return (member is not None and member.joining is not None) or group.joining_count < size_max
    return member is not None or len(group.members) < size_max


def _new_id(turn: Turn, prefix: str) -> str:
    """Told apart by chance, told by eye by its prefix; short enough for every message, however long that is."""
    return f"{prefix[:PREFIX_LENGTH_MAX]}-{UUID(int=turn.state.random.getrandbits(128), version=4)}"


# -- new members -------------------------------------------------------------------------------------------------


def _join_dynamic(turn: Turn, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket) -> None:
    member_id = _new_id(turn, caller.client_id)
    if caller.version < MEMBER_ID_REQUIRED_FROM:
        _add(turn, group, member_of_request(request, member_id, caller), request.protocol_type, ticket)
        return
    group.pending_joins[member_id] = None
    turn.schedule_session(group, member_id, request.session_timeout_ms)
    turn.answer(ticket, not_joined(ErrorCode.MEMBER_ID_REQUIRED, member_id))


def _add(turn: Turn, group: ClassicGroup, member: Member, protocol_type: str, ticket: Ticket) -> None:
    member.is_new = True
    member.joining = ticket
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
        group.member_came = True
    group.add(member, protocol_type)
    turn.schedule_session(group, member.member_id, turn.state.settings.new_member_timeout_ms)
    prepare_or_complete(turn, group)


# -- static members ----------------------------------------------------------------------------------------------


def _join_static(turn: Turn, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket) -> None:
    assert request.group_instance_id is not None
    new_id = _new_id(turn, request.group_instance_id)
    old_id = group.static_members.get(request.group_instance_id)
    candidate = member_of_request(request, new_id, caller)
    if old_id is None:
        _add(turn, group, candidate, request.protocol_type, ticket)
        return
    known = group.members[old_id]
    candidate = replace(known, member_id=new_id, protocols=candidate.protocols)
    members = [candidate if member is known else member for member in group.members.values()]
    if group.state is STABLE and group.select_protocol(members) == group.protocol_name:
        _replace_quietly(turn, group, request, caller, ticket, (old_id, new_id), members)
    else:
        _replace_and_rebalance(turn, group, request, caller, ticket, (old_id, new_id))


def _replace_quietly(
    turn: Turn,
    group: ClassicGroup,
    request: JoinGroupRequest,
    caller: Caller,
    ticket: Ticket,
    ids: tuple[str, str],
    members: list[Member],
) -> None:
    """A static member is back and wants what it had: its new id goes into the log, the generation goes on."""
    old_id, new_id = ids
    old_leader = group.leader or ""
    value = group.value(members=members)
    for record, member in zip(value.members, members, strict=True):
        if member.member_id == new_id:
            record.rebalance_timeout = rebalance_timeout_ms(request, caller.version)
            record.session_timeout = request.session_timeout_ms
    value.leader = new_id if group.leader == old_id else group.leader

    def then(again: Turn) -> None:
        member = group.members[new_id]
        _update(group, member, request, caller)
        again.cancel_session(group, old_id)
        again.schedule_session(group, new_id, member.session_timeout_ms)
        reply = joined(group, member)
        if caller.version >= SKIP_ASSIGNMENT_FROM:
            reply.skip_assignment = group.leader == new_id
        else:
            # Before KIP-814 a leader that must not assign anew is told that the one it was is the leader.
            reply.leader, reply.members = old_leader, []
        again.answer(ticket, reply)

    turn.write_group(group, value)
    turn.follow(then, partial(_not_replaced, group, ticket))


def _not_replaced(group: ClassicGroup, ticket: Ticket, turn: Turn, error: KafkaError) -> None:
    reply = JoinGroupResponse(
        error_code=answered_as(error),
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
    )
    turn.answer(ticket, reply)


def _replace_and_rebalance(
    turn: Turn,
    group: ClassicGroup,
    request: JoinGroupRequest,
    caller: Caller,
    ticket: Ticket,
    ids: tuple[str, str],
) -> None:
    """A static member is back in the middle of a rebalance, or changes the protocol: whoever it was is fenced."""
    old_id, new_id = ids
    member = group.rename(old_id, new_id)
    finish_join(turn, member, not_joined(ErrorCode.FENCED_INSTANCE_ID, old_id))
    if member.syncing is not None:
        turn.answer(member.syncing, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        member.syncing = None
    turn.cancel_session(group, old_id)
    _update(group, member, request, caller)
    turn.schedule_session(group, new_id, member.session_timeout_ms)
    member.joining = ticket
    if group.state is PREPARING_REBALANCE:
        complete_if_all_joined(turn, group)
    else:
        # Between join and sync the leader may be assigning to the old id: its assignment would miss the new one.
        prepare(turn, group)


# -- known members -----------------------------------------------------------------------------------------------


def _join_again(turn: Turn, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket) -> None:
    fault = group.check_member(request.member_id, request.group_instance_id)
    if fault or group.state is EMPTY:
        turn.answer(ticket, not_joined(fault or ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        return
    member = group.members[request.member_id]
    same = member.protocols == protocols_of(request)
    if group.state is COMPLETING_REBALANCE and same:
        # It may not have got its answer.
        turn.answer(ticket, joined(group, member))
    elif group.state is STABLE and same and group.leader != member.member_id:
        turn.answer(ticket, joined(group, member))
    else:
        # Changed metadata; or the leader, who asks for a new assignment by joining again.
        _update(group, member, request, caller)
        finish_join(turn, member, not_joined(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.joining = ticket
        prepare_or_complete(turn, group)


def _update(group: ClassicGroup, member: Member, request: JoinGroupRequest, caller: Caller) -> None:
    group.update(
        member, protocols_of(request), rebalance_timeout_ms(request, caller.version), request.session_timeout_ms
    )


