"""AlterPartitionReassignments: starts, replaces or cancels the reassignment of a partition (KIP-455).

The new replicas are added to the current replicas. Once the new replicas are in sync, the replicas that are no longer
wanted are removed (`reassignment_completion.py`), at once if no replica has to be copied. A reassignment in progress
may be replaced or cancelled: replicas that it added and that are no longer wanted are removed at once. (Kafka keeps
such a replica in `adding_replicas` and `removing_replicas` until it has caught up.)

Source: `ReplicationControlManager`, `PartitionReassignmentReplicas`.
"""

from collections.abc import Callable, Generator
from dataclasses import replace

from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision
from minikafka.controller.decisions.leader_election import Election, TopicRules
from minikafka.controller.decisions.manual_assignments import check_assignment
from minikafka.controller.decisions.partition_changes import partition_change
from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.controller.metadata.records import PartitionChange
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP
from minikafka.protocol.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    KafkaError,
    NoReassignmentInProgressError,
    PolicyViolationError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    without_frames,
)
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from minikafka.storage.steps import Pauses, without_pauses

__all__ = ["decide", "deciding"]


def deciding(
    image: Image, request: AlterPartitionReassignmentsRequest, context: Context
) -> Generator[None, None, Decision[AlterPartitionReassignmentsResponse]]:
    """Decide in steps, with a result for each partition."""
    rules = TopicRules(image, context.settings(image))
    records: list[PartitionChange] = []

    def answer(name: str, requested: ReassignablePartition) -> KafkaError | None:
        try:
            index, any_number = requested.partition_index, request.allow_replication_factor_change
            topic = _topic(name, index, image)
            change = _reassign(topic, index, requested.replicas, image, rules, any_number=any_number)
        except KafkaError as refusal:
            return without_frames(refusal)
        records.extend([change] if change else [])
        return None

    if not request.topics:
        return Decision([], AlterPartitionReassignmentsResponse(error_message=""))
    if request.timeout_ms <= 0:
        return Decision([], (yield from _refusing(request, RequestTimedOutError())))
    reply = yield from _replying(request, answer)
    if len(records) > RECORDS_MAX:
        problem = PolicyViolationError("Unable to perform excessively large batch operation.")
        return Decision([], (yield from _refusing(request, problem)))
    return Decision([*records], reply)


decide = without_pauses(deciding)
Replying = Generator[None, None, AlterPartitionReassignmentsResponse]


def _refusing(request: AlterPartitionReassignmentsRequest, error: KafkaError) -> Replying:
    reply = yield from _replying(request, lambda *_: error)
    reply.error_code, reply.error_message = error.code, error.detail
    return reply


def _replying(
    request: AlterPartitionReassignmentsRequest, answer: Callable[[str, ReassignablePartition], KafkaError | None]
) -> Replying:
    factor_change = request.allow_replication_factor_change
    reply = AlterPartitionReassignmentsResponse(allow_replication_factor_change=factor_change, error_message=None)
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for requested in request.topics:
        topic = ReassignableTopicResponse(name=requested.name)
        reply.responses.append(topic)
        for one in requested.partitions:
            if pauses.is_due():
                yield
            topic.partitions.append(_answer(one.partition_index, answer(requested.name, one)))
    return reply


def _answer(index: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=error.code if error else 0,
        error_message=error.detail if error else None,
    )


def _topic(name: str, index: int, image: Image) -> Topic:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"Unable to find a topic named {name}.")
    if not 0 <= index < len(topic.partitions):
        raise UnknownTopicOrPartitionError(f"Unable to find partition {name}:{index}.")
    return topic


def _reassign(
    topic: Topic, index: int, target: list[int] | None, image: Image, rules: TopicRules, *, any_number: bool
) -> PartitionChange | None:
    """The first change of a reassignment; None if the partition stays as it is. Raises KafkaError."""
    state = topic.partitions[index]
    if target is None:
        return _cancel(topic, index, state, rules)
    check_assignment(image, target, None)
    wanted = tuple(target)
    settled = tuple(replica for replica in state.replicas if replica not in state.adding_replicas)
    if not any_number and len(wanted) != len(settled):
        raise InvalidReplicationFactorError(f"The replication factor is changed from {len(settled)} to {len(wanted)}")
    removing = tuple(sorted(replica for replica in settled if replica not in wanted))
    adding = tuple(sorted(replica for replica in wanted if replica not in settled))
    return _with_replicas(topic, index, wanted + removing, rules, adding=adding, removing=removing)


def _cancel(topic: Topic, index: int, state: PartitionState, rules: TopicRules) -> PartitionChange | None:
    """The change that restores the replicas from before the reassignment, none of which has been removed yet."""
    if not (state.adding_replicas or state.removing_replicas):
        raise NoReassignmentInProgressError
    replicas = tuple(replica for replica in state.replicas if replica not in state.adding_replicas)
    return _with_replicas(topic, index, replicas, rules)


def _with_replicas(
    topic: Topic,
    index: int,
    replicas: tuple[int, ...],
    rules: TopicRules,
    *,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> PartitionChange | None:
    """The change that sets the replicas and removes all others. Raises InvalidReplicaAssignmentError if it would remove
    the last replica that has all committed records."""
    state = topic.partitions[index]
    complete = state.isr + state.elr
    if complete and not set(complete) & set(replicas):
        raise InvalidReplicaAssignmentError(
            f"Unable to revert partition assignment for {topic.name}:{index} because it would require an "
            "unclean leader election."
        )
    wanted = replace(
        state,
        replicas=replicas,
        isr=tuple(replica for replica in state.isr if replica in replicas),
        adding_replicas=adding,
        removing_replicas=removing,
    )
    return partition_change(topic.id, index, state, wanted, rules.of(topic, Election.ANY))
