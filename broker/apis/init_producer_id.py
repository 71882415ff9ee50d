"""InitProducerId: gives a producer its id and epoch (KIP-98, KIP-360).

Versions 0 to 5: PRODUCER_FENCED from 4 (KIP-588). Version 6, with two-phase commit (KIP-939), is not stable in 4.3, and
only served with `unstable.api.versions.enable`.
"""

from minikafka.broker.apis.services import TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.controller.security.access import Access
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

REQUEST = InitProducerIdRequest
VERSIONS = "0-5"
UNSTABLE_VERSION = 6

NONE = -1
VERSION_WITH_FENCED = 4


Context = RequestContext[TransactionService]


async def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    """Return a producer id and an epoch.

    A transactional id gets its next epoch, which fences other producers of the same transactional id. A producer
    without a transactional id gets a new id with epoch 0, whichever id it had before. The error is INVALID_REQUEST for
    an empty transactional id, and if the request has only one of producer id and epoch.
    """
    if (refused := _refusal(request, context.access)) is not None:
        return InitProducerIdResponse(error_code=refused, producer_epoch=NONE)
    if request.transactional_id == "" or (request.producer_id == NONE) != (request.producer_epoch == NONE):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=NONE)
    transactions = context.services.transactions
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=await transactions.producer_ids.next(), producer_epoch=0)
    expected = None
    if request.producer_id != NONE:
        expected = ProducerIdentity(request.producer_id, request.producer_epoch)
    found = await transactions.coordinator.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        expected,
        two_phase_commit=request.enable2_pc,
        keep_prepared=request.keep_prepared_txn,
    )
    error = found.error
    if error is ErrorCode.PRODUCER_FENCED and context.version < VERSION_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=error, producer_id=found.producer_id, producer_epoch=found.epoch)


def _refusal(request: InitProducerIdRequest, access: Access) -> ErrorCode | None:
    """Return why the client may not have a producer id, or None.

    A producer without a transactional id needs IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679).
    """
    if request.transactional_id is not None:
        needed = [AclOperation.WRITE, *([AclOperation.TWO_PHASE_COMMIT] if request.enable2_pc else [])]
        allowed = all(
            access.allows(operation, AclResourceType.TRANSACTIONAL_ID, request.transactional_id) for operation in needed
        )
        return None if allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if access.allows(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER, CLUSTER_NAME, log_denied=False):
        return None
    allowed = access.allows_any(AclOperation.WRITE, AclResourceType.TOPIC)
    return None if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
