"""CreateTopics: validates each topic on its own, and creates the valid ones.

The order of the checks is Kafka's, since it determines which error is returned: names, existence, topic configs, then
counts or assignments. With `validate_only` the response contains a topic id that is not used.

Source: `ControllerApis.createTopics`, `ReplicationControlManager.createTopics`.
"""

from collections import Counter
from collections.abc import Generator

from minikafka.controller.decisions.access_checks import on_cluster, on_topic
from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision, check_size
from minikafka.controller.decisions.manual_assignments import check_assignment, initial_isr, new_partitions
from minikafka.controller.decisions.replica_placement import placing_partitions
from minikafka.controller.decisions.topic_config_validation import check_topic_settings
from minikafka.controller.metadata.image import Image, has_collision_characters, unify_collision_characters
from minikafka.controller.metadata.records import ConfigRecord, Record, TopicRecord
from minikafka.controller.metadata.steps import RECORDS_IN_A_STEP, mapping
from minikafka.controller.security.access import Access
from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import (
    ErrorCode,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    PolicyViolationError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.names import check_topic_name
from minikafka.storage.steps import without_pauses

__all__ = ["decide", "deciding"]

METADATA_TOPIC = "__cluster_metadata"
TIMED_OUT = RequestTimedOutError()
FROM_NODE = -1
"""The number of partitions or replicas that stands for the broker's default."""
AS_PARTITIONS = 20
"""The work for a topic itself, counted in partitions: creating a topic takes as long as 20 partitions, about 0.1 ms."""


def deciding(
    image: Image, request: CreateTopicsRequest, context: Context
) -> Generator[None, None, Decision[CreateTopicsResponse]]:
    """Decide in steps: the records of the valid topics, and the first error of each invalid topic."""
    refused, named = _refuse_names(request.topics)
    denied, wanted = yield from _refuse_strangers(named, context.access)
    refused += denied
    if wanted and request.timeout_ms <= 0:
        return Decision([], CreateTopicsResponse(topics=[_refusal(one.name, TIMED_OUT) for one in request.topics]))
    try:
        _check_count(wanted, context)
        records, results = yield from _create_all(wanted, image, context)
        check_size(records)
    except PolicyViolationError as error:
        records, results = [], [_refusal(topic.name, error) for topic in wanted]
    reply = CreateTopicsResponse(topics=results + refused)
    return Decision([] if request.validate_only else records, reply)


decide = without_pauses(deciding)


def _refuse_names(topics: list[CreatableTopic]) -> tuple[list[CreatableTopicResult], list[CreatableTopic]]:
    """Errors for duplicate names and for `__cluster_metadata`, and the remaining topics."""
    counts = Counter(topic.name for topic in topics)
    refused = [_refusal(name, InvalidRequestError("Duplicate topic name.")) for name in counts if counts[name] > 1]
    if counts[METADATA_TOPIC] == 1:
        problem = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        refused.append(_refusal(METADATA_TOPIC, InvalidRequestError(problem)))
    return refused, [topic for topic in topics if counts[topic.name] == 1 and topic.name != METADATA_TOPIC]


def _refuse_strangers(
    topics: list[CreatableTopic], access: Access
) -> Generator[None, None, tuple[list[CreatableTopicResult], list[CreatableTopic]]]:
    """Errors for topics that the client may not create, whether they exist or not, and the remaining topics."""
    if on_cluster(access, AclOperation.CREATE, log_denied=False):
        return [], topics
    allowed = yield from mapping(lambda topic: on_topic(access, AclOperation.CREATE, topic.name), topics)
    error = TopicAuthorizationFailedError("Authorization failed.")
    refused = [_refusal(topic.name, error) for topic, may in zip(topics, allowed, strict=True) if not may]
    return refused, [topic for topic, may in zip(topics, allowed, strict=True) if may]


def _check_count(topics: list[CreatableTopic], context: Context) -> None:
    counts = [
        len(topic.assignments) or _or_default(topic.num_partitions, "num.partitions", context) for topic in topics
    ]
    if sum(max(count, 0) for count in counts) > RECORDS_MAX:
        raise PolicyViolationError("Excessively large number of partitions per request.")


def _create_all(
    topics: list[CreatableTopic], image: Image, context: Context
) -> Generator[None, None, tuple[list[Record], list[CreatableTopicResult]]]:
    records: list[Record] = []
    results: list[CreatableTopicResult] = []
    yielded_at = 0
    effective = context.settings(image)
    for number, topic in enumerate(topics):
        if number * AS_PARTITIONS + len(records) - yielded_at >= RECORDS_IN_A_STEP:
            yielded_at = number * AS_PARTITIONS + len(records)
            yield
        try:
            created, result = yield from _create(topic, image, context, effective)
        except KafkaError as error:
            results.append(_refusal(topic.name, error))
        else:
            records.extend(created)
            results.append(result)
    return records, results


def _refusal(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.detail)


def _create(
    topic: CreatableTopic, image: Image, context: Context, effective: EffectiveSettings
) -> Generator[None, None, tuple[list[Record], CreatableTopicResult]]:
    _check_name(topic.name, image)
    if topic.name in image.topics:
        raise TopicAlreadyExistsError(f"Topic '{topic.name}' already exists.")
    settings = _settings(topic)
    check_topic_settings(settings)
    topic_id = context.new_id()
    replicas = _assigned(topic, image) if topic.assignments else (yield from _counted(topic, image, context))
    partitions = yield from new_partitions(image, topic_id, 0, replicas)
    context.count_partitions(len(partitions))
    records: list[Record] = [TopicRecord(topic_id, topic.name)]
    records.extend(ConfigRecord(ResourceType.TOPIC, topic.name, *pair) for pair in sorted(settings.items()))
    records.extend(partitions)
    if not on_topic(context.access, AclOperation.DESCRIBE_CONFIGS, topic.name, log_denied=False):
        hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return records, CreatableTopicResult(
            name=topic.name, topic_id=topic_id, error_message=None, topic_config_error_code=hidden
        )
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(name=name, value=value, config_source=source)
            for name, value, source in effective.of_new_topic(settings)
        ],
    )
    return records, result


