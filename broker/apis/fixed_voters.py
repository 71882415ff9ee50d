"""AddRaftVoter and RemoveRaftVoter: refused, since kraft.version is 0 (KIP-853). A broker answers as its controller."""

from typing import Any, NoReturn

from minikafka.broker.apis.services import ClusterView
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.connections.routes import ApiHandler
from minikafka.protocol.errors import InconsistentClusterIdError, InvalidRequestError, UnsupportedVersionError
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest

NO_VOTER_CHANGES = "Cluster doesn't support adding or removing voters: its kraft.version is 0"


async def refuse(request: Any, context: RequestContext[ClusterView]) -> Any:
    """Refuses the change.

    Raises:
        InconsistentClusterIdError: The request names another cluster.
        InvalidRequestError: A voter without an endpoint.
        UnsupportedVersionError: Voters are fixed.
    """
    check_cluster(request, context)
    refuse_change(request)


def refuse_change(request: Any) -> NoReturn:
    """The last part of `refuse`."""
    if isinstance(request, AddRaftVoterRequest) and not request.listeners:
        raise InvalidRequestError("Add voter request didn't include an endpoint")
    raise UnsupportedVersionError(NO_VOTER_CHANGES)


def check_cluster(request: Any, context: RequestContext[ClusterView]) -> None:
    """Raises InconsistentClusterIdError where the request names another cluster."""
    if request.cluster_id not in (None, context.services.image.cluster_id):
        raise InconsistentClusterIdError


HANDLERS = [ApiHandler(AddRaftVoterRequest, "0-1", refuse), ApiHandler(RemoveRaftVoterRequest, "0", refuse)]
