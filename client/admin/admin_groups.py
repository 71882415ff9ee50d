"""The methods of `Admin` for consumer groups: listing, describing, deleting, and their committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from minikafka.client.admin.admin_types import GroupDescription, GroupListing, GroupMember
from minikafka.client.admin.item_errors import ask_each
from minikafka.client.argument_kinds import Natural, PartitionArgument
from minikafka.client.connections.answers import answer_to
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.groups.assignors import decode_assignment
from minikafka.client.offset_queries import OFFSET_COMMIT_VERSION_MAX, commit_request, committed_offsets
from minikafka.client.offsets import OffsetAndMetadata
from minikafka.protocol.errors import (
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    KafkaError,
    NetworkError,
    NotCoordinatorError,
    UnsupportedVersionError,
    error_for,
)
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest
from minikafka.protocol.names import TopicPartition

_MOVED = (NotCoordinatorError, CoordinatorNotAvailableError, NetworkError)
"""The errors after which the coordinator is looked up again."""


async def list_groups(
    admin: ClusterClient, *, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[GroupListing]:
    """The groups of all brokers, sorted by id; only groups in the given states ("Stable", …) and types, if given.

    Types are "classic" and "consumer". Raises UnsupportedVersionError if a broker is too old for a filter.
    """
    await admin.cluster.retry(admin.cluster.refresh, "finding brokers")
    found: dict[str, GroupListing] = {}
    for node_id in sorted(admin.cluster.metadata.brokers):
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        response = await admin.cluster.retry(partial(_listed, admin.cluster, request, node_id), "listing groups")
        for one in response.groups:
            found[one.group_id] = GroupListing(one.group_id, one.protocol_type, one.group_state, one.group_type)
    return [found[group_id] for group_id in sorted(found)]


async def describe_group(admin: ClusterClient, group_id: str) -> GroupDescription:
    """Describe a group of either protocol: its state and members. Raises GroupIdNotFoundError …"""

    async def attempt() -> GroupDescription:
        try:
            return await _describe_consumer_group(admin.cluster, group_id)
        except (GroupIdNotFoundError, UnsupportedVersionError):
            return await _describe_classic_group(admin.cluster, group_id)

    return await admin.cluster.retry(attempt, f"describing group {group_id!r}")


async def _describe_consumer_group(cluster: Cluster, group_id: str) -> GroupDescription:
    """Describe a group of the consumer protocol. Raises UnsupportedVersionError if the broker lacks it."""
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    response, node_id = await _coordinator(cluster, group_id, request)
    group = answer_to(request, response)
    if group.error_code:
        raise _error(cluster, group_id, group.error_code, group.error_message)
    members = [
        GroupMember(
            one.member_id,
            one.client_id,
            one.client_host,
            one.instance_id,
            _assigned(one.assignment),
            one.member_epoch,
            _assigned(one.target_assignment),
        )
        for one in group.members
    ]
    return GroupDescription(
        group_id,
        group.group_state,
        "consumer",
        group.assignor_name,
        node_id,
        members,
        group_type="consumer",
        epoch=group.group_epoch,
    )


async def _describe_classic_group(cluster: Cluster, group_id: str) -> GroupDescription:
    request = DescribeGroupsRequest(groups=[group_id])
    response, node_id = await _coordinator(cluster, group_id, request)
    group = answer_to(request, response)
    if group.error_code:
        raise _error(cluster, group_id, group.error_code, group.error_message)
    if group.group_state == "Dead":
        raise GroupIdNotFoundError(f"group {group_id!r} does not exist")
    members = [_member(one) for one in group.members]
    state, kind, assignor = group.group_state, group.protocol_type, group.protocol_data
    return GroupDescription(group_id, state, kind, assignor, node_id, members)


async def delete_group(admin: ClusterClient, group_id: str) -> None:
    """Delete a group without members and its offsets. Raises NonEmptyGroupError, GroupIdNotFoundError …"""

    async def attempt() -> None:
        request = DeleteGroupsRequest(groups_names=[group_id])
        response, _ = await _coordinator(admin.cluster, group_id, request)
        code = answer_to(request, response).error_code
        if code:
            raise _error(admin.cluster, group_id, code)

    await admin.cluster.retry(attempt, f"deleting group {group_id!r}")


async def list_group_offsets(
    admin: ClusterClient, group_id: str, partitions: Iterable[PartitionArgument] | None = None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A group's committed offsets of the given partitions (None: all partitions)."""
    chosen = None if partitions is None else [TopicPartition(*one) for one in partitions]
    return await admin.cluster.retry(
        lambda: committed_offsets(admin.cluster, group_id, chosen, require_stable=False),
        f"fetching the offsets of group {group_id!r}",
    )


