"""ElectLeaders: preferred and unclean leader elections on request (KIP-460).

Source: `ReplicationControlManager.electLeaders`.
"""

from collections.abc import Generator, Iterable, Sequence

from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision
from minikafka.controller.decisions.leader_election import Election, TopicRules
from minikafka.controller.decisions.partition_changes import partition_change
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import PartitionChange
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP
from minikafka.protocol.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    KafkaError,
    PolicyViolationError,
    PreferredLeaderNotAvailableError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    without_frames,
)
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from minikafka.storage.steps import Pauses, without_pauses

__all__ = ["decide", "deciding"]

PREFERRED, UNCLEAN = 0, 1


def deciding(
    image: Image, request: ElectLeadersRequest, context: Context
) -> Generator[None, None, Decision[ElectLeadersResponse]]:
    """Decide in steps, with a result for each partition. A request for all partitions gets results only of the
    partitions that needed an election."""
    if request.topic_partitions == []:
        return Decision([], ElectLeadersResponse())
    if request.timeout_ms <= 0:
        return Decision([], _refuse(request, RequestTimedOutError()))
    if request.election_type not in (PREFERRED, UNCLEAN):
        return Decision([], _refuse(request, InvalidRequestError(f"Unknown election type {request.election_type}")))
    all_requested = request.topic_partitions is None
    rules = TopicRules(image, context.settings(image))
    records: list[PartitionChange] = []
    results: list[ReplicaElectionResult] = []
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for name, partitions in _requested(image, request):
        result = ReplicaElectionResult(topic=name)
        results.append(result)
        for index in partitions:
            if pauses.is_due():
                yield
            error: KafkaError | None = None
            try:
                records.append(_elect(name, index, image, rules, unclean=request.election_type == UNCLEAN))
            except KafkaError as refusal:
                error = without_frames(refusal)
            if not (all_requested and isinstance(error, ElectionNotNeededError)):
                result.partition_result.append(_result(index, error))
    if len(records) > RECORDS_MAX:
        problem = PolicyViolationError("Unable to perform excessively large batch operation.")
        return Decision([], _refuse(request, problem))
    return Decision([*records], ElectLeadersResponse(replica_election_results=results))


decide = without_pauses(deciding)


def _refuse(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=requested.topic, partition_result=[_result(index, error) for index in requested.partitions]
            )
            for requested in request.topic_partitions or ()
        ],
    )


def _requested(image: Image, request: ElectLeadersRequest) -> Iterable[tuple[str, Sequence[int]]]:
    """The requested partitions by topic; all partitions of all topics if the request has no list."""
    if request.topic_partitions is None:
        return ((topic.name, range(len(topic.partitions))) for topic in image.topics.values())
    return ((requested.topic, requested.partitions) for requested in request.topic_partitions)


def _result(index: int, error: KafkaError | None) -> PartitionResult:
    return PartitionResult(
        partition_id=index,
        error_code=error.code if error else 0,
        error_message=error.detail if error else None,
    )


def _elect(name: str, index: int, image: Image, rules: TopicRules, *, unclean: bool) -> PartitionChange:
    """The change that elects the leader of one partition.

    Raises:
        KafkaError: no election is needed or possible.
    """
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        raise UnknownTopicOrPartitionError(f"No such partition as {name}-{index}")
    state = topic.partitions[index]
    if state.leader >= 0 if unclean else state.leader == state.replicas[0]:
        raise ElectionNotNeededError("Leader election not needed for topic partition.")
    election = Election.UNCLEAN if unclean else Election.PREFERRED
    change = partition_change(topic.id, index, state, state, rules.of(topic, election))
    if change is None or change.leader is None or change.leader < 0:
        raise EligibleLeadersNotAvailableError if unclean else PreferredLeaderNotAvailableError
    return change
