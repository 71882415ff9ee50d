"""DescribeTransactions: returns the state, producer and partitions of transactional ids (KIP-664). Version 0."""

from minikafka.broker.apis.authorization import AllowedTopics
from minikafka.broker.apis.repeats import Repeats
from minikafka.broker.apis.services import TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from minikafka.storage.steps import Pauses

REQUEST = DescribeTransactionsRequest
VERSIONS = "0"


async def handle(
    request: DescribeTransactionsRequest, context: RequestContext[TransactionService]
) -> DescribeTransactionsResponse:
    """Describe transactions. Each transactional id has its own error, duplicates included; see `Repeats`.

    Topics that the client may not describe are left out.
    """
    coordinator, access = context.services.transactions.coordinator, context.access
    visible = AllowedTopics(context, AclOperation.DESCRIBE)
    repeats = Repeats(lambda state: DescribeTransactionsResponse(transaction_states=[state]), context.version)
    response = DescribeTransactionsResponse()
    pause = Pauses()
    for name in request.transactional_ids:
        await pause(name)
        if not access.allows(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, name):
            response.transaction_states.append(_hidden(name))
            continue
        state = await coordinator.describe(name)
        state.topics = [topic for topic in state.topics if topic.topic in visible]
        response.transaction_states.append(repeats.check(name, state))
    return response


def _hidden(transactional_id: str) -> TransactionState:
    """Return the answer for a transactional id that the client may not describe, whether it exists or not."""
    return TransactionState(
        transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