async def alter_group_offsets(
    admin: ClusterClient, group_id: str, offsets: Mapping[TopicPartition, Natural | OffsetAndMetadata]
) -> None:
    """Set a group's committed offsets. Raises UnknownMemberIdError if the group has members.

    Raises the KafkaError of one partition, such as UnknownTopicOrPartitionError; the others' offsets are set even then.
    """
    committed = {
        TopicPartition(*tp): one if isinstance(one, OffsetAndMetadata) else OffsetAndMetadata(one)
        for tp, one in offsets.items()
    }

    async def ask(some: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
        request = commit_request(group_id, {tp: committed[tp] for tp in some})
        response, _ = await _coordinator(admin.cluster, group_id, request)
        codes = {
            TopicPartition(topic.name, one.partition_index): one.error_code
            for topic in response.topics
            for one in topic.partitions
        }
        return {
            tp: _error(admin.cluster, group_id, code, f"{tp}: {error_for(code)}") if code else None
            for tp, code in codes.items()
        }

    found = await ask_each(admin.cluster, committed, ask, f"altering the offsets of group {group_id!r}")
    for error in found.values():
        if error is not None:
            raise error


def _error(cluster: Cluster, group_id: str, code: int, text: str | None = None) -> KafkaError:
    """The error of a response. If the group has moved to another coordinator, the cached one is forgotten."""
    error = error_for(code, f"group {group_id!r}: {text or error_for(code)}")
    if isinstance(error, _MOVED):
        cluster.forget_coordinator(group_id)
    return error


async def _coordinator(cluster: Cluster, group_id: str, request: Any) -> tuple[Any, int]:
    """Send a request to the group's coordinator; return the response and the coordinator's node id."""
    node_id = await cluster.coordinator(group_id)
    highest = OFFSET_COMMIT_VERSION_MAX if isinstance(request, OffsetCommitRequest) else None
    try:
        return await cluster.request(request, node_id, highest=highest), node_id
    except _MOVED:
        cluster.forget_coordinator(group_id)
        raise


async def _listed(cluster: Cluster, request: ListGroupsRequest, node_id: int) -> Any:
    connection = await cluster.connection(node_id)
    version = connection.version_for(ListGroupsRequest)
    for what, wanted, first in (("state", request.states_filter, 4), ("type", request.types_filter, 5)):
        if wanted and version < first:
            text = f"the broker at {connection.address} does not support filtering groups by {what}"
            raise UnsupportedVersionError(text)
    response = await cluster.request(request, node_id)
    if response.error_code:
        raise error_for(response.error_code, f"ListGroups failed at broker {node_id}")
    return response


def _member(one: Any) -> GroupMember:
    try:
        assignment = decode_assignment(bytes(one.member_assignment))
    except MalformedMessage:
        assignment = []  # The group is not a consumer group.
    return GroupMember(one.member_id, one.client_id, one.client_host, one.group_instance_id, assignment)


def _assigned(assignment: Assignment) -> list[TopicPartition]:
    return [TopicPartition(one.topic_name, index) for one in assignment.topic_partitions for index in one.partitions]
