"""Requests of the classic protocol to consumer groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Source: Kafka's `GroupMetadataManager` (classicGroup...ToConsumerGroup).
"""

from __future__ import annotations

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.groups.consumer.leaving import fence
from minikafka.broker.coordinator.groups.consumer.membership import known_member, known_static_member
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_member import ConsumerMember
from minikafka.protocol.errors import ErrorCode, FencedInstanceIdError, UnknownMemberIdError
from minikafka.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)


def leave_consumer_group(
    builder: DecisionBuilder, group: ConsumerGroup, request: LeaveGroupRequest, ticket: Ticket
) -> None:
    """Remove members of either protocol, with a result for each; an instance id alone identifies a static one."""
    reply = LeaveGroupResponse()
    gone: list[ConsumerMember] = []
    for identity in request.members:
        error = ErrorCode.NONE
        try:
            member = _leaving(group, identity)
            if member not in gone:
                gone.append(member)
        except (UnknownMemberIdError, FencedInstanceIdError) as refused:
            error = ErrorCode(refused.code)
        reply.members.append(
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
            )
        )
    fence(builder, group, gone)
    builder.answer(ticket, reply)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return known_member(group, identity.member_id)
    member_id = identity.member_id or group.static_members.get(instance_id, "")
    return known_static_member(group, member_id, instance_id)
