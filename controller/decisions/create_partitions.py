"""CreatePartitions: adds partitions to topics; manual assignments list the new partitions only.

Source: `ControllerApis.createPartitions`, `ReplicationControlManager.createPartitions`.
"""

from collections import Counter
from collections.abc import Generator

from minikafka.controller.decisions.access_checks import on_topic
from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision, check_size
from minikafka.controller.decisions.manual_assignments import check_assignment, new_partitions
from minikafka.controller.decisions.replica_placement import placing_partitions
from minikafka.controller.metadata.image import Image, Topic
from minikafka.controller.metadata.records import PartitionRecord, Record
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP, mapping
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    KafkaError,
    PolicyViolationError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from minikafka.storage.steps import Pauses, without_pauses

__all__ = ["decide", "deciding"]


def deciding(
    image: Image, request: CreatePartitionsRequest, context: Context
) -> Generator[None, None, Decision[CreatePartitionsResponse]]:
    """Decide in steps: each valid topic gets new partitions. A topic whose records do not fit into the batch fails."""
    counts = Counter(topic.name for topic in request.topics)
    named = [topic.name for topic in request.topics if counts[topic.name] == 1]
    allowed = yield from mapping(lambda name: on_topic(context.access, AclOperation.ALTER, name), named)
    if request.timeout_ms <= 0 and any(allowed):
        error = RequestTimedOutError()
        timed_out = [_result(topic.name, error) for topic in request.topics]
        return Decision([], CreatePartitionsResponse(results=timed_out))
    duplicate = InvalidRequestError("Duplicate topic name.")
    results = [_result(name, duplicate) for name in counts if counts[name] > 1]
    denied = TopicAuthorizationFailedError()
    may_alter = dict(zip(named, allowed, strict=True))
    results += [_result(name, denied) for name in named if not may_alter[name]]
    records: list[Record] = []
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for wanted in request.topics:
        if not may_alter.get(wanted.name):
            continue
        if pauses.is_due():
            yield
        try:
            added = yield from _new_partitions(wanted, image, context)
            check_size(records, added)
        except KafkaError as refusal:
            results.append(_result(wanted.name, refusal))
        else:
            records += added
            if pauses.is_due(items=len(added)):
                yield
            results.append(_result(wanted.name, None))
    return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


decide = without_pauses(deciding)


def _result(name: str, error: KafkaError | None) -> CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.detail)


def _new_partitions(
    wanted: CreatePartitionsTopic, image: Image, context: Context
) -> Generator[None, None, list[PartitionRecord]]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartitionError
    now = len(topic.partitions)
    additional = _additional(wanted, now)
    context.count_partitions(additional)
    if wanted.assignments is None:
        replicas = yield from placing_partitions(
            image,
            partitions=additional,
            replication_factor=len(topic.partitions[0].replicas),
            random=context.random,
        )
    else:
        replicas = _assigned(wanted.assignments, topic, image)
    return (yield from new_partitions(image, topic.id, now, replicas))


def _additional(wanted: CreatePartitionsTopic, now: int) -> int:
    """The number of new partitions."""
    if wanted.count == now:
        raise InvalidPartitionsError(f"Topic already has {now} partition(s).")
    if wanted.count < now:
        raise InvalidPartitionsError(
            f"The topic {wanted.name} currently has {now} partition(s); {wanted.count} would not be an increase."
        )
    additional = wanted.count - now
    if additional > RECORDS_MAX:
        raise PolicyViolationError("Unable to perform excessively large batch operation.")
    if wanted.assignments is not None and len(wanted.assignments) != additional:
        raise InvalidReplicaAssignmentError(
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} assignment(s) "
            "were specified."
        )
    return additional


def _assigned(
    assignments: list[CreatePartitionsAssignment], topic: Topic, image: Image
) -> list[tuple[int, ...]]:
    for assignment in assignments:
        check_assignment(image, assignment.broker_ids, len(topic.partitions[0].replicas))
    return [tuple(assignment.broker_ids) for assignment in assignments]
