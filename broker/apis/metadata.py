"""Metadata: describes brokers, topics, and the leaders of partitions.

Versions 0 to 13: topic creation is optional from 4 (KIP-204), topic ids from 10, requests by id from 12 (KIP-516), an
error of the whole request from 13 (KIP-1102).
"""

from typing import Protocol

from minikafka.broker.apis.cluster_answers import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    addresses_of,
    brokers,
    topic_answer,
)
from minikafka.broker.apis.services import (
    ClusterView,
    ControllerService,
    ReplicaService,
    SetupService,
)
from minikafka.broker.connections.large_messages import ELEMENTS_MAX_WITH_PAUSES
from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.metadata.image import Topic
from minikafka.protocol.errors import ErrorCode, InvalidTopicError, KafkaError
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from minikafka.protocol.names import INTERNAL_TOPICS, check_topic_name
from minikafka.storage.steps import Pauses

REQUEST = MetadataRequest
VERSIONS = "0-13"
ELEMENTS_MAX = ELEMENTS_MAX_WITH_PAUSES

NIL = bytes(16)
VERSION_BY_ID = 12
VERSION_WITH_IDS = 10
AUTO_CREATION_TIMEOUT_MS = 5000


class MetadataServices(ClusterView, ControllerService, ReplicaService, SetupService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[MetadataServices]


async def handle(request: MetadataRequest, context: Context) -> MetadataResponse:
    """Describe the brokers and the requested topics.

    Null (in version 0 an empty list) requests all topics; otherwise an empty list requests only the brokers.
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
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if request.topics is None or (context.version == 0 and not request.topics):
        names = list(services.image.topics)
    else:
        ids, names = await _requested(request.topics, pause)
        if ids:
            response.topics = [await _by_id(topic_id, request, context, pause) for topic_id in ids]
            return response
        if request.allow_auto_topic_creation or context.version < 4:
            await _create_missing(names, context, pause)
    response.topics = [await _by_name(name, request, context, pause) for name in names]
    return response


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
    topic_id: bytes, request: MetadataRequest, context: Context, pause: Pauses
) -> MetadataResponseTopic:
    await pause()
    topic = context.services.image.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
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
    if request.include_topic_authorized_operations:
        answer.topic_authorized_operations = TOPIC_OPERATIONS
    return answer


async def _known(
    topic: Topic, request: MetadataRequest, context: Context, pause: Pauses
) -> MetadataResponseTopic:
    services, operations = context.services, request.include_topic_authorized_operations
    lost = services.replicas.fetchers.recently_lost
    return await topic_answer(topic, services.image, pause, operations=operations, lost=lost)


async def _create_missing(names: list[str], context: Context, pause: Pauses) -> None:
    """Create missing topics if `auto.create.topics.enable` is set; topics that cannot be created remain unknown."""
    services, config = context.services, context.services.setup.config
    if not config.flag("auto.create.topics.enable"):
        return
    missing = []
    for name in names:
        await pause()
        if _creatable(name, context):
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
            await services.controller.handle(request, CREATION_VERSION)
        except KafkaError:
            return  # The response has the topics as unknown, and clients retry.


def _creatable(name: str, context: Context) -> bool:
    if name in context.services.image.topics:
        return False
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True


CREATION_VERSION = 7
