"""FindCoordinator: finds the coordinators of groups and transactional ids.

Versions 0 to 6: key types from 1, several keys from 4 (KIP-699), TRANSACTION_ABORTABLE from 5 (KIP-890), share groups
from 6 (KIP-932; not supported).

The first request creates the internal topic (`broker/coordinator/coordinator_lookup.py`).
"""

from typing import Protocol

from minikafka.broker.apis.authorization import check_cluster, check_group, check_transactional_id
from minikafka.broker.apis.cluster_answers import addresses_of
from minikafka.broker.apis.services import ClusterView, CoordinatorService
from minikafka.broker.connections.large_messages import ELEMENTS_MAX_WITH_PAUSES
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import CoordinatorNotAvailableError, ErrorCode, InvalidRequestError, KafkaError
from minikafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.storage.steps import Pauses

REQUEST = FindCoordinatorRequest
VERSIONS = "0-6"
ELEMENTS_MAX = ELEMENTS_MAX_WITH_PAUSES

GROUP, TRANSACTION, SHARE = 0, 1, 2
VERSION_WITH_SHARE = 6
VERSION_WITH_KEYS = 4
NO_NODE = -1


class FindCoordinatorServices(ClusterView, CoordinatorService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[FindCoordinatorServices]
NO_ERROR = "NONE"
"""The error message of a successful response in versions before 4."""


async def handle(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    """Find the coordinators of all keys, each with its own error; before version 4 there is one key."""
    if context.version >= VERSION_WITH_KEYS:
        pause, response = Pauses(every=64), FindCoordinatorResponse()
        for key in request.coordinator_keys:
            response.coordinators.append(await _find(request.key_type, key, context))
            await pause(key)
        return response
    found = await _find(request.key_type, request.key, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or NO_ERROR,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(key_type: int, key: str, context: Context) -> Coordinator:
    try:
        if key_type == GROUP:
            check_group(context, AclOperation.DESCRIBE, key)
        elif key_type == TRANSACTION:
            check_transactional_id(context, AclOperation.DESCRIBE, key)
        elif key_type == SHARE and context.version >= VERSION_WITH_SHARE:
            check_cluster(context, AclOperation.CLUSTER_ACTION)
        if key_type not in (GROUP, TRANSACTION):
            raise InvalidRequestError(f"coordinators of type {key_type} are not supported")
        node_id = await context.services.coordinators.coordinator_of(key_type, key)
        address = next((one for one in addresses_of(context) if one.node_id == node_id), None)
        if address is None:
            raise CoordinatorNotAvailableError("The coordinator is not available.")
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=NO_NODE, port=NO_NODE, error_code=ErrorCode(error.code), error_message=error.message
        )
    return Coordinator(
        key=key, node_id=address.node_id, host=address.host, port=address.port, error_message=""
    )
