"""ListTransactions: lists the transactional ids that this node coordinates (KIP-664).

Versions 0 to 2: a filter by duration from 1 (KIP-994), by pattern from 2 (KIP-1152).
"""

from minikafka.broker.apis.services import TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

REQUEST = ListTransactionsRequest
VERSIONS = "0-2"


async def handle(
    request: ListTransactionsRequest, context: RequestContext[TransactionService]
) -> ListTransactionsResponse:
    """List the transactional ids that match all filters of the request."""
    return await context.services.transactions.coordinator.list(request)
