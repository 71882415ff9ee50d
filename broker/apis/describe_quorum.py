"""DescribeQuorum: the voters of the metadata log and how far they are (KIP-595, KIP-836). Versions 0 to 2."""

from minikafka.broker.context import RequestContext
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


async def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    """The metadata's partition; every other is unknown here."""
    response = DescribeQuorumResponse()
    for topic in request.topics:
        answers = [_describe(topic.topic_name, asked.partition_index, context) for asked in topic.partitions]
        response.topics.append(ResponseTopicData(topic_name=topic.topic_name, partitions=answers))
    if context.version >= VERSION_WITH_NODES and any(
        not answer.error_code for topic in response.topics for answer in topic.partitions
    ):
        response.nodes = [
            Node(node_id=voter.node_id, listeners=[Listener(name=voter.listener, host=voter.host, port=voter.port)])
            for voter in context.node.quorum().voters
        ]
    return response


def _describe(topic: str, index: int, context: RequestContext) -> ResponsePartitionData:
    if (topic, index) != (METADATA_TOPIC, METADATA_PARTITION):
        return ResponsePartitionData(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    quorum = context.node.quorum()
    return ResponsePartitionData(
        partition_index=index,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=voter.node_id,
                replica_directory_id=voter.directory_id,
                log_end_offset=voter.log_end_offset,
                last_fetch_timestamp=voter.last_caught_up_ms,
                last_caught_up_timestamp=voter.last_caught_up_ms,
            )
            for voter in quorum.voters
        ],
        observers=[],
    )
