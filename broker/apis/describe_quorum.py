"""DescribeQuorum: describes the voters and observers of the metadata log (KIP-595, KIP-836, KIP-853).

Versions 0 to 2.
"""

from collections.abc import Iterable
from typing import Protocol

from minikafka.broker.apis.authorization import check_cluster
from minikafka.broker.apis.quorum_state import VoterAddress, quorum_of
from minikafka.broker.apis.services import ControllerService, SetupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.quorum.quorum_description import QuorumDescription, ReplicaDescription
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)

REQUEST = DescribeQuorumRequest
VERSIONS = "0-2"

METADATA_TOPIC, METADATA_PARTITION = "__cluster_metadata", 0
VERSION_WITH_NODES = 2


class QuorumServices(ControllerService, SetupService, Protocol):
    """The parts of the node that the handler uses."""


async def handle(request: DescribeQuorumRequest, context: RequestContext[QuorumServices]) -> DescribeQuorumResponse:
    """Describe the metadata partition.

    If a request names other partitions, all its partitions get UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.

    Raises:
        ClusterAuthorizationFailedError: The client may not describe the cluster.
    """
    check_cluster(context, AclOperation.DESCRIBE)
    if not is_of_metadata(request):
        return DescribeQuorumResponse(topics=[_unknown(topic) for topic in request.topics])
    quorum = await quorum_of(context.services.setup.config, context.services.controller)
    topic = ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[_described(quorum.description)])
    nodes = _nodes(quorum.addresses) if context.version >= VERSION_WITH_NODES else []
    return DescribeQuorumResponse(topics=[topic], nodes=nodes)


def is_of_metadata(request: DescribeQuorumRequest) -> bool:
    """Whether a request asks for the metadata partition and nothing else."""
    asked = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in request.topics]
    return asked == [(METADATA_TOPIC, [METADATA_PARTITION])]


def _unknown(topic: RequestTopicData) -> ResponseTopicData:
    partitions = [
        ResponsePartitionData(
            partition_index=one.partition_index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message="This server does not host this topic-partition.",
        )
        for one in topic.partitions
    ]
    return ResponseTopicData(topic_name=topic.topic_name, partitions=partitions)


def _nodes(addresses: Iterable[VoterAddress]) -> list[Node]:
    """Build the list of voters, each with all its listeners."""
    nodes: dict[int, Node] = {}
    for one in addresses:
        node = nodes.setdefault(one.node_id, Node(node_id=one.node_id, listeners=[]))
        node.listeners.append(Listener(name=one.listener, host=one.host, port=one.port))
    return list(nodes.values())


def _described(found: QuorumDescription) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=METADATA_PARTITION,
        leader_id=found.leader_id,
        leader_epoch=found.epoch,
        high_watermark=found.high_watermark,
        current_voters=[_state(one) for one in found.replicas if one.is_voter],
        observers=[_state(one) for one in found.replicas if not one.is_voter],
    )


def _state(replica: ReplicaDescription) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )
