"""AlterPartitionReassignments and ListPartitionReassignments: replicas move to other brokers (KIP-455).

New replicas are added to those that are there; once they are in sync, those that are not wanted go. Where
nothing is to be copied that happens at once. Source: `ReplicationControlManager`,
`PartitionReassignmentReplicas`.
"""

from minikafka.controller.decisions.assignments import check_assignment
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.image import Image, PartitionState, Topic
from minikafka.controller.records import PartitionChange
from minikafka.protocol.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    KafkaError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

__all__ = ["decide", "describe"]


def decide(
    image: Image, request: AlterPartitionReassignmentsRequest, context: Context
) -> Decision[AlterPartitionReassignmentsResponse]:
    """An answer for each partition."""
    records: list[PartitionChange] = []
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for asked in request.topics:
        answer = ReassignableTopicResponse(name=asked.name)
        reply.responses.append(answer)
        for partition in asked.partitions:
            error: KafkaError | None = None
            try:
                topic = _topic(asked.name, partition.partition_index, image)
                change = _reassign(
                    topic,
                    partition.partition_index,
                    partition.replicas,
                    image,
                    any_number=request.allow_replication_factor_change,
                )
                records += [change] if change else []
            except KafkaError as refusal:
                error = refusal
            answer.partitions.append(_answer(partition.partition_index, error))
    return Decision([*records], reply)


def _answer(index: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=error.code if error else 0,
        error_message=error.message if error else None,
    )


def _topic(name: str, index: int, image: Image) -> Topic:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"Unable to find a topic named {name}.")
    if not 0 <= index < len(topic.partitions):
        raise UnknownTopicOrPartitionError(f"Unable to find partition {name}:{index}.")
    return topic


def _reassign(
    topic: Topic, index: int, target: list[int] | None, image: Image, *, any_number: bool
) -> PartitionChange | None:
    """What has to change first, None when nothing has."""
    state = topic.partitions[index]
    if target is None:
        return _cancel(topic, index, state)
    check_assignment(image, target, None)
    wanted = tuple(target)
    settled = tuple(replica for replica in state.replicas if replica not in state.adding_replicas)
    if not any_number and len(wanted) != len(settled):
        raise InvalidReplicationFactorError(f"The replication factor is changed from {len(settled)} to {len(wanted)}")
    adding = tuple(replica for replica in wanted if replica not in settled)
    removing = tuple(replica for replica in settled if replica not in wanted)
    in_sync = tuple(replica for replica in state.isr if replica in wanted)
    if in_sync and all(replica in state.isr for replica in adding):
        return _complete(topic, index, wanted, in_sync, image)
    change = PartitionChange(
        topic.id, index, replicas=wanted + removing, adding_replicas=adding, removing_replicas=removing
    )
    return None if _changes_nothing(change, state) else change


def _complete(
    topic: Topic, index: int, replicas: tuple[int, ...], in_sync: tuple[int, ...], image: Image
) -> PartitionChange | None:
    """The end of a reassignment; a replica that goes raises the leader epoch, so that it is fenced."""
    state = topic.partitions[index]
    leader: int | None = state.leader if any(old not in replicas for old in state.replicas) else None
    if state.leader not in replicas:
        alive = [replica for replica in replicas if replica in in_sync and image.is_alive(replica)]
        leader = alive[0] if alive else -1
    change = PartitionChange(
        topic.id,
        index,
        replicas=replicas,
        isr=in_sync,
        leader=leader,
        adding_replicas=(),
        removing_replicas=(),
    )
    return None if _changes_nothing(change, state) else change


def _cancel(topic: Topic, index: int, state: PartitionState) -> PartitionChange:
    if not (state.adding_replicas or state.removing_replicas):
        raise NoReassignmentInProgressError
    replicas = tuple(replica for replica in state.replicas if replica not in state.adding_replicas)
    in_sync = tuple(replica for replica in state.isr if replica in replicas)
    if not in_sync:
        raise InvalidReplicaAssignmentError(
            f"Unable to revert partition assignment for {topic.name}:{index} because it would require an "
            "unclean leader election."
        )
    leader = state.leader if state.leader in replicas else in_sync[0]
    return PartitionChange(
        topic.id,
        index,
        replicas=replicas,
        isr=in_sync,
        leader=leader,
        adding_replicas=(),
        removing_replicas=(),
    )


def _changes_nothing(change: PartitionChange, state: PartitionState) -> bool:
    names = ("replicas", "isr", "adding_replicas", "removing_replicas")
    return change.leader is None and all(getattr(change, name) in (None, getattr(state, name)) for name in names)


def describe(image: Image, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """What is on its way; what is not, or not known, is left out."""
    topics = (
        [(topic.name, range(len(topic.partitions))) for topic in image.topics.values()]
        if request.topics is None
        else [(topic.name, topic.partition_indexes) for topic in request.topics]
    )
    reply = ListPartitionReassignmentsResponse(error_message=None)
    for name, indexes in topics:
        known = image.topics.get(name)
        ongoing = [found for index in indexes if known and (found := _ongoing(known, index))]
        if ongoing:
            reply.topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return reply


def _ongoing(topic: Topic, index: int) -> OngoingPartitionReassignment | None:
    state = topic.partitions[index] if 0 <= index < len(topic.partitions) else None
    if state is None or not (state.adding_replicas or state.removing_replicas):
        return None
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding_replicas),
        removing_replicas=list(state.removing_replicas),
    )
