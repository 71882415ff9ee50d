"""WriteTxnMarkers: a transaction coordinator writes markers to the partitions that this node leads (KIP-98). Versions 1
and 2: the transaction's version from 2 (KIP-1228). The admin client sends it to abort a hanging transaction (KIP-664).
"""

from minikafka.broker.apis.services import TransactionService
from minikafka.broker.connections.pauses import Pauses
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.transactions.marker_log import Marker
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

REQUEST = WriteTxnMarkersRequest
VERSIONS = "1-2"

Context = RequestContext[TransactionService]


async def handle(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse:
    """Answered when all markers are committed; an error code for each partition."""
    pause = Pauses()
    names = [await _names(marker, pause) for marker in request.markers]
    results = await context.services.marker_log.write_all(
        [(_marker(marker), some) for marker, some in zip(request.markers, names, strict=True)]
    )
    return WriteTxnMarkersResponse(
        markers=[await _result(marker, errors, pause) for marker, errors in zip(request.markers, results, strict=True)]
    )


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


async def _result(
    marker: WritableTxnMarker, errors: dict[TopicPartition, ErrorCode], pause: Pauses
) -> WritableTxnMarkerResult:
    result = WritableTxnMarkerResult(producer_id=marker.producer_id)
    for topic in marker.topics:
        answered = WritableTxnMarkerTopicResult(name=topic.name)
        result.topics.append(answered)
        for index in topic.partition_indexes:
            await pause()
            error = errors[TopicPartition(topic.name, index)]
            answered.partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
    return result
