"""Metadata: describes brokers, topics, and the leaders of partitions.

Versions 0 to 13: topic creation is optional from 4 (KIP-204), topic ids from 10, requests by id from 12 (KIP-516), an
error of the whole request from 13 (KIP-1102).
"""

from typing import Protocol

import structlog

from minikafka.broker.apis.authorization import TOPIC_OPERATIONS, AllowedTopics, cluster_operations
from minikafka.broker.apis.cluster_answers import addresses_of, brokers, topic_answer
from minikafka.broker.apis.services import (
    ClusterView,
    ControllerService,
    CreationService,
    ReplicaService,
    SetupService,
)
from minikafka.broker.connections.large_messages import ELEMENTS_MAX_WITH_PAUSES
from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.metadata.image import Topic
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode, InvalidTopicError, KafkaError
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from minikafka.protocol.names import INTERNAL_TOPICS, check_topic_name
from minikafka.storage.steps import Pauses

log = structlog.get_logger("minikafka.metadata")

REQUEST = MetadataRequest
VERSIONS = "0-13"
ELEMENTS_MAX = ELEMENTS_MAX_WITH_PAUSES

NIL = bytes(16)
VERSION_BY_ID = 12
VERSION_WITH_IDS = 10
AUTO_CREATION_TIMEOUT_MS = 5000


class MetadataServices(ClusterView, ControllerService, CreationService, ReplicaService, SetupService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[MetadataServices]


async def handle(request: MetadataRequest, context: Context) -> MetadataResponse:
    """Describe the brokers and the requested topics.

    Null (in version 0 an empty list) requests all topics that the client may describe; otherwise an empty list requests
    only the brokers.
    """
    services, pause = context.services, Pauses()
    if context.version in range(VERSION_WITH_IDS, VERSION_BY_ID) and _names_by_id(request.topics or []):
        return await _refuse_ids(request, pause)
    response = MetadataResponse(
        brokers=brokers(addresses_of(context)),
        cluster_id=services.image.cluster_id,
        controller_id=services.setup.config.node_id,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context.access)
    if request.topics is None or (context.version == 0 and not request.topics):
        visible = AllowedTopics(context, AclOperation.DESCRIBE, log_denied=False)
        names = list(services.image.topics)
        await visible.ask(names)
        names = [name for name in names if name in visible]
        response.topics = [await _by_name(name, request, context, pause) for name in names]
        return response
    ids, names = await _requested(request.topics, pause)
    if ids:
        visible = AllowedTopics(context, AclOperation.DESCRIBE)
        response.topics = [await _by_id(topic_id, visible, request, context, pause) for topic_id in ids]
        return response
    if context.authorizer is not None:
        response.topics, names = await _hide(names, context, pause)
    if request.allow_auto_topic_creation or context.version < 4:
        names = await _create_missing(names, context, response, pause)
    response.topics += [await _by_name(name, request, context, pause) for name in names]
    return response


async def _hide(
    names: list[str], context: Context, pause: Pauses
) -> tuple[list[MetadataResponseTopic], list[str]]:
    """Return the entries of the topics that the client may not describe, whether they exist or not, and other names."""
    visible = AllowedTopics(context, AclOperation.DESCRIBE)
    hidden, shown = list[MetadataResponseTopic](), list[str]()
    for name in names:
        await pause()
        if name in visible:
            shown.append(name)
        else:
            hidden.append(MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name))
    return hidden, shown


def _names_by_id(topics: list[MetadataRequestTopic]) -> bool:
    return any(topic.topic_id != NIL or topic.name is None for topic in topics)


async def _requested(topics: list[MetadataRequestTopic], pause: Pauses) -> tuple[list[bytes], list[str]]:
    """Return the topic ids and the names in a request, each once."""
    ids: dict[bytes, None] = {}
    names: dict[str, None] = {}
    for topic in topics:
        await pause()
        if topic.topic_id != NIL:
            ids[topic.topic_id] = None
        names[topic.name or ""] = None
    return list(ids), list(names)


