"""The rebalance of a classic group: join phase, initial delay, selection of the protocol, new generation, timeouts.

    prepare_rebalance → all members joined, or timeout → complete_join: a generation begins → `classic_sync.py` → Stable

Source: Kafka's `GroupMetadataManager` (prepareRebalance, completeClassicGroupJoin, expirePendingSync and around).
"""

from __future__ import annotations

import structlog

from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup, InitialDelay
from minikafka.broker.coordinator.groups.state.classic_group_states import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from minikafka.broker.coordinator.groups.state.classic_member import Member
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from minikafka.protocol.messages.sync_group import SyncGroupResponse

log = structlog.get_logger("minikafka.groups")

RETRY_MS_MIN = 1
"""Lower bound of the retry interval for groups whose rebalance timeout is 0."""


def rebalance_or_complete(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """After a change of members: begin a rebalance, or check whether the running join phase is complete."""
    if group.state in (STABLE, COMPLETING_REBALANCE, EMPTY):
        prepare_rebalance(builder, group)
    else:
        complete_if_all_joined(builder, group)


def prepare_rebalance(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """Begin a rebalance: heartbeats notify the members, which join again."""
    if group.state is COMPLETING_REBALANCE:
        reset_assignments(builder, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.clear()
    builder.cancel("sync", group)
    is_first = group.state is EMPTY
    log.info("rebalance begun", group=group.group_id, generation=group.generation, members=len(group.members))
    group.enter(PREPARING_REBALANCE, builder.now.clock_ms)
    if is_first:
        _collect_members(builder, group)
    elif group.all_joined:
        complete_join(builder, group)
    else:
        builder.schedule("join", group, group.rebalance_timeout_ms)


def _collect_members(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """Delay the first rebalance of an empty group to collect members (group.initial.rebalance.delay.ms)."""
    delay_ms = builder.state.settings.initial_rebalance_delay_ms
    if delay_ms <= 0:
        complete_join(builder, group)
        return
    group.new_member_added = False
    group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
    builder.schedule("join", group, delay_ms)


def join_timed_out(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """The join phase timed out: complete it, or extend the initial delay if a member joined meanwhile."""
    if group.state is not PREPARING_REBALANCE:
        return
    waiting = group.initial_delay
    if waiting is None or not group.new_member_added or not waiting.remaining_ms:
        complete_join(builder, group)
        return
    group.new_member_added = False
    delay_ms = min(builder.state.settings.initial_rebalance_delay_ms, waiting.remaining_ms)
    group.initial_delay = InitialDelay(delay_ms, max(waiting.remaining_ms - waiting.delay_ms, 0))
    builder.schedule("join", group, delay_ms)


def complete_if_all_joined(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """Complete the join phase if all members have joined; the initial delay always runs to its end."""
    if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY and group.all_joined:
        complete_join(builder, group)


def complete_join(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """Complete the join phase. Dynamic members that have not joined are removed, static ones stay."""
    assert group.state is PREPARING_REBALANCE, group.state
    builder.cancel("join", group)
    for member in list(group.members.values()):
        if member.joining is None and not member.is_static:
            group.remove(member.member_id)
            builder.cancel_session(group, member.member_id)
    if not group.elect_joined_leader() and group.members:
        # Only static members are left and none has joined: wait until one joins or their sessions time out.
        builder.schedule("join", group, max(group.rebalance_timeout_ms, RETRY_MS_MIN))
        return
    group.initial_delay = None
    if group.members:
        _begin_generation(builder, group)
    else:
        _become_empty(builder, group)


def _begin_generation(builder: DecisionBuilder, group: ClassicGroup) -> None:
    group.generation += 1
    group.protocol_name = group.select_protocol()
    group.subscribed_topics = group.read_subscriptions()
    group.enter(COMPLETING_REBALANCE, builder.now.clock_ms)
    group.pending_syncs = dict.fromkeys(group.members)
    for member in group.members.values():
        finish_join(builder, member, join_response(group, member))
        builder.schedule_session(group, member.member_id, member.session_timeout_ms)
        member.is_new = False
    builder.schedule("sync", group, group.rebalance_timeout_ms)
    log.info(
        "group generation begun",
        group=group.group_id,
        generation=group.generation,
        members=len(group.members),
        protocol=group.protocol_name,
    )


def _become_empty(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """Write the empty generation. If the append fails it takes effect all the same: a coordinator that loads the older
    generation sees the sessions of all its members time out."""
    value = group.value(members=())
    value.generation += 1
    log.info("group has no members left", group=group.group_id, generation=value.generation)
    value.protocol = None
    value.leader = None
    value.current_state_timestamp = builder.now.clock_ms
    replies = builder.decision.replies

    def without_record(later: DecisionBuilder, _: object) -> None:
        group.apply(value)
        later.decision.replies.extend(replies)

    builder.write_group(group, value)
    builder.follow(refused=without_record)


def sync_timed_out(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """The sync phase timed out: members that have not sent SyncGroup are removed, the others join again."""
    if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_syncs:
        return
    for member_id in list(group.pending_syncs):
        group.remove(member_id)
        builder.cancel_session(group, member_id)
    prepare_rebalance(builder, group)


# -- responses ---------------------------------------------------------------------------------------------------


def finish_join(builder: DecisionBuilder, member: Member, reply: JoinGroupResponse) -> None:
    """Answer the member's waiting JoinGroup, if any."""
    if member.joining is not None:
        builder.answer(member.joining, reply)
        member.joining = None


def finish_syncs(builder: DecisionBuilder, group: ClassicGroup, error: ErrorCode = ErrorCode.NONE) -> None:
    """Answer all waiting SyncGroups and restart the sessions of these members."""
    for member in group.members.values():
        if member.syncing is not None:
            reply = SyncGroupResponse(error_code=error) if error else sync_response(group, member)
            builder.answer(member.syncing, reply)
            member.syncing = None
            builder.schedule_session(group, member.member_id, member.session_timeout_ms)


def reset_assignments(builder: DecisionBuilder, group: ClassicGroup, error: ErrorCode) -> None:
    """Clear all assignments and answer the waiting SyncGroups with `error`."""
    for member in group.members.values():
        member.assignment = b""
    finish_syncs(builder, group, error)


def join_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The successful response; the leader's lists all members."""
    is_leader = group.leader == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member.member_id,
        members=_members_with_metadata(group) if is_leader else [],
    )


def _members_with_metadata(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """All members with their metadata, for the leader's assignor."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    ]


def join_error(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """The response of a failed JoinGroup."""
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)


def sync_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """The member's assignment in the current generation."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
