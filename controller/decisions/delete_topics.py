"""DeleteTopics: deletes topics by name or, since version 6, by id; a topic that is listed twice is not deleted.

Source: `ControllerApis.deleteTopics`.
"""

from collections import Counter
from collections.abc import Generator
from functools import partial

from minikafka.controller.decisions.access_checks import on_cluster, on_topic
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import RemoveTopic
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP
from minikafka.controller.security.access import Access
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import (
    InvalidRequestError,
    KafkaError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
    TopicAuthorizationFailedError,
    TopicDeletionDisabledError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    without_frames,
)
from minikafka.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from minikafka.protocol.types import NIL_UUID
from minikafka.storage.steps import Pauses, without_pauses

__all__ = ["decide", "deciding"]

VERSION_WITH_TOPIC_DELETION_DISABLED = 3

RequestedTopic = tuple[str | None, bytes]
"""A topic as requested: name or None, id or the nil UUID."""


def deciding(
    image: Image, request: DeleteTopicsRequest, context: Context
) -> Generator[None, None, Decision[DeleteTopicsResponse]]:
    """Decide in steps: the records delete the topics that exist and are listed once."""
    requested: list[RequestedTopic] = [(name, NIL_UUID) for name in request.topic_names]
    requested += [(topic.name, topic.topic_id) for topic in request.topics]
    if not context.static.value("delete.topic.enable"):
        return Decision([], DeleteTopicsResponse(responses=_disabled(requested, context.version)))
    counts = Counter(requested)
    if request.timeout_ms <= 0 and any(counts[one] == 1 and not _malformed(one) for one in counts):
        timed_out = RequestTimedOutError()
        return Decision([], DeleteTopicsResponse(responses=[_result(*one, timed_out) for one in requested]))
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    if pauses.is_due(items=len(requested)):
        yield
    results = [_result(*one, error) for one in requested if (error := _malformed(one))]
    if pauses.is_due(items=len(requested)):
        yield
    results += [_result(*one, error) for one in counts if (error := _duplicate(one, counts))]
    if pauses.is_due(items=len(requested)):
        yield
    found, missing = yield from _finding(
        image, [one for one in counts if counts[one] == 1 and not _malformed(one)], context.access
    )
    records, deleted = _deleted(found, image, context)
    return Decision([*records], DeleteTopicsResponse(responses=results + missing + deleted))


decide = without_pauses(deciding)


def _deleted(
    found: dict[bytes, str], image: Image, context: Context
) -> tuple[list[RemoveTopic], list[DeletableTopicResult]]:
    """The records that delete these topics, and the results; a topic above the client's quota is not deleted."""
    records: list[RemoveTopic] = []
    results: list[DeletableTopicResult] = []
    for topic_id, name in found.items():
        try:
            context.count_partitions(len(image.topics_by_id[topic_id].partitions))
        except ThrottlingQuotaExceededError as error:
            results.append(_result(name, topic_id, without_frames(error)))
        else:
            records.append(RemoveTopic(topic_id))
            results.append(_result(name, topic_id, None))
    return records, results


def _disabled(requested: list[RequestedTopic], version: int) -> list[DeletableTopicResult]:
    error: KafkaError = TopicDeletionDisabledError()
    if version < VERSION_WITH_TOPIC_DELETION_DISABLED:
        error = InvalidRequestError("Topic deletion is disabled.")
    return [_result(*one, error) for one in requested]


def _malformed(one: RequestedTopic) -> KafkaError | None:
    """The error of a topic that is requested with neither name nor id, or with both; None otherwise."""
    name, topic_id = one
    if name is None and topic_id == NIL_UUID:
        return InvalidRequestError("Neither topic name nor id were specified.")
    if name is not None and topic_id != NIL_UUID:
        return InvalidRequestError("You may not specify both topic name and topic id.")
    return None


def _duplicate(one: RequestedTopic, counts: Counter[RequestedTopic]) -> KafkaError | None:
    if counts[one] == 1 or _malformed(one):
        return None
    return InvalidRequestError(f"Duplicate topic {'id' if one[0] is None else 'name'}.")


def _finding(
    image: Image, requested: list[RequestedTopic], access: Access
) -> Generator[None, None, tuple[dict[bytes, str], list[DeletableTopicResult]]]:
    """The names of the topics that exist, by topic id, and the errors for the other topics. Who may not describe a
    topic learns of its id whether it exists, as in Kafka, but not its name; and of a name nothing."""
    may = partial(_may, access, on_cluster(access, AclOperation.DELETE, log_denied=False))
    denied = TopicAuthorizationFailedError()
    found: dict[bytes, str] = {}
    refused: list[DeletableTopicResult] = []
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for topic_id in [topic_id for name, topic_id in requested if name is None]:
        if pauses.is_due():
            yield
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            refused.append(_result(None, topic_id, UnknownTopicIdError("This server does not host this topic ID.")))
        elif may(AclOperation.DELETE, topic.name):
            found[topic_id] = topic.name
        else:
            shown = topic.name if may(AclOperation.DESCRIBE, topic.name) else None
            refused.append(_result(shown, topic_id, denied))
    for name in [name for name, _ in requested if name is not None]:
        if pauses.is_due():
            yield
        topic = image.topics.get(name)
        if not may(AclOperation.DESCRIBE, name):
            refused.append(_result(name, NIL_UUID, denied))
        elif topic is None:
            unknown = UnknownTopicOrPartitionError("This server does not host this topic-partition.")
            refused.append(_result(name, NIL_UUID, unknown))
        elif not may(AclOperation.DELETE, name):
            refused.append(_result(name, NIL_UUID, denied))
        elif found.pop(topic.id, None) is not None:
            problem = "The provided topic name maps to an ID that was already supplied."
            refused.append(_result(name, topic.id, InvalidRequestError(problem)))
        else:
            found[topic.id] = name
    return found, refused


def _may(access: Access, may_all: bool, operation: AclOperation, name: str) -> bool:
    return may_all or on_topic(access, operation, name)


def _result(name: str | None, topic_id: bytes, error: KafkaError | None) -> DeletableTopicResult:
    result = DeletableTopicResult(name=name, topic_id=topic_id)
    if error is not None:
        result.error_code, result.error_message = error.code, error.detail
    return result
