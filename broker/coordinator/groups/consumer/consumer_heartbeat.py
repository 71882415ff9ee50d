"""ConsumerGroupHeartbeat: a member joins, stays in or leaves a consumer group (KIP-848).

    the member is created or changed ─► group epoch ─► target assignment ─► the member's next step towards it

Source: Kafka's `GroupMetadataManager.consumerGroupHeartbeat`, `GroupCoordinatorService`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.groups.consumer.current_assignment import Goal, Owned, reconcile
from minikafka.broker.coordinator.groups.consumer.leaving import leave
from minikafka.broker.coordinator.groups.consumer.membership import check_size, dynamic_member, static_member
from minikafka.broker.coordinator.groups.consumer.migration import to_consumer_group
from minikafka.broker.coordinator.groups.consumer.record_writing import write_assignment
from minikafka.broker.coordinator.groups.consumer.subscribed_topics import topic_ids
from minikafka.broker.coordinator.groups.consumer.subscription_changes import update_subscription
from minikafka.broker.coordinator.groups.consumer.target_assignment import current_or_new_target
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.state.classic_member import Caller
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_member import (
    LEFT,
    LEFT_FOR_A_WHILE,
    Assigned,
    ConsumerMember,
    MemberState,
    Target,
)
from minikafka.protocol.errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    InvalidRequestError,
    KafkaError,
    UnsupportedAssignorError,
)
from minikafka.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from minikafka.protocol.messages.group_records import GroupMetadataKey

MEMBER_ID_REQUIRED_FROM = 1


def consumer_heartbeat(
    builder: DecisionBuilder, request: ConsumerGroupHeartbeatRequest, caller: Caller, ticket: Ticket
) -> None:
    """Answer a heartbeat; an error has Kafka's message."""
    try:
        check_heartbeat(request, caller.version, builder.state.settings)
        if request.member_epoch in (LEFT, LEFT_FOR_A_WHILE):
            reply = _leave(builder, request)
        else:
            reply = _heartbeat(builder, request, caller)
    except KafkaError as error:
        builder.discard()
        reply = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.detail)
    builder.answer(ticket, reply)


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    """Checks that need no state of the group. Raises InvalidRequestError, UnsupportedAssignorError."""
    epoch = request.member_epoch
    fault = _emptiness(request, version)
    if not fault and epoch == 0:
        fault = _fault_of_join(request)
    elif not fault and epoch == LEFT_FOR_A_WHILE and request.instance_id is None:
        fault = "InstanceId can't be null."
    elif not fault and epoch < LEFT_FOR_A_WHILE:
        fault = "MemberEpoch is invalid."
    if fault:
        raise InvalidRequestError(fault)
    if request.server_assignor is not None and request.server_assignor not in settings.assignors:
        raise UnsupportedAssignorError(
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(settings.assignors)}."
        )


def _emptiness(request: ConsumerGroupHeartbeatRequest, version: int) -> str:
    id_required = version >= MEMBER_ID_REQUIRED_FROM or request.member_epoch > 0 or request.member_epoch == LEFT
    texts = (
        ("MemberId", request.member_id if id_required else None),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    )
    return next((f"{name} can't be empty." for name, text in texts if text is not None and not text.strip()), "")


def _fault_of_join(request: ConsumerGroupHeartbeatRequest) -> str:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return ""


def _leave(builder: DecisionBuilder, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    group = _group(builder, request.group_id, may_create=False)
    leave(builder, group, (request.member_id, request.instance_id), request.member_epoch)
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def _group(builder: DecisionBuilder, group_id: str, *, may_create: bool) -> ConsumerGroup:
    """The group, if need be a new one, also in place of a classic one that is empty. Raises GroupIdNotFoundError."""
    known = builder.state.consumer_groups.get(group_id)
    if known is not None:
        return known
    classic = builder.state.classic_groups.get(group_id)
    if not may_create:
        if classic is None:
            raise GroupIdNotFoundError(f"Consumer group {group_id} not found.")
        raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
    if classic is None:
        return ConsumerGroup(group_id)
    if not classic.is_empty:
        return to_consumer_group(builder, classic)
    builder.write(GroupMetadataKey(group=group_id), None)
    return ConsumerGroup(group_id)


def _heartbeat(
    builder: DecisionBuilder, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerGroupHeartbeatResponse:
    joins = request.member_epoch == 0
    group = _group(builder, request.group_id, may_create=joins)
    check_size(builder, group, request.member_id)
    owned = _owned(request.topic_partitions)
    before = _member(builder, group, request, owned)
    member = _updated(before, request, caller)
    epoch, subscription_changed = update_subscription(builder, group, before, member, caller.access)
    assignment_epoch, target = current_or_new_target(builder, group, epoch, member)
    member = take_next_step(
        builder, group, member, (assignment_epoch, target), owned, subscription_changed=subscription_changed
    )
    times = builder.state.consumer_times(group.group_id)
    builder.schedule_member("session", group.group_id, member.member_id, times.session_timeout_ms)
    reply = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id, member_epoch=member.epoch, heartbeat_interval_ms=times.heartbeat_interval_ms
    )
    if joins or _is_full(request) or _numbers(before.assigned) != _numbers(member.assigned):
        reply.assignment = _assignment(member.assigned)
    return reply


def _member(
    builder: DecisionBuilder, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, owned: Owned | None
) -> ConsumerMember:
    joins = request.member_epoch == 0
    member_id = request.member_id or str(UUID(int=builder.state.random.getrandbits(128), version=4))
    if request.instance_id is None:
        return dynamic_member(group, member_id, request.member_epoch, owned, may_join=joins)
    ids = (member_id, request.instance_id)
    return static_member(builder, group, ids, request.member_epoch, owned, may_join=joins)


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """The member with what the request says; null says that nothing changed."""
    topics, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if topics is None else frozenset(topics),
        pattern=member.pattern if pattern is None else pattern,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def take_next_step(
    builder: DecisionBuilder,
    group: ConsumerGroup,
    member: ConsumerMember,
    goal: tuple[int, Target],
    owned: Owned | None,
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """Reconcile a member with its target, and write its new assignment if it has one.

    Args:
        goal: The epoch of the target assignment, and the member's part.
        owned: The partitions that the member says it has; None if it does not say.

    Raises:
        FencedMemberEpochError: Its state was written by a later version.
    """
    epoch, target = goal
    if member.is_reconciled_to(epoch) and not subscription_changed:
        return member
    subscribed = topic_ids(builder.state.image, group.topics_of(member))
    after = reconcile(member, Goal(epoch, target, subscribed, subscription_changed, group.owner_of), owned)
    if after is None:
        raise FencedMemberEpochError(
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin."
        )
    if after == member:
        return member
    write_assignment(builder, group, after)
    if after.classic is None and after.state is MemberState.UNREVOKED_PARTITIONS:
        builder.schedule_member("rebalance", group.group_id, after.member_id, after.rebalance_timeout_ms)
    elif after.classic is None:
        builder.cancel_member(group.group_id, after.member_id, "rebalance")
    return after


# -- requests and responses --------------------------------------------------------------------------------------


def _owned(topics: Sequence[TopicPartitions] | None) -> Owned | None:
    if topics is None:
        return None
    owned: dict[bytes, frozenset[int]] = {}
    for topic in topics:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return owned


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all that a first one must have; members send such a one after an error, too."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def _numbers(assigned: Assigned) -> dict[bytes, frozenset[int]]:
    return {topic_id: frozenset(partitions) for topic_id, partitions in assigned.items()}


def _assignment(assigned: Assigned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
