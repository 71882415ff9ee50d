"""EndTxn: commits or aborts a transaction (KIP-98).

Versions 0 to 5: PRODUCER_FENCED from 2 (KIP-588), a new epoch for each transaction from 5 (KIP-890).
"""

from minikafka.broker.apis.authorization import check_transactional_id
from minikafka.broker.apis.services import TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

REQUEST = EndTxnRequest
VERSIONS = "0-5"

VERSION_WITH_FENCED = 2
VERSION_WITH_EPOCH = 5
CLIENT_VERSION_1, CLIENT_VERSION_2 = 0, 2


async def handle(request: EndTxnRequest, context: RequestContext[TransactionService]) -> EndTxnResponse:
    """End a transaction. The response is sent when the outcome is committed; the markers are written after that.

    Raises:
        TransactionalIdAuthorizationFailedError: The client may not write with the transactional id.
    """
    check_transactional_id(context, AclOperation.WRITE, request.transactional_id)
    ended = await context.services.transactions.coordinator.end(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        commit=request.committed,
        client_version=CLIENT_VERSION_2 if context.version >= VERSION_WITH_EPOCH else CLIENT_VERSION_1,
    )
    error = ended.error
    if error is ErrorCode.PRODUCER_FENCED and context.version < VERSION_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=error, producer_id=ended.producer_id, producer_epoch=ended.epoch)
