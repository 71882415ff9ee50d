"""DescribeTransactions: state, producer and partitions of transactional ids (KIP-664). Version 0."""

from minikafka.broker.apis.services import TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

REQUEST = DescribeTransactionsRequest
VERSIONS = "0"


async def handle(
    request: DescribeTransactionsRequest, context: RequestContext[TransactionService]
) -> DescribeTransactionsResponse:
    """Each transactional id has its own error."""
    coordinator = context.services.transactions
    states = [await coordinator.describe(name) for name in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)
