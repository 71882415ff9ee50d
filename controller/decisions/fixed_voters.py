"""Answers AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter where the voters are fixed: kraft.version is 0 (KIP-853).

The listener (`broker/apis/raft_voters.py`) has checked the form of a request. For UpdateRaftVoter it has also checked
that the settings name the voter.

Source: `AddVoterHandler`, `RemoveVoterHandler`, `UpdateVoterHandler`.
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
    """Refuse to add a voter, with UNSUPPORTED_VERSION."""
    return Decision([], AddRaftVoterResponse(error_code=_CODE, error_message=_words("adding")))


def remove(image: Image, request: RemoveRaftVoterRequest, context: Context) -> Decision[RemoveRaftVoterResponse]:
    """Refuse to remove a voter, with UNSUPPORTED_VERSION."""
    return Decision([], RemoveRaftVoterResponse(error_code=_CODE, error_message=_words("removing")))


def update(image: Image, request: UpdateRaftVoterRequest, context: Context) -> Decision[UpdateRaftVoterResponse]:
    """Accept the update of a voter without an error and without effect: updates have an effect from kraft.version 1 on.

    Kafka's leader keeps the update in memory for an upgrade of kraft.version; minikafka asks the voters at the upgrade.
    """
    return Decision([], UpdateRaftVoterResponse())


def _words(what: str) -> str:
    return f"Cluster doesn't support {what} voter because the kraft.version feature is 0"
