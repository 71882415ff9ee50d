"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete, also for deleted topics.

The API handlers have already checked topics and partitions, and resolved topic ids to names.
Source: Kafka's `OffsetMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from minikafka.broker.coordinator.decision import Producer, Ticket
from minikafka.broker.coordinator.groups.classic.heartbeat_and_leave import renew_session
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.classic_group_states import PREPARING_REBALANCE, STABLE
from minikafka.broker.coordinator.groups.state.group import Committer, Group, PartitionCheck
from minikafka.broker.coordinator.groups.state.group_records import NEVER, OffsetCommitValue
from minikafka.broker.coordinator.groups.state.offset_table import CommittedOffset
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.types import NIL_UUID

GROUP_ID_NOT_FOUND_FROM = 9
NO_OFFSET = -1
OFFSETS_IN_A_STEP = 2_000
END_OF_TIME_MS = 2**63 - 1


# -- committing --------------------------------------------------------------------------------------------------


def commit_offsets(builder: DecisionBuilder, request: OffsetCommitRequest, version: int, ticket: Ticket) -> None:
    """OffsetCommit: allowed for members in their generation or epoch, and for any client if there are no members."""
    check = _check_commit(builder, request, version)
    expire_timestamp = min(builder.now.clock_ms + request.retention_time_ms, END_OF_TIME_MS)
    if request.retention_time_ms < 0:
        expire_timestamp = NEVER
    reply = OffsetCommitResponse()
    for topic in request.topics:
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        reply.topics.append(answered)
        for partition in topic.partitions:
            index = partition.partition_index
            error = check if isinstance(check, ErrorCode) else check(topic.topic_id, index)
            error = error or _check_metadata(builder, partition.committed_metadata)
            answered.partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
            if not error:
                value = _value(builder, partition, topic.topic_id, expire_timestamp)
                builder.write(_key(request.group_id, topic.name, index), value)
    builder.answer(ticket, reply)


def _check_commit(builder: DecisionBuilder, request: OffsetCommitRequest, version: int) -> ErrorCode | PartitionCheck:
    group = builder.state.find(request.group_id)
    epoch = request.generation_id_or_member_epoch
    if group is None:
        if epoch < 0:
            return ErrorCode.NONE  # a simple group is created by its first commit
        unknown = version >= GROUP_ID_NOT_FOUND_FROM
        return ErrorCode.GROUP_ID_NOT_FOUND if unknown else ErrorCode.ILLEGAL_GENERATION
    check = group.check_commit(
        Committer(request.member_id, request.group_instance_id, epoch, transactional=False, version=version)
    )
    classic = builder.state.classic_groups.get(request.group_id)
    if not check and classic is not None and classic.state in (STABLE, PREPARING_REBALANCE):
        renew_session(builder, classic, request.member_id)
    return check


def commit_offsets_in_transaction(
    builder: DecisionBuilder, request: TxnOffsetCommitRequest, ticket: Ticket, verification: object | None = None
) -> None:
    """TxnOffsetCommit: the offsets take effect when the producer's transaction is committed (KIP-447)."""
    check = _check_commit_in_transaction(builder, request)
    reply = TxnOffsetCommitResponse()
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(name=topic.name)
        reply.topics.append(answered)
        topic_id = builder.state.topic_id(topic.name)
        for partition in topic.partitions:
            index = partition.partition_index
            error = check if isinstance(check, ErrorCode) else check(topic_id, index)
            if error is ErrorCode.STALE_MEMBER_EPOCH:
                error = ErrorCode.ILLEGAL_GENERATION  # The only one of the two that producers know.
            error = error or _check_metadata(builder, partition.committed_metadata)
            answered.partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
            if not error:
                value = _value(builder, partition, topic_id, NEVER)
                builder.write(_key(request.group_id, topic.name, index), value)
    builder.decision.producer = Producer(request.producer_id, request.producer_epoch, verification)
    builder.answer(ticket, reply)


def _check_commit_in_transaction(
    builder: DecisionBuilder, request: TxnOffsetCommitRequest
) -> ErrorCode | PartitionCheck:
    group = builder.state.find(request.group_id)
    if group is None:
        return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    return group.check_commit(
        Committer(request.member_id, request.group_instance_id, request.generation_id, transactional=True, version=0)
    )


def _check_metadata(builder: DecisionBuilder, metadata: str | None) -> ErrorCode:
    """The limit counts UTF-16 code units, as Java does."""
    size_max = builder.state.settings.metadata_size_max
    if metadata is None or 2 * len(metadata) <= size_max:
        return ErrorCode.NONE
    too_long = len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > size_max
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if too_long else ErrorCode.NONE


