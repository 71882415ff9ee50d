"""InitProducerId: an identity for an idempotent producer (KIP-98, KIP-360). Versions 0 to 5; 6 is not stable in 4.3."""

from minikafka.broker.context import RequestContext
from minikafka.protocol.errors import InvalidRequestError, UnsupportedVersionError
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST = InitProducerIdRequest
VERSIONS = "0-5"

NONE = -1


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    """A new id with epoch 0 for a producer without transactional id, whatever it says that it had before.

    Raises:
        InvalidRequestError: An empty transactional id, or only one of producer id and epoch.
        UnsupportedVersionError: Transactions are not there yet.
    """
    if request.transactional_id == "":
        raise InvalidRequestError("the transactional id is empty")
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise InvalidRequestError("producer id and epoch come together or not at all")
    if request.transactional_id is not None:
        raise UnsupportedVersionError("this node has no transactions yet")
    return InitProducerIdResponse(producer_id=await context.node.producer_ids.next(), producer_epoch=0)
