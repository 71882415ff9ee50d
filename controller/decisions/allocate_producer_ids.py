"""AllocateProducerIds: returns the next block of producer ids to a broker (KIP-730)."""

from minikafka.controller.decisions import producer_id_blocks
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

__all__ = ["decide"]


def decide(
    image: Image, request: AllocateProducerIdsRequest, context: Context
) -> Decision[AllocateProducerIdsResponse]:
    """The reply has a block or an error. As in Kafka, an unregistered broker gets STALE_BROKER_EPOCH."""
    if request.broker_id not in image.brokers:
        return Decision([], AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    try:
        decision = producer_id_blocks.decide(image, node_id=request.broker_id, broker_epoch=request.broker_epoch)
    except KafkaError as error:
        return Decision([], AllocateProducerIdsResponse(error_code=error.code))
    block = decision.reply
    reply = AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)
    return Decision(decision.records, reply)
