"""AddPartitionsToTxn: adds partitions to a transaction (KIP-98).

Versions 0 to 3 come from clients, with one transaction: PRODUCER_FENCED from 2 (KIP-588). Versions 4 and 5 come from
brokers, with many transactions; a broker may have partitions only verified, and not added (KIP-890).
"""

from collections import Counter
from typing import Protocol

from minikafka.broker.apis.authorization import AllowedTopics, check_cluster
from minikafka.broker.apis.repeats import Repeats
from minikafka.broker.apis.services import ClusterView, TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from minikafka.protocol.names import INTERNAL_TOPICS, TopicPartition
from minikafka.storage.steps import Pauses

REQUEST = AddPartitionsToTxnRequest
VERSIONS = "0-5"

VERSION_OF_BROKERS = 4
VERSION_WITH_FENCED = 2
PARTITIONS_AT_ONCE = 1_000
"""With more partitions, their existence is checked in one step (5 ms for 10,000), and the decision is made in another
step (10 ms)."""
CLIENT_VERSION_1, CLIENT_VERSION_2 = 0, 2
Errors = dict[TopicPartition, ErrorCode]
Results = list[AddPartitionsToTxnTopicResult]


class AddPartitionsServices(ClusterView, TransactionService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[AddPartitionsServices]


async def handle(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse:
    """Add the partitions of each transaction, all or none; the response has an error code for each partition.

    Raises:
        InvalidRequestError: Transactional ids are repeated too often, see `Repeats`. No partition is added.
        ClusterAuthorizationFailedError: A client that is no node of the cluster sends a version of brokers.
    """
    if context.version < VERSION_OF_BROKERS:
        return await _of_client(request, context)
    check_cluster(context, AclOperation.CLUSTER_ACTION)
    first = {one.transactional_id: one.topics for one in reversed(request.transactions)}
    last = {one.transactional_id: one.topics for one in request.transactions}
    await _check_repeated(request.transactions, (first, last), context.version)
    results: list[AddPartitionsToTxnResult] = []
    pause = Pauses()
    for one in request.transactions:
        # As in Kafka: if an id is named twice, its last topics count, and the response names its first topics.
        one.topics, answered = last[one.transactional_id], first[one.transactional_id]
        await pause(items=1 + sum(len(topic.partitions) for topic in one.topics))
        added = await _add(one, answered, context)
        results.append(AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=added))
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _check_repeated(
    transactions: list[AddPartitionsToTxnTransaction],
    topics_of: tuple[dict[str, list[AddPartitionsToTxnTopic]], ...],
    version: int,
) -> None:
    """Check with `Repeats` that the response does not grow too much by repeated transactional ids.

    Each entry of a repeated id is answered with one of the lists in `topics_of`, though only one entry has named it.

    Raises:
        InvalidRequestError: See `Repeats`.
    """
    repeats, pause = Repeats(_alone, version), Pauses()
    for transactional_id, times in Counter(one.transactional_id for one in transactions).items():
        await pause(transactional_id)
        for topics in topics_of if times > 1 else ():
            answer = _as_asked(topics[transactional_id], ErrorCode.NONE, version)
            result = AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=answer)
            repeats.count(transactional_id, result, times - 1)


def _alone(result: AddPartitionsToTxnResult) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_transaction=[result])


async def _of_client(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    name = transaction.transactional_id
    if context.access.allows(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name):
        results = await _add(transaction, transaction.topics, context)
    else:
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        results = _merged(dict.fromkeys(_partitions(transaction), refused))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]


async def _add(
    transaction: AddPartitionsToTxnTransaction, answered: list[AddPartitionsToTxnTopic], context: Context
) -> Results:
    """Add or verify the topics of a transaction. If they exist, and are not only verified, the response names
    `answered`. A partition deleted from then on counts as deleted after the decision."""
    names = _partitions(transaction)
    writable = AllowedTopics(context, AclOperation.WRITE)
    if context.version < VERSION_OF_BROKERS:
        await writable.ask(topic.name for topic in transaction.topics if topic.name not in INTERNAL_TOPICS)
    refused = {name: error for name in names if (error := _refused(name, context, writable)) is not None}
    if refused:
        return _merged({name: refused.get(name, ErrorCode.OPERATION_NOT_ATTEMPTED) for name in names})
    if len(names) > PARTITIONS_AT_ONCE:
        await Pauses(every=1)()
    coordinator, producer = context.services.transactions.coordinator, _producer(transaction)
    if transaction.verify_only:
        return _merged(
            await coordinator.verify_partitions(transaction.transactional_id, producer, frozenset(names))
        )
    decided = await coordinator.add_partitions(
        transaction.transactional_id,
        producer,
        frozenset(names),
        client_version=CLIENT_VERSION_2 if context.version >= VERSION_OF_BROKERS else CLIENT_VERSION_1,
    )
    return _as_asked(answered, decided, context.version)


def _producer(transaction: AddPartitionsToTxnTransaction) -> ProducerIdentity:
    return ProducerIdentity(transaction.producer_id, transaction.producer_epoch)


def _refused(name: TopicPartition, context: Context, writable: AllowedTopics) -> ErrorCode | None:
    """Return why a partition cannot be added, or None. Clients may not add internal topics, see AddOffsetsToTxn."""
    of_client = context.version < VERSION_OF_BROKERS
    if of_client and (name.topic in INTERNAL_TOPICS or name.topic not in writable):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = context.services.image.topics.get(name.topic)
    exists = topic is not None and 0 <= name.partition < len(topic.partitions)
    return None if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _merged(errors: Errors) -> Results:
    """Build one entry for each topic and partition, however often the request names them."""
    results: dict[str, AddPartitionsToTxnTopicResult] = {}
    for name, error in errors.items():
        topic = results.setdefault(name.topic, AddPartitionsToTxnTopicResult(name=name.topic))
        topic.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=name.partition, partition_error_code=error)
        )
    return list(results.values())


def _as_asked(topics: list[AddPartitionsToTxnTopic], error: ErrorCode, version: int) -> Results:
    """Build an entry for every entry of the request, duplicates included; Kafka, too, builds responses in two ways."""
    if error is ErrorCode.PRODUCER_FENCED and version < VERSION_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
