"""The rebalance of a classic group: begin it, wait for members, choose a protocol, end it.

    prepare → (everybody has joined, or time is up) → complete: a generation begins → SyncGroup (syncing.py) → Stable

Source: Kafka's `GroupMetadataManager` (prepareRebalance, completeClassicGroupJoin, expirePendingSync and around).
"""

from __future__ import annotations

from minikafka.broker.coordinator.groups.decision_builder import Turn
from minikafka.broker.coordinator.groups.group import ClassicGroup, InitialDelay
from minikafka.broker.coordinator.groups.group_states import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from minikafka.broker.coordinator.groups.member import Member
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from minikafka.protocol.messages.sync_group import SyncGroupResponse

RETRY_MS_MIN = 1
"""A group whose members ask for no rebalance time-out at all is not looked at more often than this."""


def prepare_or_complete(turn: Turn, group: ClassicGroup) -> None:
    """Something about the members changed: begin a rebalance, or see whether the running one is over."""
    if group.state in (STABLE, COMPLETING_REBALANCE, EMPTY):
        prepare(turn, group)
    else:
        complete_if_all_joined(turn, group)


def prepare(turn: Turn, group: ClassicGroup) -> None:
    """Begin a rebalance: members learn of it by their heartbeats and join again."""
    if group.state is COMPLETING_REBALANCE:
        reset_assignments(turn, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.clear()
    turn.cancel("sync", group)
    is_first = group.state is EMPTY
    group.enter(PREPARING_REBALANCE, turn.now.clock_ms)
    if is_first:
        _collect_members(turn, group)
    elif group.all_joined:
        complete(turn, group)
    else:
        turn.schedule("join", group, group.rebalance_timeout_ms)


def _collect_members(turn: Turn, group: ClassicGroup) -> None:
    """The first rebalance of an empty group waits a while for more members (group.initial.rebalance.delay.ms)."""
    delay_ms = turn.state.settings.initial_rebalance_delay_ms
    if delay_ms <= 0:
        complete(turn, group)
        return
    group.member_came = False
    group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
    turn.schedule("join", group, delay_ms)


def join_time_is_up(turn: Turn, group: ClassicGroup) -> None:
    """The deadline of the join phase: end it, unless it is the first and members keep coming."""
    if group.state is not PREPARING_REBALANCE:
        return
    waiting = group.initial_delay
    if waiting is None or not group.member_came or not waiting.remaining_ms:
        complete(turn, group)
        return
    group.member_came = False
    delay_ms = min(turn.state.settings.initial_rebalance_delay_ms, waiting.remaining_ms)
    group.initial_delay = InitialDelay(delay_ms, max(waiting.remaining_ms - waiting.delay_ms, 0))
    turn.schedule("join", group, delay_ms)


def complete_if_all_joined(turn: Turn, group: ClassicGroup) -> None:
    """End the join phase if nobody is missing; a first rebalance lasts as long as its delay."""
    if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY and group.all_joined:
        complete(turn, group)


def complete(turn: Turn, group: ClassicGroup) -> None:
    """End the join phase with those who came. Static members may be missing; dynamic ones are out."""
    assert group.state is PREPARING_REBALANCE, group.state
    turn.cancel("join", group)
    for member in list(group.members.values()):
        if member.joining is None and not member.is_static:
            group.remove(member.member_id)
            turn.cancel_session(group, member.member_id)
    if not group.elect_joined_leader() and group.members:
        # Only static members are left and none has come: wait until one does or their sessions run out.
        turn.schedule("join", group, max(group.rebalance_timeout_ms, RETRY_MS_MIN))
        return
    group.initial_delay = None
    if group.members:
        _begin_generation(turn, group)
    else:
        _become_empty(turn, group)


def _begin_generation(turn: Turn, group: ClassicGroup) -> None:
    group.generation += 1
    group.protocol_name = group.select_protocol()
    group.subscribed_topics = group.read_subscriptions()
    group.enter(COMPLETING_REBALANCE, turn.now.clock_ms)
    group.pending_syncs = dict.fromkeys(group.members)
    for member in group.members.values():
        finish_join(turn, member, joined(group, member))
        turn.schedule_session(group, member.member_id, member.session_timeout_ms)
        member.is_new = False
    turn.schedule("sync", group, group.rebalance_timeout_ms)


def _become_empty(turn: Turn, group: ClassicGroup) -> None:
    """The next generation has nobody in it. Should the log not take that, it is so nevertheless: there is nobody left
    to tell, and a coordinator that reads the older generation will find all its members silent."""
    value = group.value(members=())
    value.generation += 1
    value.protocol = None
    value.leader = None
    value.current_state_timestamp = turn.now.clock_ms
    replies = turn.decision.replies

    def without_record(again: Turn, _: object) -> None:
        group.install(value)
        again.decision.replies.extend(replies)

    turn.write_group(group, value)
    turn.follow(refused=without_record)


def sync_time_is_up(turn: Turn, group: ClassicGroup) -> None:
    """The deadline of the sync phase: who has not asked for its assignment is out, the others join again."""
    if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_syncs:
        return
    for member_id in list(group.pending_syncs):
        group.remove(member_id)
        turn.cancel_session(group, member_id)
    prepare(turn, group)


# -- answers -----------------------------------------------------------------------------------------------------


def finish_join(turn: Turn, member: Member, reply: JoinGroupResponse) -> None:
    """Answer the member's JoinGroup if one waits."""
    if member.joining is not None:
        turn.answer(member.joining, reply)
        member.joining = None


def finish_syncs(turn: Turn, group: ClassicGroup, error: ErrorCode = ErrorCode.NONE) -> None:
    """Answer all SyncGroups that wait; from here on these members have to be heard of again."""
    for member in group.members.values():
        if member.syncing is not None:
            turn.answer(member.syncing, synced(group, member) if not error else SyncGroupResponse(error_code=error))
            member.syncing = None
            turn.schedule_session(group, member.member_id, member.session_timeout_ms)


def reset_assignments(turn: Turn, group: ClassicGroup, error: ErrorCode) -> None:
    """This generation will not get its assignment: nobody has one, and who waits for it is told `error`."""
    for member in group.members.values():
        member.assignment = b""
    finish_syncs(turn, group, error)


def joined(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """That the member is in the current generation; the leader is told of everybody."""
    is_leader = group.leader == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member.member_id,
        members=listed(group) if is_leader else [],
    )


def listed(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """All members with their metadata, as the leader needs them to assign."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    ]


def not_joined(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """That a JoinGroup failed."""
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)


def synced(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """The member's assignment in the current generation."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
