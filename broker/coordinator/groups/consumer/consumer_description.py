"""Describes the state, members and assignments of a consumer group, for ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.groups.consumer.target_assignment import preferred_assignor
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_member import ConsumerMember
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from minikafka.protocol.shortened import shortened

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_consumer_group(builder: DecisionBuilder, group_id: str, ticket: Ticket) -> None:
    """Describe a group; GROUP_ID_NOT_FOUND also if it is a classic one."""
    group = builder.state.find_to_read(group_id)
    if isinstance(group, ConsumerGroup):
        builder.answer(ticket, _described(builder, group))
        return
    wrong = "not found" if group is None else "is not a consumer group"
    message = f"Group {shortened(group_id)} {wrong}."
    reply = DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)
    builder.answer(ticket, reply)


def _described(builder: DecisionBuilder, group: ConsumerGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members.values(), builder.state.settings.assignors),
        members=[_member(group, member, builder.state.image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: Image) -> Member:
    partitions = {topic_id: set(parts) for topic_id, parts in member.assigned.items()}
    for topic_id, parts in member.revoking.items():
        partitions.setdefault(topic_id, set()).update(parts)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(partitions, image),
        target_assignment=_assignment(group.targets.get(member.member_id, {}), image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], image: Image) -> Assignment:
    """The assignment for a response. Topics that do not exist any more are left out."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(parts))
            for topic_id, parts in partitions.items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ]
    )