async def _refuse_ids(request: MetadataRequest, pause: Pauses) -> MetadataResponse:
    """Refuse requests by topic id in versions 10 and 11: brokers never supported ids in these versions (KIP-516)."""
    response = MetadataResponse()
    for topic in request.topics or []:
        await pause()
        response.topics.append(
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
            )
        )
    return response


async def _by_id(
    topic_id: bytes, visible: AllowedTopics, request: MetadataRequest, context: Context, pause: Pauses
) -> MetadataResponseTopic:
    """Describe a topic by its id. As in Kafka, ids are no secret: only the name of a hidden topic is."""
    await pause()
    topic = context.services.image.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if topic.name not in visible:
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return await _known(topic, request, context, pause)


async def _by_name(name: str, request: MetadataRequest, context: Context, pause: Pauses) -> MetadataResponseTopic:
    await pause()
    topic = context.services.image.topics.get(name)
    if topic is not None:
        return await _known(topic, request, context, pause)
    answer = MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, is_internal=name in INTERNAL_TOPICS
    )
    try:
        check_topic_name(name)
    except InvalidTopicError as error:
        answer.error_code = error.code
    return _with_operations(answer, name, request, context)


async def _known(
    topic: Topic, request: MetadataRequest, context: Context, pause: Pauses
) -> MetadataResponseTopic:
    services = context.services
    lost = services.replicas.fetchers.recently_lost
    answer = await topic_answer(topic, services.image, pause, lost=lost)
    return _with_operations(answer, topic.name, request, context)


def _with_operations(
    answer: MetadataResponseTopic, name: str, request: MetadataRequest, context: Context
) -> MetadataResponseTopic:
    """Add what the client may do with a topic, if it asks for that."""
    if request.include_topic_authorized_operations:
        answer.topic_authorized_operations = context.access.operations(TOPIC_OPERATIONS, AclResourceType.TOPIC, name)
    return answer


async def _create_missing(
    names: list[str], context: Context, response: MetadataResponse, pause: Pauses
) -> list[str]:
    """Create missing topics if `auto.create.topics.enable` is set; refused ones remain unknown, and are logged.

    Returns:
        The names without those of missing topics that the client may not create, whose entries are in the response.
    """
    services, config = context.services, context.services.setup.config
    if not config.flag("auto.create.topics.enable") or all(name in services.image.topics for name in names):
        return names
    missing, shown = [], []
    creatable = _creatable_topics(context)
    for name in names:
        await pause()
        if creatable is not None and name not in services.image.topics and name not in creatable:
            error, internal = ErrorCode.TOPIC_AUTHORIZATION_FAILED, name in INTERNAL_TOPICS
            response.topics.append(MetadataResponseTopic(error_code=error, name=name, is_internal=internal))
            continue
        shown.append(name)
        if _is_missing(name, context):
            missing.append(
                CreatableTopic(
                    name=name,
                    num_partitions=config.number("num.partitions"),
                    replication_factor=config.number("default.replication.factor"),
                )
            )
    if missing:
        request = CreateTopicsRequest(topics=missing, timeout_ms=AUTO_CREATION_TIMEOUT_MS)
        try:
            created: CreateTopicsResponse = await services.controller.handle(
                request, CREATION_VERSION, context.access
            )
            results = created.topics
        except KafkaError as error:
            message = str(error) or None
            results = [CreatableTopicResult(name=missing[0].name, error_code=error.code, error_message=message)]
        # The response has the topics as unknown, and clients retry, as with Apache Kafka.
        if refused := services.refused_topics.news(results):
            topic, reason = next(iter(refused.items()))
            log.warning("topic not created on demand", topic=topic, error=reason, asked=len(missing))
    return shown


def _creatable_topics(context: Context) -> AllowedTopics | None:
    """Return the topics that the client may create; None for all, if it may create topics in the cluster."""
    if context.access.allows(AclOperation.CREATE, AclResourceType.CLUSTER, CLUSTER_NAME, log_denied=False):
        return None
    return AllowedTopics(context, AclOperation.CREATE)


def _is_missing(name: str, context: Context) -> bool:
    if name in context.services.image.topics:
        return False
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True


CREATION_VERSION = 7
