"""ElectLeaders: back to the preferred replica, or to any that lives where none leads (KIP-460).

Source: `ReplicationControlManager.electLeaders`.
"""

from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.image import Image, PartitionState
from minikafka.controller.records import PartitionChange
from minikafka.protocol.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    KafkaError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

__all__ = ["decide"]

PREFERRED, UNCLEAN = 0, 1


def decide(image: Image, request: ElectLeadersRequest, context: Context) -> Decision[ElectLeadersResponse]:
    """An answer for each partition; asked for all, only those that needed an election are told."""
    if request.topic_partitions == []:
        return Decision([], ElectLeadersResponse())
    if request.election_type not in (PREFERRED, UNCLEAN):
        return Decision([], _refuse(request))
    everything = request.topic_partitions is None
    records: list[PartitionChange] = []
    results: list[ReplicaElectionResult] = []
    for asked in _all_partitions(image) if request.topic_partitions is None else request.topic_partitions:
        result = ReplicaElectionResult(topic=asked.topic)
        results.append(result)
        for index in asked.partitions:
            error: KafkaError | None = None
            try:
                records.append(_elect(asked.topic, index, image, unclean=request.election_type == UNCLEAN))
            except KafkaError as refusal:
                error = refusal
            if not (everything and isinstance(error, ElectionNotNeededError)):
                result.partition_result.append(_result(index, error))
    return Decision([*records], ElectLeadersResponse(replica_election_results=results))


def _refuse(request: ElectLeadersRequest) -> ElectLeadersResponse:
    error = InvalidRequestError(f"Unknown election type {request.election_type}")
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic, partition_result=[_result(index, error) for index in asked.partitions]
            )
            for asked in request.topic_partitions or ()
        ],
    )


def _all_partitions(image: Image) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic=topic.name, partitions=list(range(len(topic.partitions))))
        for topic in image.topics.values()
    ]


def _result(index: int, error: KafkaError | None) -> PartitionResult:
    return PartitionResult(
        partition_id=index,
        error_code=error.code if error else 0,
        error_message=error.message if error else None,
    )


def _elect(name: str, index: int, image: Image, *, unclean: bool) -> PartitionChange:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        raise UnknownTopicOrPartitionError(f"No such partition as {name}-{index}")
    state = topic.partitions[index]
    if state.leader >= 0 if unclean else state.leader == state.replicas[0]:
        raise ElectionNotNeededError("Leader election not needed for topic partition.")
    return _any_alive(topic.id, index, state, image) if unclean else _preferred(topic.id, index, state, image)


def _preferred(topic_id: bytes, index: int, state: PartitionState, image: Image) -> PartitionChange:
    leader = state.replicas[0]
    if leader not in state.isr or not image.is_alive(leader):
        raise PreferredLeaderNotAvailableError
    return PartitionChange(topic_id, index, leader=leader)


def _any_alive(topic_id: bytes, index: int, state: PartitionState, image: Image) -> PartitionChange:
    """One in sync if one lives; else any, which then is all that is in sync."""
    alive = [replica for replica in state.replicas if image.is_alive(replica)]
    in_sync = [replica for replica in alive if replica in state.isr]
    if not alive:
        raise EligibleLeadersNotAvailableError
    if in_sync:
        return PartitionChange(topic_id, index, leader=in_sync[0])
    return PartitionChange(topic_id, index, leader=alive[0], isr=(alive[0],))
