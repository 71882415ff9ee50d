"""WriteTxnMarkers: a transaction coordinator writes markers to the partitions that this node leads (KIP-98).

Versions 1 and 2: the transaction's version from 2 (KIP-1228). The admin client sends it to abort a hanging transaction
(KIP-664).
"""

from minikafka.broker.apis.authorization import check_cluster
from minikafka.broker.apis.services import TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.transactions.marker_log import Marker, Results
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage.steps import Pauses

REQUEST = WriteTxnMarkersRequest
VERSIONS = "1-2"

Context = RequestContext[TransactionService]


async def handle(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse:
    """Write markers, and respond when all are committed, with an error code for each partition.

    As in Kafka, the response has one entry for a producer that is named twice, and no entry for a producer or a topic
    without partitions.

    Raises:
        ClusterAuthorizationFailedError: The client is no node of the cluster, and may not alter the cluster.
    """
    if not context.access.allows(AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME, log_denied=False):
        check_cluster(context, AclOperation.CLUSTER_ACTION)
    pause = Pauses()
    names = [await _names(marker, pause) for marker in request.markers]
    results = await context.services.transactions.marker_log.write_all(
        [(_marker(marker), some) for marker, some in zip(request.markers, names, strict=True)]
    )
    return await _response(request, results)


async def _names(marker: WritableTxnMarker, pause: Pauses) -> list[TopicPartition]:
    names = []
    for topic in marker.topics:
        for index in topic.partition_indexes:
            await pause()
            names.append(TopicPartition(topic.name, index))
    return names


def _marker(marker: WritableTxnMarker) -> Marker:
    return Marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )


async def _response(request: WriteTxnMarkersRequest, results: list[Results]) -> WriteTxnMarkersResponse:
    """Build one entry for each producer with partitions, and for each of its topics, however often they are named."""
    pause = Pauses()
    by_producer: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker, errors in zip(request.markers, results, strict=True):
        for name, error in errors.items():
            await pause()
            by_producer.setdefault(marker.producer_id, {}).setdefault(name.topic, {})[name.partition] = error
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[await _topic_result(name, errors, pause) for name, errors in topics.items()],
            )
            for producer_id, topics in by_producer.items()
        ]
    )


async def _topic_result(name: str, errors: dict[int, ErrorCode], pause: Pauses) -> WritableTxnMarkerTopicResult:
    result = WritableTxnMarkerTopicResult(name=name)
    for index, error in errors.items():
        await pause()
        result.partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
    return result
