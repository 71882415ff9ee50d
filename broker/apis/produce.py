"""Produce: appends batches to partitions.

Versions 3 to 13 (13: topics by id, KIP-516); versions 0 to 2 are advertised, but not supported: librdkafka does not
compress if the versions are missing (KAFKA-18659).
"""

from collections.abc import Awaitable, Iterable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from minikafka.broker.apis.authorization import AllowedTopics, check_transactional_id
from minikafka.broker.apis.cluster_answers import addresses_of, current_leader
from minikafka.broker.apis.produce_in_transaction import NOT_VERIFIED, Verified, verify
from minikafka.broker.apis.services import Clock, ClusterView, PartitionStore, TransactionService
from minikafka.broker.connections.large_messages import ELEMENTS_MAX_WITH_PAUSES
from minikafka.broker.connections.request_context import Disconnect, RequestContext
from minikafka.broker.partitions.batch_validation import NO_KEY, LargeBatch, RejectedRecords, produced_batch
from minikafka.broker.partitions.partition import AppendResult, Partition
from minikafka.broker.partitions.request_waiters import before, deadline_in
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import (
    CorruptMessageError,
    ErrorCode,
    InvalidProducerIdMappingError,
    InvalidRecordError,
    InvalidRequiredAcksError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    without_frames,
)
from minikafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from minikafka.protocol.names import INTERNAL_TOPICS
from minikafka.protocol.records.batch import Batch
from minikafka.storage.steps import Pauses

REQUEST = ProduceRequest
VERSIONS = "3-13"
ELEMENTS_MAX = ELEMENTS_MAX_WITH_PAUSES
ADVERTISED_MIN_VERSION = 0

VERSION_WITH_LEADERS = 10
VERSION_BY_ID = 13
ACKS = (-1, 0, 1)
ALL = -1
ATTRIBUTES_LOW_BYTE, TRANSACTIONAL = 22, 0x10
ADMIN_CLIENT_ID = "__admin_client"
WITHOUT_LOG_START = (CorruptMessageError, KafkaStorageError, MessageTooLargeError, NotLeaderOrFollowerError)
"""Errors with which Kafka does not return the log start offset."""

Pending = list[tuple[Partition, AppendResult, PartitionProduceResponse]]
Large = list[tuple[Partition, Batch, PartitionProduceResponse]]


