"""ListGroups, DescribeGroups and DeleteGroups, and what the coordinator tidies up by itself.

Source: Kafka's `GroupMetadataManager` (listGroups, describeGroups) and `GroupCoordinatorShard`.
"""

from __future__ import annotations

from functools import partial

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.groups.decision_builder import RECORDS_MAX, Turn
from minikafka.broker.coordinator.groups.group import ClassicGroup
from minikafka.broker.coordinator.groups.group_states import DEAD, EMPTY, STABLE
from minikafka.broker.coordinator.groups.member import Member
from minikafka.broker.coordinator.groups.offset_commits import expire_offsets, forget_offsets
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.delete_groups import DeletableGroupResult
from minikafka.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from minikafka.protocol.messages.group_records import GroupMetadataKey
from minikafka.protocol.messages.list_groups import ListedGroup, ListGroupsRequest

NOT_FOUND_FROM = 6
CLASSIC = "classic"


def list_groups(turn: Turn, request: ListGroupsRequest, ticket: Ticket) -> None:
    """groups here of the states and types asked for, whatever their case (KIP-518, KIP-848)."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    turn.answer(
        ticket,
        [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=str(group.state),
                group_type=CLASSIC,
            )
            for group in turn.state.groups.values()
            if (not states or group.state.lower() in states) and (not types or CLASSIC in types)
        ],
    )


def describe_group(turn: Turn, group_id: str, version: int, ticket: Ticket) -> None:
    """A group with its members; one that nobody knows is Dead, from version 6 on an error too (KIP-1043)."""
    group = turn.state.groups.get(group_id)
    if group is None:
        reply = DescribedGroup(group_id=group_id, group_state=str(DEAD))
        if version >= NOT_FOUND_FROM:
            reply.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            reply.error_message = f"Group {group_id} not found."
        turn.answer(ticket, reply)
        return
    is_stable = group.state is STABLE
    reply = DescribedGroup(
        group_id=group_id,
        group_state=str(group.state),
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_described(member, group) for member in group.members.values()],
    )
    turn.answer(ticket, reply)


def _described(member: Member, group: ClassicGroup) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if group.state is STABLE else b"",
        member_assignment=member.assignment,
    )


def delete_groups(turn: Turn, group_ids: list[str], ticket: Ticket) -> None:
    """Groups without members go, with their offsets (KIP-229)."""
    replies: list[DeletableGroupResult] = []
    for group_id in group_ids:
        group = turn.state.groups.get(group_id)
        error = ErrorCode.NONE
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.state is not EMPTY:
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            _delete(turn, group)
        replies.append(DeletableGroupResult(group_id=group_id, error_code=error))
    turn.answer(ticket, replies)


def _delete(turn: Turn, group: ClassicGroup) -> None:
    forget_offsets(turn, group.group_id)
    turn.write(GroupMetadataKey(group=group.group_id), None)


def tidy_up(turn: Turn, names: list[str]) -> None:
    """Let offsets expire, and groups that have neither members nor offsets any more (KIP-211).

    Args:
        names: The groups to look at.
    """
    for place, name in enumerate(names):
        if len(turn.decision.records) >= RECORDS_MAX:
            turn.follow(partial(tidy_up, names=names[place:]))
            return
        group = turn.state.groups.get(name)
        if group is not None and expire_offsets(turn, group) and group.state is EMPTY:
            turn.write(GroupMetadataKey(group=name), None)
