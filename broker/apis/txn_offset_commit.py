"""TxnOffsetCommit: stores the offsets of a group in a transaction (KIP-98).

Versions 0 to 5: leader epochs from 2 (KIP-320), members from 3 (KIP-447), TRANSACTION_ABORTABLE from 4, no
preceding AddOffsetsToTxn from 5 (KIP-890).
"""

from typing import Protocol

from minikafka.broker.apis.authorization import AllowedTopics, check_group, check_transactional_id
from minikafka.broker.apis.merged_topics import merge_topics
from minikafka.broker.apis.services import ClusterView, GroupService, PartitionStore, TransactionService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.coordinator.error_mapping import coordinator_error
from minikafka.broker.coordinator.groups.group_coordinator import TOPIC, transactional_commit_error
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.broker.coordinator.transactions.transaction_questions import UNKNOWN_PRODUCER, ClientSupport
from minikafka.broker.partitions.verification import Verification
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import ErrorCode, KafkaError, UnknownTopicOrPartitionError, error_for
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from minikafka.protocol.names import TopicPartition

REQUEST = TxnOffsetCommitRequest
VERSIONS = "0-5"

VERSION_WITH_LOADING = 2
VERSION_WITH_ABORTABLE, VERSION_THAT_ADDS = 4, 5
WITHOUT_SEQUENCE = -1


class TxnOffsetServices(ClusterView, GroupService, PartitionStore, TransactionService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[TxnOffsetServices]
Refused = dict[str, TxnOffsetCommitResponseTopic]
"""The entries of topics with errors, by name; one entry for each topic."""


async def handle(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    """Store offsets, which take effect when the transaction is committed. Unknown partitions have their own errors.

    Raises:
        TransactionalIdAuthorizationFailedError: The client may not write with the transactional id.
        GroupAuthorizationFailedError: The client may not read the group.
    """
    check_transactional_id(context, AclOperation.WRITE, request.transactional_id)
    check_group(context, AclOperation.READ, request.group_id)
    readable = AllowedTopics(context, AclOperation.READ)
    await readable.ask(topic.name for topic in request.topics)
    refused: Refused = {}
    known: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        partitions = _known_partitions(topic, context, readable, refused)
        if partitions:
            known.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=partitions))
    response = TxnOffsetCommitResponse(topics=list(refused.values()))
    if known:
        request.topics = known
        merge_topics(response.topics, (await _commit(request, context)).topics)
    if context.version < VERSION_WITH_LOADING:
        _without_loading(response)
    return response


async def _commit(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    if not request.group_id:
        return transactional_commit_error(request, ErrorCode.INVALID_GROUP_ID)
    try:
        verification = await _verify(request, context)
    except KafkaError as error:
        return transactional_commit_error(request, coordinator_error(error))
    return await context.services.groups.commit_in_transaction(request, verification)


async def _verify(request: TxnOffsetCommitRequest, context: Context) -> Verification | None:
    """Return the token with which the offsets are appended, or None if none is needed. Raises KafkaError."""
    index = context.services.groups.partition_of(request.group_id)
    if index < 0:
        raise UnknownTopicOrPartitionError(f"group {request.group_id} has no coordinator yet")
    name = TopicPartition(TOPIC, index)
    verification = context.services.partitions.find(*name).begin_verification(
        request.producer_id,
        request.producer_epoch,
        WITHOUT_SEQUENCE,
        bumps_epoch=context.version >= VERSION_THAT_ADDS,
    )
    if verification is None:
        return None
    support = ClientSupport.INVALID_TXN_STATE
    if context.version >= VERSION_WITH_ABORTABLE:
        support = ClientSupport.TRANSACTION_ABORTABLE
    if context.version >= VERSION_THAT_ADDS:
        support = ClientSupport.ADDS_PARTITIONS
    results = await context.services.transactions.transaction_questions.verify(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        frozenset({name}),
        support,
    )
    error = results.get(name, ErrorCode.UNKNOWN_SERVER_ERROR)
    if error in UNKNOWN_PRODUCER:
        verification.withdraw()
    if error:
        raise error_for(error)
    return verification


def _known_partitions(
    topic: TxnOffsetCommitRequestTopic, context: Context, readable: AllowedTopics, refused: Refused
) -> list[TxnOffsetCommitRequestPartition]:
    """Return the partitions that exist and that the client may read.

    A topic that the client may not read or that is unknown (even one without partitions), and unknown partitions, are
    added to `refused`.
    """
    known, error = context.services.image.topics.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.name not in readable:
        known, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    count = 0 if known is None else len(known.partitions)
    missing = [p.partition_index for p in topic.partitions if not 0 <= p.partition_index < count]
    if missing or known is None:
        refused.setdefault(topic.name, TxnOffsetCommitResponseTopic(name=topic.name)).partitions += [
            TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)
            for index in missing
        ]
    return [p for p in topic.partitions if 0 <= p.partition_index < count]


def _without_loading(response: TxnOffsetCommitResponse) -> None:
    """Replace COORDINATOR_LOAD_IN_PROGRESS, which older clients do not handle, by COORDINATOR_NOT_AVAILABLE."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
