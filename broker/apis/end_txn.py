"""EndTxn: commits or aborts a transaction (KIP-98).

Versions 0 to 5: PRODUCER_FENCED from 2 (KIP-588), a new epoch for each transaction from 5 (KIP-890).
"""

from collections.abc import Coroutine
from typing import Any

from minikafka.broker.apis.services import TransactionService
from minikafka.broker.connections.at_once import AtOnce, completed
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

REQUEST = EndTxnRequest
VERSIONS = "0-5"

VERSION_WITH_FENCED = 2
VERSION_WITH_EPOCH = 5
CLIENT_VERSION_1, CLIENT_VERSION_2 = 0, 2


def begin(request: EndTxnRequest, context: RequestContext[TransactionService]) -> AtOnce[EndTxnResponse]:
    """End a transaction. The response is sent when the outcome is committed; the markers are written after that."""
    ended = context.services.transactions.end(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        commit=request.committed,
        client_version=CLIENT_VERSION_2 if context.version >= VERSION_WITH_EPOCH else CLIENT_VERSION_1,
    )
    if isinstance(ended, ProducerIdentity):
        return _response(ended, context.version)
    return _when_ended(ended, context.version)


async def handle(request: EndTxnRequest, context: RequestContext[TransactionService]) -> EndTxnResponse:
    """Handle a request as `begin` does, and wait for the response."""
    return await completed(begin(request, context))


async def _when_ended(ended: Coroutine[Any, Any, ProducerIdentity], version: int) -> EndTxnResponse:
    return _response(await ended, version)


def _response(ended: ProducerIdentity, version: int) -> EndTxnResponse:
    error = ended.error
    if error is ErrorCode.PRODUCER_FENCED and version < VERSION_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=error, producer_id=ended.producer_id, producer_epoch=ended.epoch)