class ProduceServices(Clock, ClusterView, PartitionStore, TransactionService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[ProduceServices]


class Appends(NamedTuple):
    """The appends of one request.

    Attributes:
        writable: The topics to which the client may write; None if that is decided after `admitted`.
        verified: Which transactional batches may open a transaction.
        pending: The appended batches, whose acknowledgement may have to wait.
        large: The batches that take long to validate, and are appended last.
    """

    request: ProduceRequest
    context: Context
    writable: AllowedTopics | None
    verified: Verified
    pending: Pending
    large: Large


async def handle(request: ProduceRequest, context: Context) -> ProduceResponse | None:
    """Append each partition's batch, then wait until the batches are flushed, or committed if acks=all.

    Raises:
        Disconnect: A partition failed with acks=0: closing the connection is the only way to let the client know.
    """
    response = ProduceResponse()
    pause = Pauses()
    topics = _merged(request.topic_data)
    transactional = await _any_is_transactional(topics, pause)
    refused: KafkaError | None = None
    appends = Appends(request, context, AllowedTopics(context, AclOperation.WRITE), NOT_VERIFIED, [], [])
    if transactional:
        try:
            appends = appends._replace(verified=await _verified(topics, appends, pause))
        except (InvalidProducerIdMappingError, TransactionalIdAuthorizationFailedError) as error:
            refused = without_frames(error)
    for topic in topics:
        response.responses.append(of_topic := TopicProduceResponse(name=topic.name, topic_id=topic.topic_id))
        for data in topic.partition_data:
            answer = _produce_to(topic, data, appends) if refused is None else _refused(data, refused)
            of_topic.partition_responses.append(answer)
            await pause()
    await _until_written(appends)
    if request.acks == 0:
        _disconnect_on_failure(response)
        return None
    return _add_leaders(response, context)


async def _until_written(appends: Appends) -> None:
    """Append large batches, then wait until all batches are flushed, or committed if acks=all."""
    for partition, batch, answered in appends.large:
        await _append_large(partition, batch, answered, appends)
    for partition, written, answer in appends.pending:
        if written.flush_due:
            await _settle(partition.flushed(), answer)
    if appends.request.acks == ALL:
        await _until_committed(appends.pending, appends.request.timeout_ms)


def _merged(topics: list[TopicProduceData]) -> Iterable[TopicProduceData]:
    """Merge the request's topics: one entry for each topic with partitions; of duplicate partitions the last counts.

    This is as in Kafka, which collects the request in a map.
    """
    merged: dict[tuple[str, bytes], TopicProduceData] = {}
    for topic in topics:
        known = merged.setdefault((topic.name, topic.topic_id), topic) if topic.partition_data else topic
        if known is not topic:
            known.partition_data += topic.partition_data
    for topic in merged.values():
        topic.partition_data = list({data.index: data for data in topic.partition_data}.values())
    return merged.values()


async def _any_is_transactional(topics: Iterable[TopicProduceData], pause: Pauses) -> bool:
    for topic in topics:
        for data in topic.partition_data:
            if _is_transactional(data):
                return True
            await pause()
    return False


def _is_transactional(data: PartitionProduceData) -> bool:
    records: memoryview | None = data.records
    if records is None or len(records) <= ATTRIBUTES_LOW_BYTE:
        return False
    return bool(records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL)


def _refused(data: PartitionProduceData, error: KafkaError) -> PartitionProduceResponse:
    """Build a partition's answer with an error of the transaction, which fails the whole request, as in Kafka."""
    answer = PartitionProduceResponse(index=data.index)
    _fail(answer, error)
    return answer


async def _verified(topics: Iterable[TopicProduceData], appends: Appends, pause: Pauses) -> Verified:
    """Verify the transactional batches.

    Raises:
        TransactionalIdAuthorizationFailedError: There is no transactional id, or the client may not write with it.
        InvalidProducerIdMappingError: The batches are of several producers.
    """
    transactional_id = appends.request.transactional_id
    if transactional_id is None:
        raise TransactionalIdAuthorizationFailedError("a transactional batch without a transactional id")
    check_transactional_id(appends.context, AclOperation.WRITE, transactional_id)
    return await verify(transactional_id, await _transactional(topics, appends, pause), appends.context)


async def _transactional(
    topics: Iterable[TopicProduceData], appends: Appends, pause: Pauses
) -> list[tuple[Partition, Batch]]:
    """Return the transactional batches that pass the checks; other batches fail them again when they are appended."""
    found: list[tuple[Partition, Batch]] = []
    for topic in topics:
        for data in topic.partition_data:
            await pause()
            with suppress(KafkaError):
                partition, batch = admitted(topic, data.index, data.records, appends)
                if batch.is_transactional:
                    found.append((partition, batch))
    return found


def _produce_to(
    topic: TopicProduceData, data: PartitionProduceData, appends: Appends
) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=data.index)
    try:
        partition, batch = admitted(topic, data.index, data.records, appends)
        if batch.is_transactional:
            appends.verified.check(partition)
            _check_append(partition.topic_partition.topic, appends.request, appends.context)
    except KafkaError as error:
        _fail(answer, error)
        return answer
    try:
        _append(partition, batch, answer, appends)
    except LargeBatch:
        appends.large.append((partition, batch, answer))
    return answer


def admitted(
    topic: TopicProduceData, index: int, records: bytes | memoryview | None, appends: Appends
) -> tuple[Partition, Batch]:
    """Do the checks before an append, in Kafka's order; transactional batches are verified before `_check_append`."""
    context = appends.context
    partitions = context.services.partitions
    name = partitions.name_of(topic.topic_id) if context.version >= VERSION_BY_ID else topic.name
    if appends.writable is not None and name not in appends.writable:
        raise TopicAuthorizationFailedError("Topic authorization failed.")
    known = context.services.image.topics.get(name)
    if known is None or not 0 <= index < len(known.partitions):
        raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    batch = produced_batch(records, context.version)
    if not batch.is_transactional:
        _check_append(name, appends.request, context)
    partition = partitions.find(name, index)
    if context.version >= VERSION_BY_ID and partition.topic_id != topic.topic_id:
        # The replica of a deleted topic of this name is still to be removed.
        raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    return partition, batch


def _check_append(topic: str, request: ProduceRequest, context: Context) -> None:
    if request.acks not in ACKS:
        raise InvalidRequiredAcksError(f"acks is {request.acks} (allowed: -1, 0, 1)")
    if topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise InvalidTopicError(f"Cannot append to internal topic {topic}")


