"""DescribeTransactions: returns the state, producer and partitions of transactional ids (KIP-664). Version 0."""

from minikafka.broker.apis.repeats import Repeats
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
    """Describe transactions. Each transactional id has its own error, duplicates included; see `Repeats`."""
    coordinator = context.services.transactions.coordinator
    repeats = Repeats(lambda state: DescribeTransactionsResponse(transaction_states=[state]), context.version)
    states = [repeats.check(name, await coordinator.describe(name)) for name in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)
