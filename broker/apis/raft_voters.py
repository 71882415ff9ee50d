"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter: changes of the quorum's voters (KIP-853).

A broker forwards the first two to the active controller; UpdateRaftVoter is offered by controllers only. A request is
checked in Kafka's order: the client's rights, cluster, leader, voter, endpoints; the active controller checks the rest.

Source: `KafkaRaftClient.handleAddVoterRequest`, `handleRemoveVoterRequest`, `handleUpdateVoterRequest`.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from minikafka.broker.apis.quorum_state import default_listener
from minikafka.broker.apis.services import ClusterView, ControllerService, SetupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.connections.routes import ApiHandler
from minikafka.controller.decisions.access_checks import check_access
from minikafka.protocol.errors import InconsistentClusterIdError, InvalidRequestError
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from minikafka.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from minikafka.protocol.types import NIL_UUID

__all__ = ["HANDLERS", "VERSIONS", "change", "check_cluster_id", "check_update", "check_voter"]

VERSIONS: dict[type, str] = {AddRaftVoterRequest: "0-1", RemoveRaftVoterRequest: "0"}


class Services(ClusterView, ControllerService, SetupService, Protocol):
    """The parts of the node that these handlers use."""


async def change(request: Any, context: RequestContext[Services]) -> Any:
    """Return the active controller's response to AddRaftVoter or RemoveRaftVoter.

    Raises:
        ClusterAuthorizationFailedError: The client may not alter the cluster.
        InconsistentClusterIdError: The request names another cluster.
        InvalidRequestError: The voter has no id, no directory id, or no address at the controllers' listener.
        KafkaError: See `Controller.handle`.
    """
    check_access(request, context.access)
    services = context.services
    check_cluster_id(request, services.image.cluster_id)
    check_voter(request, default_listener(services.setup.config))
    return await services.controller.handle(request, context.version, context.access)


def check_cluster_id(request: Any, cluster_id: str | None) -> None:
    """Raise InconsistentClusterIdError if the request names another cluster."""
    if request.cluster_id not in (None, cluster_id):
        raise InconsistentClusterIdError(
            f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"'
        )


def check_voter(request: Any, listener: str) -> None:
    """Raise InvalidRequestError if the voter has no id or no directory, or, unless it is removed, not `listener`."""
    what = "Remove" if isinstance(request, RemoveRaftVoterRequest) else "Add"
    if request.voter_id < 0 or request.voter_directory_id == NIL_UUID:
        raise InvalidRequestError(f"{what} voter request didn't include a valid voter")
    if isinstance(request, RemoveRaftVoterRequest):
        return
    if not _has_listener(request.listeners, listener):
        raise InvalidRequestError(
            f"{what} voter request didn't include the endpoint ({_endpoints(request.listeners)}) for the default "
            f"listener {listener}"
        )


def check_update(request: UpdateRaftVoterRequest, listener: str, kraft_version: int) -> None:
    """Raise InvalidRequestError for an invalid voter, or a voter without support for the quorum's `kraft.version`."""
    check_voter(request, listener)
    versions = request.k_raft_version_feature
    if not 0 <= versions.min_supported_version <= kraft_version <= versions.max_supported_version:
        raise InvalidRequestError(f"Update voter request didn't include kraft.version {kraft_version}")


def _has_listener(listeners: Sequence[Any], name: str) -> bool:
    return any(one.name.upper() == name.upper() for one in listeners)


def _endpoints(listeners: Sequence[Any]) -> str:
    return ", ".join(f"{one.name}://{one.host}:{one.port}" for one in listeners)


HANDLERS = [ApiHandler(request, versions, change) for request, versions in VERSIONS.items()]
"""The handlers of a broker's listeners."""