def _append(
    partition: Partition,
    batch: Batch,
    answer: PartitionProduceResponse,
    appends: Appends,
    *,
    validated: bool = False,
) -> None:
    """Append a batch, or put the error into the answer. May raise LargeBatch if the batch is not validated yet."""
    services = appends.context.services
    large_batches = services.partitions.large_batches
    began = large_batches.clock() if validated else large_batches.begin()
    try:
        written = partition.append(
            batch,
            now_ms=services.now_ms(),
            acks=appends.request.acks,
            verification=appends.verified.token(partition) if batch.is_transactional else None,
            validated=validated,
        )
    except (RejectedRecords, KafkaError) as error:
        partition.traffic.rejected += 1
        partition.traffic.rejected_bytes += batch.size_bytes
        _refuse_batch(error, partition, answer)
    else:
        answer.base_offset = written.first_offset
        answer.log_append_time_ms = written.append_time_ms
        answer.log_start_offset = partition.log.start_offset
        appends.pending.append((partition, written, answer))
    finally:
        large_batches.end(began)


async def _append_large(
    partition: Partition, batch: Batch, answer: PartitionProduceResponse, appends: Appends
) -> None:
    """Validate and append a large batch.

    Other tasks run during the validation; the append checks again whether this node leads the partition.
    """
    services = appends.context.services
    large_batches, now_ms = services.partitions.large_batches, services.now_ms()
    try:
        batch = await large_batches.validated(batch, partition.rules, now_ms, partition.log.disk)
    except (RejectedRecords, KafkaError) as error:
        partition.traffic.rejected += 1
        partition.traffic.rejected_bytes += batch.size_bytes
        _refuse_batch(error, partition, answer)
    else:
        _append(partition, batch, answer, appends, validated=True)


def _refuse_batch(error: RejectedRecords | KafkaError, partition: Partition, answer: PartitionProduceResponse) -> None:
    if isinstance(error, RejectedRecords):
        named = f"{NO_KEY} {partition.topic_partition}"
        told = [(index, named if message == NO_KEY else message) for index, message in error.indices]
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in told
        ]
        error = _with_three(error.error, told)
        answer.log_start_offset = partition.log.start_offset
    elif not isinstance(error, WITHOUT_LOG_START):
        answer.log_start_offset = partition.log.start_offset
    _fail(answer, error)


def _with_three(error: KafkaError, told: list[tuple[int, str]]) -> KafkaError:
    """Add the first three refused records of a batch to the text of its error, as Kafka words it."""
    if isinstance(error, InvalidTimestampError):
        return error
    three = ", ".join(f"RecordError(batchIndex={index}, message='{message}')" for index, message in told[:3])
    return InvalidRecordError(f"{error.message}[{three}]")


async def _settle(what: Awaitable[None], answer: PartitionProduceResponse) -> None:
    """Wait for a flush; if the flush fails, put the error into the partition's answer."""
    try:
        await what
    except KafkaError as error:
        _fail(answer, error)


async def _until_committed(pending: Pending, timeout_ms: int) -> None:
    """Wait for the in-sync replicas, for all partitions together at most `timeout_ms`.

    Whatever the error, written batches stay in the log and may be committed later; the response has their offset, as in
    Kafka.
    """
    waiting = [one for one in pending if not _is_committed(*one)]
    deadline = deadline_in(timeout_ms) if waiting else 0.0
    for partition, written, answer in waiting:
        try:
            committed = partial(partition.committed, written.last_offset + 1, written.leadership_term)
            if not await before(deadline, committed):
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        except KafkaError as error:
            answer.error_code = error.code


def _is_committed(partition: Partition, written: AppendResult, answer: PartitionProduceResponse) -> bool:
    """Whether a partition's answer is final: the batch is committed, or the answer has an error, or gets one here."""
    try:
        return bool(answer.error_code) or partition.is_committed(written.last_offset + 1, written.leadership_term)
    except KafkaError as error:
        answer.error_code = error.code
        return True


def _fail(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = error.code
    answer.error_message = error.detail
    answer.base_offset = -1


def _add_leaders(response: ProduceResponse, context: Context) -> ProduceResponse:
    """Add the leaders of partitions that this node does not lead, and their addresses (KIP-951)."""
    if context.version < VERSION_WITH_LEADERS:
        return response
    leaders: set[int] = set()
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                known = context.services.image.topics_by_id.get(topic.topic_id)
                name = known.name if known is not None else topic.name
                leader, epoch = current_leader(context.services.image, name, answer.index)
                answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
                leaders.add(leader)
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
            for one in addresses_of(context)
            if one.node_id in leaders
        ]
    return response


def _disconnect_on_failure(response: ProduceResponse) -> None:
    failed = [
        f"{topic.name}-{partition.index}: {ErrorCode(partition.error_code).name}"
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    ]
    if failed:
        raise Disconnect(f"Produce with acks=0 failed: {', '.join(failed)}")
