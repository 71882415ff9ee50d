"""ListTransactions: lists the transactional ids that this node coordinates (KIP-664).

Versions 0 to 2: a filter by duration from 1 (KIP-994), by pattern from 2 (KIP-1152).
"""

from minikafka.broker.apis.services import TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from minikafka.storage.steps import Pauses

REQUEST = ListTransactionsRequest
VERSIONS = "0-2"


async def handle(
    request: ListTransactionsRequest, context: RequestContext[TransactionService]
) -> ListTransactionsResponse:
    """List the transactional ids that match all filters of the request, and that the client may describe."""
    response, access, pause = await context.services.transactions.coordinator.list(request), context.access, Pauses()
    found, response.transaction_states = response.transaction_states, []
    for state in found:
        await pause()
        if access.allows(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, state.transactional_id):
            response.transaction_states.append(state)
    return response
