"""Requests of the classic protocol to consumer groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

A member's generation is its member epoch. There is no leader: the response to SyncGroup has what the coordinator has
assigned. A heartbeat sends the member to join again when it has partitions to give up or to receive.
Source: Kafka's `GroupMetadataManager` (classicGroup...ToConsumerGroup).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import UUID

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.groups.classic.rebalance import join_error
from minikafka.broker.coordinator.groups.consumer.classic_protocol import (
    ClassicSubscription,
    read_subscription,
    write_assignment_bytes,
)
from minikafka.broker.coordinator.groups.consumer.consumer_heartbeat import take_next_step
from minikafka.broker.coordinator.groups.consumer.leaving import fence
from minikafka.broker.coordinator.groups.consumer.membership import (
    check_size,
    dynamic_member,
    known_member,
    known_static_member,
    static_member,
)
from minikafka.broker.coordinator.groups.consumer.migration import can_become_classic, to_classic_group
from minikafka.broker.coordinator.groups.consumer.subscription_changes import update_subscription
from minikafka.broker.coordinator.groups.consumer.target_assignment import current_or_new_target
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.group_settings import MigrationPolicy
from minikafka.broker.coordinator.groups.state.classic_group import CONSUMER
from minikafka.broker.coordinator.groups.state.classic_member import Caller, protocols_of, rebalance_timeout_ms
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_member import ClassicProtocols, ConsumerMember, MemberState
from minikafka.controller.security.access import Access
from minikafka.protocol.errors import (
    ErrorCode,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_REQUIRED_FROM = 4


# -- JoinGroup ---------------------------------------------------------------------------------------------------


def join_consumer_group(
    builder: DecisionBuilder, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, ticket: Ticket
) -> None:
    """Answer at once: the member's generation is its epoch, and no member is the leader."""
    try:
        reply = _join(builder, group, request, caller)
    except KafkaError as error:
        builder.discard()
        reply = join_error(ErrorCode(error.code))
    builder.answer(ticket, reply)


def _join(
    builder: DecisionBuilder, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller
) -> JoinGroupResponse:
    is_unknown = not request.member_id
    member_id = request.member_id or str(UUID(int=builder.state.random.getrandbits(128), version=4))
    _check_protocols(builder, group, request)
    check_size(builder, group, member_id)
    subscription = _subscription(request)
    if is_unknown and request.group_instance_id is None and caller.version >= MEMBER_ID_REQUIRED_FROM:
        return join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    if request.group_instance_id is None:
        before = dynamic_member(group, member_id, -1, {}, may_join=True, classic=True)
    else:
        ids = (member_id, request.group_instance_id)
        before = static_member(builder, group, ids, -1, {}, may_join=is_unknown, classic=True)
    member = _updated(before, request, subscription, caller)
    replaced = group.members.get(group.static_members.get(request.group_instance_id or "", ""))
    if replaced is not None and replaced.classic is None and _only_consumer(builder, group, replaced, member):
        return _become_classic(builder, group, replaced, member)
    member = _reconcile(builder, group, before, member, subscription, caller.access)
    builder.cancel_member(group.group_id, member.member_id, "join")
    builder.schedule_member("session", group.group_id, member.member_id, request.session_timeout_ms)
    builder.schedule_member("sync", group.group_id, member.member_id, member.rebalance_timeout_ms)
    return _joined(member)


def _check_protocols(builder: DecisionBuilder, group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """Raises InconsistentGroupProtocolError unless all members of the classic protocol have one in common."""
    if builder.state.settings.migration_policy is MigrationPolicy.DISABLED:
        raise InconsistentGroupProtocolError("the group migration is disabled")
    classic = [member.classic for member in group.members.values() if member.classic is not None]
    known = Counter(name for one in classic for name, _ in one.protocols)
    common = any(known[protocol.name] == len(classic) for protocol in request.protocols)
    if request.protocol_type != CONSUMER or not common:
        raise InconsistentGroupProtocolError(f"Member {request.member_id}'s protocols are not supported.")


def _subscription(request: JoinGroupRequest) -> ClassicSubscription:
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except MalformedMessage as error:
        raise InconsistentGroupProtocolError(f"the subscription is malformed: {error}") from None


def _updated(
    member: ConsumerMember, request: JoinGroupRequest, subscription: ClassicSubscription, caller: Caller
) -> ConsumerMember:
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms(request, caller.version),
        topics=subscription.topics,
        pattern="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicProtocols(request.session_timeout_ms, protocols_of(request)),
    )


def _reconcile(
    builder: DecisionBuilder,
    group: ConsumerGroup,
    before: ConsumerMember,
    member: ConsumerMember,
    subscription: ClassicSubscription,
    access: Access,
) -> ConsumerMember:
    epoch, changed = update_subscription(builder, group, before, member, access)
    goal = current_or_new_target(builder, group, epoch, member)
    owned = subscription.owned_by_id(builder.state.image)
    return take_next_step(builder, group, member, goal, owned, subscription_changed=changed)


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=CONSUMER,
        protocol_name=member.classic.protocols[0][0],
        member_id=member.member_id,
    )


