"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter where the voters are fixed: kraft.version is 0 (KIP-853).

The shape of a request has been checked by the listener (`broker/apis/raft_voters.py`).

Source: `AddVoterHandler`, `RemoveVoterHandler`.
"""

from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from minikafka.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

__all__ = ["add", "remove", "update"]

_CODE = ErrorCode.UNSUPPORTED_VERSION


def add(image: Image, request: AddRaftVoterRequest, context: Context) -> Decision[AddRaftVoterResponse]:
    """UNSUPPORTED_VERSION."""
    return Decision([], AddRaftVoterResponse(error_code=_CODE, error_message=_words("adding")))


def remove(image: Image, request: RemoveRaftVoterRequest, context: Context) -> Decision[RemoveRaftVoterResponse]:
    """UNSUPPORTED_VERSION."""
    return Decision([], RemoveRaftVoterResponse(error_code=_CODE, error_message=_words("removing")))


def update(image: Image, request: UpdateRaftVoterRequest, context: Context) -> Decision[UpdateRaftVoterResponse]:
    """UNSUPPORTED_VERSION."""
    return Decision([], UpdateRaftVoterResponse(error_code=_CODE))


def _words(what: str) -> str:
    return f"Cluster doesn't support {what} voter because the kraft.version feature is 0"
