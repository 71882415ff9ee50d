"""Routes requests at the active controller: changes of voters and kraft.version to the quorum, others to its queue.

The other features of an UpdateFeatures request are validated before kraft.version is changed, and changed after it. If
the leadership ends in between, only kraft.version is changed, and the client gets an error. Source:
`FeatureControlManager.updateFeature`, `ControllerApis.handleAddRaftVoter`.
"""

from typing import Any, Protocol

from minikafka.controller.active.active_controller import ActiveController
from minikafka.controller.active.leadership_term import Outcome
from minikafka.controller.decisions.access_checks import check_access
from minikafka.controller.decisions.decision import Decision
from minikafka.controller.decisions.update_features import NO_ERROR, refusal
from minikafka.controller.metadata.features import KRAFT_VERSION
from minikafka.controller.security.access import Access
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from minikafka.protocol.messages.update_raft_voter import UpdateRaftVoterRequest

__all__ = ["carry_out"]

_VOTER_REQUESTS = (AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest)


class Quorum(Protocol):
    """The quorum, whose voters can be changed."""

    @property
    def kraft_version(self) -> int: ...

    async def answer(self, request: Any) -> Any:
        """The response to one of `_VOTER_REQUESTS`."""
        ...

    async def set_kraft_version(self, update: FeatureUpdateKey, *, validate_only: bool) -> None:
        """Change kraft.version, or with `validate_only` check whether it can be changed. Raises KafkaError."""
        ...


async def carry_out(
    quorum: Quorum | None, active: ActiveController, request: Any, version: int, access: Access
) -> Outcome[Any]:
    """Carry out a request and return its outcome. Raises the errors of `ActiveController.handle`, and
    ClusterAuthorizationFailedError if the client may not send such a request."""
    check_access(request, access)
    assert quorum is not None, "the active controller's node leads the quorum"
    if isinstance(request, _VOTER_REQUESTS) and quorum.kraft_version:
        return Outcome(Decision([], await quorum.answer(request)), 0)
    if isinstance(request, UpdateFeaturesRequest):
        return await _update_features(quorum, active, request, version)
    return await active.handle(request, version, access)


async def _update_features(
    quorum: Quorum, active: ActiveController, request: UpdateFeaturesRequest, version: int
) -> Outcome[Any]:
    others = [update for update in request.feature_updates if update.feature != KRAFT_VERSION]
    own = [update for update in request.feature_updates if update.feature == KRAFT_VERSION]
    if not own:
        return await active.handle(request, version)
    outcome = await active.handle(_of(request, others, validate_only=True), version)
    if outcome.reply.error_code:
        return outcome
    try:
        await quorum.set_kraft_version(own[-1], validate_only=request.validate_only)
    except KafkaError as error:
        return Outcome(Decision([], refusal(error)), 0)
    if others and not request.validate_only:
        outcome = await active.handle(_of(request, others, validate_only=False), version)
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message=NO_ERROR) for update in request.feature_updates
    ]
    return Outcome(Decision([], UpdateFeaturesResponse(error_message=None, results=results)), outcome.end_offset)


def _of(
    request: UpdateFeaturesRequest, updates: list[FeatureUpdateKey], *, validate_only: bool
) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        timeout_ms=request.timeout_ms, feature_updates=updates, validate_only=validate_only
    )
