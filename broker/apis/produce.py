"""Produce: batches into logs. Versions 3 to 13 (13: topics by id, KIP-516); v0–v2 are advertised but refused, since
librdkafka stops compressing where they are missing (KAFKA-18659).
"""

from collections.abc import Awaitable, Iterable
from typing import Protocol

from minikafka.broker.apis.cluster_answers import addresses_of, current_leader
from minikafka.broker.apis.services import Clock, ClusterView, PartitionStore
from minikafka.broker.connections.request_context import Disconnect, RequestContext
from minikafka.broker.partitions.batch_validation import RejectedRecords, produced_batch
from minikafka.broker.partitions.fetch_wait import before, deadline_in
from minikafka.broker.partitions.partition import AppendResult, Partition
from minikafka.protocol.errors import (
    CorruptMessageError,
    ErrorCode,
    InvalidRequiredAcksError,
    InvalidTopicError,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
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

REQUEST = ProduceRequest
VERSIONS = "3-13"
ADVERTISED_MIN_VERSION = 0

VERSION_WITH_LEADERS = 10
VERSION_BY_ID = 13
ACKS = (-1, 0, 1)
ALL = -1
ATTRIBUTES_LOW_BYTE, TRANSACTIONAL = 22, 0x10
ADMIN_CLIENT_ID = "__admin_client"
WITHOUT_LOG_START = (CorruptMessageError, KafkaStorageError, MessageTooLargeError, NotLeaderOrFollowerError)
"""After these, Kafka answers without the log's start."""

Pending = list[tuple[Partition, AppendResult, PartitionProduceResponse]]


class ProduceServices(Clock, ClusterView, PartitionStore, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[ProduceServices]


async def handle(request: ProduceRequest, context: Context) -> ProduceResponse | None:
    """Append every partition's batch, then wait for those that want to be committed.

    Raises:
        Disconnect: A partition failed and `acks` is 0: hanging up is all that can tell the client.
    """
    response = ProduceResponse()
    pending: Pending = []
    topics = _merged(request.topic_data)
    spoiled = request.transactional_id is None and any(_is_transactional(topic) for topic in topics)
    for topic in topics:
        response.responses.append(_refuse(topic) if spoiled else _produce_to(topic, request, context, pending))
    for partition, written, answer in pending:
        if written.flush_due:
            await _settle(partition.flushed(), answer)
    if request.acks == 0:
        _hang_up_on_failure(response)
        return None
    if request.acks == ALL:
        await _until_committed(pending, request.timeout_ms)
    return _name_leaders(response, context)


def _merged(topics: list[TopicProduceData]) -> Iterable[TopicProduceData]:
    """One entry a topic, those without partitions left out; of a partition that is named twice the last counts.

    As in Kafka, where all of a request meets in a map.
    """
    merged: dict[tuple[str, bytes], TopicProduceData] = {}
    for topic in topics:
        known = merged.setdefault((topic.name, topic.topic_id), topic) if topic.partition_data else topic
        if known is not topic:
            known.partition_data += topic.partition_data
    for topic in merged.values():
        topic.partition_data = list({data.index: data for data in topic.partition_data}.values())
    return merged.values()


def _is_transactional(topic: TopicProduceData) -> bool:
    records: list[memoryview] = [data.records or memoryview(b"") for data in topic.partition_data]
    return any(len(one) > ATTRIBUTES_LOW_BYTE and one[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL for one in records)


def _refuse(topic: TopicProduceData) -> TopicProduceResponse:
    """One transactional batch without a transactional id spoils the whole request, as in Kafka."""
    error = TransactionalIdAuthorizationFailedError("a transactional batch without a transactional id")
    answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
    for data in topic.partition_data:
        answer.partition_responses.append(PartitionProduceResponse(index=data.index))
        _fail(answer.partition_responses[-1], error)
    return answer


def _produce_to(
    topic: TopicProduceData, request: ProduceRequest, context: Context, pending: Pending
) -> TopicProduceResponse:
    answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
    for data in topic.partition_data:
        answered = PartitionProduceResponse(index=data.index)
        answer.partition_responses.append(answered)
        try:
            partition, batch = _admit(topic, data, request, context)
        except KafkaError as error:
            _fail(answered, error)
            continue
        _append(partition, batch, answered, request.acks, context, pending)
    return answer


def _admit(
    topic: TopicProduceData, data: PartitionProduceData, request: ProduceRequest, context: Context
) -> tuple[Partition, Batch]:
    """The checks that come before the log's own, in Kafka's order."""
    partitions = context.services.partitions
    name = partitions.name_of(topic.topic_id) if context.version >= VERSION_BY_ID else topic.name
    if name not in context.services.image.topics:
        raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    if not 0 <= data.index < len(context.services.image.topics[name].partitions):
        raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    batch = produced_batch(data.records, context.version)
    if request.acks not in ACKS:
        raise InvalidRequiredAcksError(f"acks {request.acks} is none of -1, 0, 1")
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise InvalidTopicError(f"Cannot append to internal topic {name}")
    partition = partitions.find(name, data.index)
    if batch.is_transactional:
        raise UnsupportedVersionError("this node has no transactions yet")
    return partition, batch


def _append(
    partition: Partition,
    batch: Batch,
    answer: PartitionProduceResponse,
    acks: int,
    context: Context,
    pending: Pending,
) -> None:
    try:
        written = partition.append(batch, now_ms=context.services.now_ms(), acks=acks)
    except RejectedRecords as rejected:
        _fail(answer, rejected.error)
        answer.log_start_offset = partition.log.start_offset
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in rejected.indices
        ]
    except KafkaError as error:
        _fail(answer, error)
        if not isinstance(error, WITHOUT_LOG_START):
            answer.log_start_offset = partition.log.start_offset
    else:
        answer.base_offset = written.first_offset
        answer.log_append_time_ms = written.append_time_ms
        answer.log_start_offset = partition.log.start_offset
        pending.append((partition, written, answer))


async def _settle(what: Awaitable[None], answer: PartitionProduceResponse) -> None:
    """Wait for what an acknowledgement stands for; without it there is none."""
    try:
        await what
    except KafkaError as error:
        _fail(answer, error)


async def _until_committed(pending: Pending, timeout_ms: int) -> None:
    """Wait for the in-sync replicas, for all partitions together as long as the request says. What was written stays
    written, and may yet be committed, whatever the answer is; so that names the offset all the same, as in Kafka."""
    deadline = deadline_in(timeout_ms)
    for partition, written, answer in pending:
        try:
            if answer.error_code or partition.is_committed(written.last_offset + 1, written.leadership_term):
                continue
            if not await before(deadline, partition.committed(written.last_offset + 1, written.leadership_term)):
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        except KafkaError as error:
            answer.error_code = error.code


def _fail(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = error.code
    answer.error_message = error.message
    answer.base_offset = -1


def _name_leaders(response: ProduceResponse, context: Context) -> ProduceResponse:
    """Who leads what was sent to the wrong node, and where that is (KIP-951)."""
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


def _hang_up_on_failure(response: ProduceResponse) -> None:
    failed = [
        f"{topic.name}-{partition.index}: {ErrorCode(partition.error_code).name}"
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    ]
    if failed:
        raise Disconnect(f"a produce request with acks 0 failed: {', '.join(failed)}")