def _only_consumer(
    builder: DecisionBuilder, group: ConsumerGroup, replaced: ConsumerMember, member: ConsumerMember
) -> bool:
    """Whether the member that is replaced is the last one of the consumer protocol."""
    others = [one for one in group.members.values() if one is not replaced]
    alone = not others and builder.state.settings.migration_policy.allows_downgrade
    return alone or can_become_classic(builder, group, [replaced])


def _become_classic(
    builder: DecisionBuilder, group: ConsumerGroup, replaced: ConsumerMember, member: ConsumerMember
) -> JoinGroupResponse:
    """The group becomes a classic one; its members join again if its assignment is out of date."""
    stale = group.epoch > group.assignment_epoch or member.topics != group.topics_of(replaced)
    epoch = group.epoch
    builder.discard()
    to_classic_group(builder, group, [replaced], member, rebalance=stale)
    return _joined(replace(member, epoch=epoch))


# -- SyncGroup and Heartbeat -------------------------------------------------------------------------------------


def sync_consumer_group(
    builder: DecisionBuilder, group: ConsumerGroup, request: SyncGroupRequest, ticket: Ticket
) -> None:
    """Answer with what the member has been assigned."""
    try:
        reply = _sync(builder, group, request)
    except KafkaError as error:
        reply = SyncGroupResponse(error_code=error.code)
    builder.answer(ticket, reply)


def _sync(builder: DecisionBuilder, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
    ids = (request.member_id, request.group_instance_id)
    member, classic = _classic_member(group, ids, request.generation_id)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
        raise InconsistentGroupProtocolError("not the protocol of the response to JoinGroup")
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(builder, group, member)
        raise RebalanceInProgressError("a new rebalance is triggered")
    builder.cancel_member(group.group_id, member.member_id, "sync")
    builder.schedule_member("session", group.group_id, member.member_id, classic.session_timeout_ms)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=write_assignment_bytes(member.assigned, metadata, builder.state.image),
    )


def heartbeat_in_consumer_group(
    builder: DecisionBuilder, group: ConsumerGroup, request: HeartbeatRequest, ticket: Ticket
) -> None:
    """Renew a member's session; REBALANCE_IN_PROGRESS if it has partitions to give up or to receive."""
    try:
        code = _heartbeat(builder, group, request)
    except KafkaError as error:
        code = ErrorCode(error.code)
    builder.answer(ticket, HeartbeatResponse(error_code=code))


def _heartbeat(builder: DecisionBuilder, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
    ids = (request.member_id, request.group_instance_id)
    member, classic = _classic_member(group, ids, request.generation_id)
    builder.schedule_member("session", group.group_id, member.member_id, classic.session_timeout_ms)
    must_join = (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member))
    )
    if not must_join:
        return ErrorCode.NONE
    _expect_join(builder, group, member)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _classic_member(
    group: ConsumerGroup, ids: tuple[str, str | None], generation: int
) -> tuple[ConsumerMember, ClassicProtocols]:
    """The member with these ids. Raises UnknownMemberIdError, FencedInstanceIdError, IllegalGenerationError."""
    member_id, instance_id = ids
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    if member.classic is None:
        raise UnknownMemberIdError(f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise IllegalGenerationError(f"the generation is not the epoch {member.epoch} of the member")
    return member, member.classic


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still has a partition of the member's target."""
    return any(
        partition not in member.assigned.get(topic_id, {}) and group.owner_of(topic_id, partition) is not None
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions
    )


def _expect_join(builder: DecisionBuilder, group: ConsumerGroup, member: ConsumerMember) -> None:
    """The member has its rebalance timeout to join again."""
    if builder.state.deadlines.get(("join", group.group_id, member.member_id)) is None:
        builder.schedule_member("join", group.group_id, member.member_id, member.rebalance_timeout_ms)


# -- LeaveGroup --------------------------------------------------------------------------------------------------


def leave_consumer_group(
    builder: DecisionBuilder, group: ConsumerGroup, request: LeaveGroupRequest, ticket: Ticket
) -> None:
    """Remove members of either protocol, with a result for each; an instance id alone identifies a static one."""
    reply = LeaveGroupResponse()
    gone: dict[str, ConsumerMember] = {}
    for identity in request.members:
        error = ErrorCode.NONE
        try:
            member = _leaving(group, identity)
            gone[member.member_id] = member
        except KafkaError as refused:
            error = ErrorCode(refused.code)
        reply.members.append(
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
            )
        )
    fence(builder, group, gone.values())
    builder.answer(ticket, reply)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return known_member(group, identity.member_id)
    member_id = identity.member_id or group.static_members.get(instance_id, "")
    return known_static_member(group, member_id, instance_id)
