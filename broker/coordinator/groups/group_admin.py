"""Administration of groups in one shard: ListGroups, DescribeGroups and DeleteGroups.

Source: Kafka's `GroupMetadataManager` (listGroups, describeGroups) and `GroupCoordinatorShard`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from typing import NamedTuple

from minikafka.broker.coordinator.decision import Now, Ticket
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.classic_group_states import DEAD, STABLE
from minikafka.broker.coordinator.groups.state.classic_member import Member
from minikafka.broker.coordinator.groups.state.group import Group
from minikafka.broker.coordinator.groups.state.shard_state import ShardState
from minikafka.protocol.elements import weight
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.delete_groups import DeletableGroupResult
from minikafka.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from minikafka.protocol.shortened import shortened
from minikafka.storage.steps import Pauses, Steps

NOT_FOUND_FROM = 6
LISTED_AT_ONCE = 2_000
"""The number of groups that are looked at before other tasks run; about 5 ms."""
TOMBSTONES_AT_ONCE = 1_000
"""The number of tombstones after which a decision begins no other group; about 5 ms, or twice as much.

Long group names count as more than one tombstone.
"""


class GroupFilter(NamedTuple):
    """The states and types of the groups to list, in lower case (KIP-518, KIP-848); an empty set allows all."""

    states: set[str]
    types: set[str]


def group_filter(request: ListGroupsRequest) -> Steps[GroupFilter]:
    """The filter of a request, which may have very many names, in steps."""
    pauses, wanted = Pauses(), GroupFilter(set(), set())
    for state in request.states_filter:
        if pauses.is_due(state):
            yield None
        wanted.states.add(state.strip().lower())
    for kind in request.types_filter:
        if pauses.is_due(kind):
            yield None
        wanted.types.add(kind.lower())
    return wanted


def list_groups(state: ShardState, _: Now, wanted: GroupFilter) -> Generator[None, None, list[ListedGroup]]:
    """List groups by state and type, in steps."""
    states, types = wanted
    listed: list[ListedGroup] = []
    for number, group in enumerate(list(state.groups_to_read()), 1):
        if (not types or group.type_name in types) and (not states or group.state_name.lower() in states):
            listed.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.listed_protocol_type,
                    group_state=group.state_name,
                    group_type=group.type_name,
                )
            )
        if number % LISTED_AT_ONCE == 0:
            yield
    return listed


def describe_group(builder: DecisionBuilder, group_id: str, version: int, ticket: Ticket) -> None:
    """Describe a classic group and its members. Any other group is Dead, from version 6 on with an error (KIP-1043)."""
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


def delete_groups(builder: DecisionBuilder, group_ids: Iterable[str], ticket: Ticket) -> None:
    """Delete groups without members, and their offsets (KIP-229), as far as one decision should.

    The reply has a result for each group that is finished. The groups after these, of which the first may have lost
    some of its offsets, need further decisions.
    """
    replies: list[DeletableGroupResult] = []
    names_weight = 0
    for group_id in group_ids:
        if names_weight + len(builder.decision.records) >= TOMBSTONES_AT_ONCE:
            break
        names_weight += weight(group_id)
        group = builder.state.find(group_id)
        error = ErrorCode.NONE
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_empty:
            error = ErrorCode.NON_EMPTY_GROUP
        elif not _delete(builder, group):
            break
        replies.append(DeletableGroupResult(group_id=group_id, error_code=error))
    builder.answer(ticket, replies)


def _delete(builder: DecisionBuilder, group: Group) -> bool:
    """Delete some offsets of a group, and the group itself if no offset is left; returns whether none is left."""
    partitions = builder.state.offsets.partitions(group.group_id)
    some = list(islice(partitions, max(TOMBSTONES_AT_ONCE // weight(group.group_id), 1)))
    for topic, index in some:
        builder.write(OffsetCommitKey(group=group.group_id, topic=topic, partition=index), None)
    is_whole = next(partitions, None) is None
    builder.decision.records += group.tombstones() if is_whole else ()
    return is_whole
