"""ListGroups, DescribeGroups and DeleteGroups: administration of groups.

Source: Kafka's `GroupMetadataManager` (listGroups, describeGroups) and `GroupCoordinatorShard`.
"""

from __future__ import annotations

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.offsets.offset_commits import delete_all_offsets
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.classic_group_states import DEAD, STABLE
from minikafka.broker.coordinator.groups.state.classic_member import Member
from minikafka.broker.coordinator.groups.state.group import Group
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.delete_groups import DeletableGroupResult
from minikafka.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from minikafka.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from minikafka.protocol.shortened import shortened

NOT_FOUND_FROM = 6


def list_groups(builder: DecisionBuilder, request: ListGroupsRequest, ticket: Ticket) -> None:
    """List groups by state and type; filters are case-insensitive (KIP-518, KIP-848)."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    builder.answer(
        ticket,
        [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.listed_protocol_type,
                group_state=group.state_name,
                group_type=group.type_name,
            )
            for group in builder.state.groups_to_read()
            if (not types or group.type_name in types) and (not states or group.state_name.lower() in states)
        ],
    )


def describe_group(builder: DecisionBuilder, group_id: str, version: int, ticket: Ticket) -> None:
    """Describe a classic group and its members. Any other is Dead; from version 6 on also an error (KIP-1043)."""
    group = builder.state.classic_groups.get(group_id)
    if group is None:
        reply = DescribedGroup(group_id=group_id, group_state=str(DEAD))
        if version >= NOT_FOUND_FROM:
            reply.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            wrong = "not found" if builder.state.find_to_read(group_id) is None else "is not a classic group"
            reply.error_message = f"Group {shortened(group_id)} {wrong}."
        builder.answer(ticket, reply)
        return
    is_stable = group.state is STABLE
    reply = DescribedGroup(
        group_id=group_id,
        group_state=str(group.state),
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_described(member, group) for member in group.members.values()],
    )
    builder.answer(ticket, reply)


def _described(member: Member, group: ClassicGroup) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if group.state is STABLE else b"",
        member_assignment=member.assignment,
    )


def delete_groups(builder: DecisionBuilder, group_ids: list[str], ticket: Ticket) -> None:
    """Delete groups without members, with their offsets (KIP-229)."""
    replies: list[DeletableGroupResult] = []
    for group_id in group_ids:
        group = builder.state.find(group_id)
        error = ErrorCode.NONE
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_empty:
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            _delete(builder, group)
        replies.append(DeletableGroupResult(group_id=group_id, error_code=error))
    builder.answer(ticket, replies)


def _delete(builder: DecisionBuilder, group: Group) -> None:
    delete_all_offsets(builder, group.group_id)
    for key, _ in group.tombstones():
        builder.write(key, None)
