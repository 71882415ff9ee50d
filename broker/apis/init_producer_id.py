"""InitProducerId: a producer id for an idempotent producer (KIP-98, KIP-360). Versions 0 to 5; 6 is not stable in 4.3.
"""

from minikafka.broker.apis.services import ProducerIdService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST = InitProducerIdRequest
VERSIONS = "0-5"

NONE = -1


async def handle(request: InitProducerIdRequest, context: RequestContext[ProducerIdService]) -> InitProducerIdResponse:
    """A new id with epoch 0 for a producer without transactional id, whichever id it had before.

    INVALID_REQUEST for an empty transactional id or for only one of producer id and epoch; UNSUPPORTED_VERSION for a
    transactional id: transactions are not supported.
    """
    if request.transactional_id == "" or (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=NONE)
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, producer_epoch=NONE)
    return InitProducerIdResponse(producer_id=await context.services.producer_ids.next(), producer_epoch=0)
