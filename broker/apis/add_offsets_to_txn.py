"""AddOffsetsToTxn: adds a group's offsets to a transaction (KIP-98). Versions 0 to 4: PRODUCER_FENCED from 2 (KIP-588).
"""

from typing import Protocol

from minikafka.broker.apis.authorization import check_group, check_transactional_id
from minikafka.broker.apis.services import GroupService, TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.groups.group_coordinator import TOPIC
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from minikafka.protocol.names import TopicPartition

REQUEST = AddOffsetsToTxnRequest
VERSIONS = "0-4"

VERSION_WITH_FENCED = 2
CLIENT_VERSION = 0


class AddOffsetsServices(GroupService, TransactionService, Protocol):
    """The parts of the node that the handler uses."""


async def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext[AddOffsetsServices]
) -> AddOffsetsToTxnResponse:
    """Add the group's partition of `__consumer_offsets` to the transaction, so that it gets a marker at the end.

    Raises:
        TransactionalIdAuthorizationFailedError: The client may not write with the transactional id.
        GroupAuthorizationFailedError: The client may not read the group.
    """
    check_transactional_id(context, AclOperation.WRITE, request.transactional_id)
    check_group(context, AclOperation.READ, request.group_id)
    index = context.services.groups.partition_in_transaction(request.group_id)
    error = await context.services.transactions.coordinator.add_partitions(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        frozenset({TopicPartition(TOPIC, index)}),
        client_version=CLIENT_VERSION,
    )
    if error is ErrorCode.PRODUCER_FENCED and context.version < VERSION_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=error)
