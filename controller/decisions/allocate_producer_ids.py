"""AllocateProducerIds: the next block of producer ids for a broker (KIP-730)."""

from minikafka.controller.decisions import producer_ids
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

__all__ = ["decide"]


def decide(
    image: Image, request: AllocateProducerIdsRequest, context: Context
) -> Decision[AllocateProducerIdsResponse]:
    """A block, or why there is none; a broker that nobody knows has a stale epoch, as in Kafka."""
    if request.broker_id not in image.brokers:
        return Decision([], AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    try:
        decision = producer_ids.decide(image, node_id=request.broker_id, broker_epoch=request.broker_epoch)
    except KafkaError as error:
        return Decision([], AllocateProducerIdsResponse(error_code=error.code))
    block = decision.reply
    reply = AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)
    return Decision(decision.records, reply)