def _key(group_id: str, topic: str, partition: int) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=topic, partition=partition)


def _value(
    builder: DecisionBuilder,
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    topic_id: bytes,
    expire_timestamp: int,
) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=builder.now.clock_ms,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )


# -- fetching ----------------------------------------------------------------------------------------------------


def fetch_offsets(
    builder: DecisionBuilder, request: OffsetFetchRequestGroup, ticket: Ticket, *, require_stable: bool
) -> None:
    """OffsetFetch: -1 where no offset is committed or the group is unknown.

    A fetch of all topics is answered with `AllOffsets`, of which the caller makes the response.
    """
    offsets = builder.state.offsets
    reply = OffsetFetchResponseGroup(group_id=request.group_id)
    group = builder.state.find_to_read(request.group_id)
    fault = ErrorCode.NONE if group is None else group.check_fetch(request.member_id, request.member_epoch)
    if fault:
        builder.answer(ticket, OffsetFetchResponseGroup(group_id=request.group_id, error_code=fault))
        return
    if request.topics is None:
        topics = [(name, builder.state.topic_id(name), found) for name, found in offsets.topics(request.group_id)]
        pending = frozenset(offsets.pending(request.group_id)) if require_stable else frozenset[TopicPartition]()
        builder.answer(ticket, AllOffsets(request.group_id, topics, pending))
        return
    for asked in request.topics:
        answered = OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id)
        reply.topics.append(answered)
        answered.partitions = [
            _fetched(
                index,
                offsets.get(request.group_id, asked.name, index),
                asked.topic_id,
                is_pending=require_stable and offsets.is_pending(request.group_id, asked.name, index),
            )
            for index in asked.partition_indexes
        ]
    builder.answer(ticket, reply)


@dataclass(frozen=True, slots=True)
class AllOffsets:
    """All offsets of a group at one time: transactions that end later are seen as a whole or not at all.

    Attributes:
        topics: Names, ids and (partition, committed) of topics.
        pending: The partitions that an open transaction has offsets for, if the client must not read those.
    """

    group_id: str
    topics: list[tuple[str, bytes, list[tuple[int, CommittedOffset]]]]
    pending: frozenset[TopicPartition]

    def response(self) -> Generator[None, None, OffsetFetchResponseGroup]:
        """The response, made in steps."""
        reply, made = OffsetFetchResponseGroup(group_id=self.group_id), 0
        for name, topic_id, offsets in self.topics:
            answered = OffsetFetchResponseTopics(name=name, topic_id=topic_id)
            reply.topics.append(answered)
            for index, committed in offsets:
                is_pending = bool(self.pending) and TopicPartition(name, index) in self.pending
                answered.partitions.append(_fetched(index, committed, topic_id, is_pending=is_pending))
                made += 1
                if made % OFFSETS_IN_A_STEP == 0:
                    yield
        return reply


def _fetched(
    index: int, committed: CommittedOffset | None, topic_id: bytes, *, is_pending: bool
) -> OffsetFetchResponsePartitions:
    reply = OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, metadata="")
    if is_pending:
        reply.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    elif committed is not None and not _is_of_deleted_topic(committed, topic_id):
        reply.committed_offset = committed.offset
        reply.committed_leader_epoch = committed.leader_epoch
        reply.metadata = committed.metadata
    return reply


def _is_of_deleted_topic(committed: CommittedOffset, topic_id: bytes) -> bool:
    """Whether the offset was committed for a deleted topic whose name is in use again."""
    return NIL_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


# -- deleting ----------------------------------------------------------------------------------------------------


def delete_offsets(builder: DecisionBuilder, request: OffsetDeleteRequest, ticket: Ticket) -> None:
    """OffsetDelete: only topics that no member is subscribed to (KIP-496)."""
    group = builder.state.find(request.group_id)
    fault = _check_delete(group, request.group_id)
    if fault or group is None:
        builder.answer(ticket, OffsetDeleteResponse(error_code=fault))
        return
    reply = OffsetDeleteResponse()
    for topic in request.topics:
        subscribed = group.is_subscribed(topic.name)
        answered = OffsetDeleteResponseTopic(name=topic.name)
        reply.topics.append(answered)
        for partition in topic.partitions:
            index = partition.partition_index
            answered.partitions.append(
                OffsetDeleteResponsePartition(
                    partition_index=index,
                    error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE,
                )
            )
            if not subscribed and builder.state.offsets.is_known(request.group_id, topic.name, index):
                builder.write(_key(request.group_id, topic.name, index), None)
    builder.answer(ticket, reply)


def _check_delete(group: Group | None, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.is_empty or group.allows_offset_deletion else ErrorCode.NON_EMPTY_GROUP

