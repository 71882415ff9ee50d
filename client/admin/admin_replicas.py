"""The methods of `Admin` for replicas and nodes: elections, reassignments, the quorum, unregistering brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minikafka.client.admin.admin_requests import ask_about, item_error
from minikafka.client.admin.admin_types import QuorumDescription, QuorumReplica, Reassignment
from minikafka.client.admin.item_errors import ask_one
from minikafka.client.argument_kinds import Int32, PartitionArgument
from minikafka.client.connections.answers import answer_to
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.option_checks import parse_address
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.protocol.names import TopicPartition, uuid_from_text, uuid_text
from minikafka.protocol.types import NIL_UUID

METADATA_TOPIC = "__cluster_metadata"
_PREFERRED, _UNCLEAN = 0, 1


async def elect_leaders(
    admin: ClusterClient, partitions: Iterable[PartitionArgument] | None = None, *, unclean: bool = False
) -> dict[TopicPartition, KafkaError | None]:
    """Elect the preferred replica (KIP-183) or, with `unclean`, any live replica if there is no leader (KIP-460).

    `partitions` None means all partitions that need an election; the result then omits the others. Otherwise the
    value of a partition that needs no election is an ElectionNotNeededError.
    """
    request = ElectLeadersRequest(
        election_type=_UNCLEAN if unclean else _PREFERRED,
        topic_partitions=None
        if partitions is None
        else [TopicPartitions(topic=topic, partitions=some) for topic, some in by_topic(partitions).items()],
        timeout_ms=admin.cluster.request_timeout_ms,
    )
    response = await ask_about(admin.cluster, request, "electing leaders")
    return {
        (tp := TopicPartition(topic.topic, one.partition_id)): item_error(one, str(tp))
        for topic in response.replica_election_results
        for one in topic.partition_result
    }


async def alter_partition_reassignments(
    admin: ClusterClient,
    targets: Mapping[TopicPartition, Sequence[Int32] | None],
    *,
    allow_replication_factor_change: bool = True,
) -> dict[TopicPartition, KafkaError | None]:
    """Start reassigning partitions to replicas, in order of preference (KIP-455); None cancels a reassignment.

    Returns when the reassignments have started; `list_partition_reassignments` lists those in progress.
    """
    wanted: dict[str, ReassignableTopic] = {}
    for tp, replicas in targets.items():
        topic = wanted.setdefault(tp[0], ReassignableTopic(name=tp[0], partitions=[]))
        chosen = None if replicas is None else list(replicas)
        topic.partitions.append(ReassignablePartition(partition_index=tp[1], replicas=chosen))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=admin.cluster.request_timeout_ms, topics=list(wanted.values())
    )
    if not allow_replication_factor_change:
        request.allow_replication_factor_change = False
    response = await ask_about(admin.cluster, request, "reassigning partitions")
    return {
        (tp := TopicPartition(topic.name, one.partition_index)): item_error(one, str(tp))
        for topic in response.responses
        for one in topic.partitions
    }


async def list_partition_reassignments(
    admin: ClusterClient, partitions: Iterable[PartitionArgument] | None = None
) -> dict[TopicPartition, Reassignment]:
    """The reassignments in progress of the given partitions (None: all partitions)."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=some)
            for topic, some in by_topic(partitions).items()
        ]
    request = ListPartitionReassignmentsRequest(timeout_ms=admin.cluster.request_timeout_ms, topics=topics)
    response = await ask_about(admin.cluster, request, "listing reassignments")
    return {
        TopicPartition(topic.name, one.partition_index): Reassignment(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in response.topics
        for one in topic.partitions
    }


async def describe_quorum(admin: ClusterClient) -> QuorumDescription:
    """The metadata quorum: its leader, voters and observers with their log end offsets (KIP-595, KIP-836)."""
    partition = RequestPartitionData(partition_index=0)
    request = DescribeQuorumRequest(topics=[RequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])])
    what = "describing the quorum"

    async def ask() -> Any:
        response = await ask_about(admin.cluster, request, what)
        one = answer_to(request, response)
        if one.error_code:
            return error_for(one.error_code, f"{what}: {one.error_message or error_for(one.error_code)}")
        return response, one

    response, one = await ask_one(admin.cluster, ask, what)
    addresses = {
        node.node_id: tuple(f"{listener.host}:{listener.port}" for listener in node.listeners)
        for node in response.nodes
    }
    return QuorumDescription(
        one.leader_id,
        one.leader_epoch,
        one.high_watermark,
        [_replica(voter, addresses) for voter in one.current_voters],
        [_replica(observer, addresses) for observer in one.observers],
    )


async def add_raft_voter(
    admin: ClusterClient,
    node_id: Int32,
    directory_id: str,
    endpoints: Mapping[str, str],
    *,
    cluster_id: str | None = None,
) -> None:
    """Make a controller that follows the metadata log a voter of the quorum (KIP-853); return once committed.

    Args:
        directory_id: of the controller's metadata directory (`directory.id` in `meta.properties`), 22 characters.
        endpoints: `host:port` of the controller's listeners, by the name of the listener.
        cluster_id: if given, a cluster with another id refuses the request.

    Raises ValueError for an invalid id or address; DuplicateVoterError, UnsupportedVersionError if the voters
    are fixed, RequestTimedOutError if the controller does not catch up in time …
    """
    request = AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=admin.cluster.request_timeout_ms,
        voter_id=node_id,
        voter_directory_id=uuid_from_text(directory_id),
        listeners=[_listener(name, address) for name, address in endpoints.items()],
    )
    await ask_about(admin.cluster, request, f"adding voter {node_id}", final={ErrorCode.REQUEST_TIMED_OUT})


async def remove_raft_voter(
    admin: ClusterClient, node_id: Int32, directory_id: str, *, cluster_id: str | None = None
) -> None:
    """Remove a voter, which may be the leader, from the metadata quorum. Arguments: see `add_raft_voter`.

    Raises ValueError for an invalid id; VoterNotFoundError, UnsupportedVersionError if the voters are fixed …
    """
    directory = uuid_from_text(directory_id)
    request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=node_id, voter_directory_id=directory)
    await ask_about(admin.cluster, request, f"removing voter {node_id}")


async def unregister_broker(admin: ClusterClient, node_id: Int32) -> None:
    """Remove the registration of a decommissioned broker. Raises BrokerIdNotRegisteredError …"""
    await ask_about(admin.cluster, UnregisterBrokerRequest(broker_id=node_id), f"unregistering broker {node_id}")


def by_topic(partitions: Iterable[PartitionArgument]) -> dict[str, list[int]]:
    """Partition numbers by topic, in order of first mention."""
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


def _replica(one: Any, addresses: Mapping[int, tuple[str, ...]]) -> QuorumReplica:
    return QuorumReplica(
        one.replica_id,
        one.log_end_offset,
        one.last_fetch_timestamp,
        one.last_caught_up_timestamp,
        addresses.get(one.replica_id, ()),
        None if one.replica_directory_id == NIL_UUID else uuid_text(one.replica_directory_id),
    )


def _listener(name: str, address: str) -> Listener:
    host, port = parse_address(address)
    return Listener(name=name, host=host, port=port)