def _check_name(name: str, image: Image) -> None:
    """Check that the name is valid and does not collide with another topic's name, where `.` and `_` are the same."""
    check_topic_name(name)
    if name not in image.topics and has_collision_characters(name):
        colliding = image.colliding.get(unify_collision_characters(name))
        if colliding:
            raise InvalidTopicError(f"Topic '{name}' collides with existing topic: {colliding[0]}")


def _settings(topic: CreatableTopic) -> dict[str, str]:
    """The requested topic configs; of duplicate names the last value counts. Raises InvalidConfigError for null."""
    without = [config.name for config in topic.configs if config.value is None]
    if without:
        raise InvalidConfigError(f"Null value not supported for topic configs: {','.join(without)}")
    return {config.name: config.value for config in topic.configs if config.value is not None}


def _assigned(topic: CreatableTopic, image: Image) -> list[tuple[int, ...]]:
    """The manually assigned replicas, in order of the partitions."""
    if topic.replication_factor != FROM_NODE:
        raise InvalidRequestError(
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    if topic.num_partitions != FROM_NODE:
        raise InvalidRequestError("A manual partition assignment was specified, but numPartitions was not set to -1.")
    assigned: dict[int, tuple[int, ...]] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        if assignment.partition_index in assigned:
            raise InvalidReplicaAssignmentError(
                f"Found multiple manual partition assignments for partition {assignment.partition_index}"
            )
        check_assignment(image, assignment.broker_ids, replication_factor)
        replication_factor = len(assignment.broker_ids)
        assigned[assignment.partition_index] = tuple(assignment.broker_ids)
        initial_isr(image, assignment.broker_ids, assignment.partition_index)
    if sorted(assigned) != list(range(len(assigned))):
        raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
    return [assigned[index] for index in sorted(assigned)]


def _counted(
    topic: CreatableTopic, image: Image, context: Context
) -> Generator[None, None, list[tuple[int, ...]]]:
    """Automatically placed replicas for the requested numbers of partitions and replicas."""
    if topic.replication_factor < FROM_NODE or topic.replication_factor == 0:
        raise InvalidReplicationFactorError("Replication factor must be larger than 0, or -1 to use the default value.")
    if topic.num_partitions < FROM_NODE or topic.num_partitions == 0:
        raise InvalidPartitionsError("Number of partitions was set to an invalid non-positive value.")
    return (yield from placing_partitions(
        image,
        partitions=_or_default(topic.num_partitions, "num.partitions", context),
        replication_factor=_or_default(topic.replication_factor, "default.replication.factor", context),
        random=context.random,
    ))


def _or_default(number: int, name: str, context: Context) -> int:
    if number != FROM_NODE:
        return number
    return context.static.number(name)
