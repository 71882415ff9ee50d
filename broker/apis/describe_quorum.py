"""DescribeQuorum: the voters and observers of the metadata log (KIP-595, KIP-836). Versions 0 to 2."""

from minikafka.broker.apis.quorum_state import Quorum
from minikafka.broker.apis.services import QuorumService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.quorum.quorum_description import ReplicaDescription
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

REQUEST = DescribeQuorumRequest
VERSIONS = "0-2"

METADATA_TOPIC, METADATA_PARTITION = "__cluster_metadata", 0
VERSION_WITH_NODES = 2


async def handle(request: DescribeQuorumRequest, context: RequestContext[QuorumService]) -> DescribeQuorumResponse:
    """The metadata partition, if it is the only one requested; else UNKNOWN_TOPIC_OR_PARTITION for all, as in Kafka."""
    response = DescribeQuorumResponse()
    known = is_of_metadata(request)
    for topic in request.topics:
        answers = [await _describe(one.partition_index, context, known=known) for one in topic.partitions]
        response.topics.append(ResponseTopicData(topic_name=topic.topic_name, partitions=answers))
    if context.version >= VERSION_WITH_NODES and any(
        not answer.error_code for topic in response.topics for answer in topic.partitions
    ):
        response.nodes = [
            Node(node_id=voter.node_id, listeners=[Listener(name=voter.listener, host=voter.host, port=voter.port)])
            for voter in (await context.services.quorum()).addresses
        ]
    return response


def is_of_metadata(request: DescribeQuorumRequest) -> bool:
    """Whether it asks for the metadata partition and nothing else."""
    asked = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in request.topics]
    return asked == [(METADATA_TOPIC, [METADATA_PARTITION])]


async def _describe(index: int, context: RequestContext[QuorumService], *, known: bool) -> ResponsePartitionData:
    if not known:
        return ResponsePartitionData(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    quorum = await context.services.quorum()
    found = quorum.description
    return ResponsePartitionData(
        partition_index=index,
        leader_id=found.leader_id,
        leader_epoch=found.epoch,
        high_watermark=found.high_watermark,
        current_voters=[_state(one, quorum) for one in found.replicas if one.is_voter],
        observers=[_state(one, quorum) for one in found.replicas if not one.is_voter],
    )


def _state(replica: ReplicaDescription, quorum: Quorum) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.node_id,
        replica_directory_id=quorum.directory_id(replica.node_id),
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )
