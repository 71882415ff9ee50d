"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete, and the expiry of what nobody needs (KIP-211).

Topics and partitions have been checked, and ids and names joined, before a request comes here: see the handlers.
Source: Kafka's `OffsetMetadataManager`.
"""

from __future__ import annotations

from functools import partial

from minikafka.broker.coordinator.decision import Producer, Ticket
from minikafka.broker.coordinator.groups.decision_builder import RECORDS_MAX, Turn
from minikafka.broker.coordinator.groups.group import ClassicGroup
from minikafka.broker.coordinator.groups.group_records import NEVER, OffsetCommitValue
from minikafka.broker.coordinator.groups.group_states import EMPTY, PREPARING_REBALANCE, STABLE
from minikafka.broker.coordinator.groups.heartbeat_and_leave import keep_alive
from minikafka.broker.coordinator.groups.offset_table import Committed
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


# -- committing --------------------------------------------------------------------------------------------------


def commit_offsets(turn: Turn, request: OffsetCommitRequest, version: int, ticket: Ticket) -> None:
    """Of members in their generation, or of anybody in a group without members."""
    fault = _may_commit(turn, request, version)
    expire_timestamp = NEVER if request.retention_time_ms < 0 else turn.now.clock_ms + request.retention_time_ms
    reply = OffsetCommitResponse()
    for topic in request.topics:
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        reply.topics.append(answered)
        for partition in topic.partitions:
            error = fault or _check_metadata(turn, partition.committed_metadata)
            answered.partitions.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
            if not error:
                value = _value(turn, partition, topic.topic_id, expire_timestamp)
                turn.write(_key(request.group_id, topic.name, partition.partition_index), value)
    turn.answer(ticket, reply)


def _may_commit(turn: Turn, request: OffsetCommitRequest, version: int) -> ErrorCode:
    group = turn.state.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.NONE  # a simple group comes into being with its first offset
        unknown = version >= GROUP_ID_NOT_FOUND_FROM
        return ErrorCode.GROUP_ID_NOT_FOUND if unknown else ErrorCode.ILLEGAL_GENERATION
    fault = group.check_commit(request.member_id, request.group_instance_id, generation, transactional=False)
    if not fault and group.state in (STABLE, PREPARING_REBALANCE):
        keep_alive(turn, group, request.member_id)
    return fault


def commit_offsets_in_transaction(turn: Turn, request: TxnOffsetCommitRequest, ticket: Ticket) -> None:
    """Written in the producer's name; they count once its transaction is committed (KIP-447)."""
    fault = _may_commit_in_transaction(turn, request)
    reply = TxnOffsetCommitResponse()
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(name=topic.name)
        reply.topics.append(answered)
        topic_id = turn.state.topic_id(topic.name)
        for partition in topic.partitions:
            error = fault or _check_metadata(turn, partition.committed_metadata)
            answered.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
            if not error:
                value = _value(turn, partition, topic_id, NEVER)
                turn.write(_key(request.group_id, topic.name, partition.partition_index), value)
    turn.decision.producer = Producer(request.producer_id, request.producer_epoch)
    turn.answer(ticket, reply)


def _may_commit_in_transaction(turn: Turn, request: TxnOffsetCommitRequest) -> ErrorCode:
    group = turn.state.groups.get(request.group_id)
    if group is None:
        return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    return group.check_commit(
        request.member_id, request.group_instance_id, request.generation_id, transactional=True
    )


def _check_metadata(turn: Turn, metadata: str | None) -> ErrorCode:
    """Its length counts as Java counts: characters beyond the first plane are two."""
    size_max = turn.state.settings.metadata_size_max
    if metadata is None or 2 * len(metadata) <= size_max:
        return ErrorCode.NONE
    too_long = len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > size_max
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if too_long else ErrorCode.NONE


def _key(group_id: str, topic: str, partition: int) -> OffsetCommitKey:
    return OffsetCommitKey(group=group_id, topic=topic, partition=partition)


def _value(
    turn: Turn,
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    topic_id: bytes,
    expire_timestamp: int,
) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=turn.now.clock_ms,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )


# -- fetching ----------------------------------------------------------------------------------------------------


def fetch_offsets(turn: Turn, request: OffsetFetchRequestGroup, ticket: Ticket, *, require_stable: bool) -> None:
    """Of the topics asked for, or of all; -1 where there is none, also in a group that nobody knows."""
    offsets = turn.state.offsets
    reply = OffsetFetchResponseGroup(group_id=request.group_id)
    if request.topics is None:
        for topic, partitions in offsets.topics(request.group_id):
            answered = OffsetFetchResponseTopics(name=topic, topic_id=turn.state.topic_id(topic))
            reply.topics.append(answered)
            answered.partitions = [
                _fetched(turn, request.group_id, answered, index, committed, require_stable)
                for index, committed in partitions
            ]
    for asked in request.topics or ():
        answered = OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id)
        reply.topics.append(answered)
        answered.partitions = [
            _fetched(
                turn,
                request.group_id,
                answered,
                index,
                offsets.get(request.group_id, asked.name, index),
                require_stable,
            )
            for index in asked.partition_indexes
        ]
    turn.answer(ticket, reply)


def _fetched(
    turn: Turn,
    group_id: str,
    topic: OffsetFetchResponseTopics,
    index: int,
    committed: Committed | None,
    require_stable: bool,
) -> OffsetFetchResponsePartitions:
    reply = OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, metadata="")
    if require_stable and turn.state.offsets.is_pending(group_id, topic.name, index):
        reply.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    elif committed is not None and not _is_of_another(committed, topic.topic_id):
        reply.committed_offset = committed.offset
        reply.committed_leader_epoch = committed.leader_epoch
        reply.metadata = committed.metadata
    return reply


def _is_of_another(committed: Committed, topic_id: bytes) -> bool:
    """Whether the offset belongs to a topic that was deleted, though a new one has its name."""
    return NIL_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


# -- deleting ----------------------------------------------------------------------------------------------------


def delete_offsets(turn: Turn, request: OffsetDeleteRequest, ticket: Ticket) -> None:
    """Of topics that no member reads (KIP-496)."""
    group = turn.state.groups.get(request.group_id)
    fault = _may_delete(group, request.group_id)
    if fault or group is None:
        turn.answer(ticket, OffsetDeleteResponse(error_code=fault))
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
            if not subscribed and turn.state.offsets.is_known(request.group_id, topic.name, index):
                turn.write(_key(request.group_id, topic.name, index), None)
    turn.answer(ticket, reply)


def _may_delete(group: ClassicGroup | None, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is EMPTY or group.is_consumer else ErrorCode.NON_EMPTY_GROUP


def forget_offsets(turn: Turn, group_id: str) -> None:
    """Tombstones for all that a group has committed, or is about to."""
    for place in turn.state.offsets.places(group_id):
        turn.write(_key(group_id, place.topic, place.partition), None)


def forget_partitions(turn: Turn, partitions: list[TopicPartition]) -> None:
    """Tombstones for offsets in partitions that were deleted."""
    for place, partition in enumerate(partitions):
        if len(turn.decision.records) >= RECORDS_MAX:
            turn.follow(partial(forget_partitions, partitions=partitions[place:]))
            return
        for group_id in turn.state.offsets.groups_with(partition):
            turn.write(_key(group_id, partition.topic, partition.partition), None)


# -- expiring ----------------------------------------------------------------------------------------------------


def expire_offsets(turn: Turn, group: ClassicGroup) -> bool:
    """Tombstones for a group's offsets that were kept long enough.

    Returns:
        Whether nothing is left, and nothing will come of an open transaction.
    """
    offsets = turn.state.offsets
    nothing_left = not offsets.has_open_transaction(group.group_id)
    for topic, partitions in offsets.topics(group.group_id):
        for index, committed in partitions:
            if _may_expire(turn, group, topic, index, committed):
                turn.write(_key(group.group_id, topic, index), None)
            else:
                nothing_left = False
    return nothing_left


def _may_expire(turn: Turn, group: ClassicGroup, topic: str, index: int, committed: Committed) -> bool:
    """Offsets of an Empty group are kept from when it became so, those of a simple group from their commit. With
    members, only a consumer group's offsets of topics that none of them reads may go."""
    since_ms = committed.commit_timestamp
    if group.protocol_type is not None:
        if group.state is EMPTY:
            since_ms = since_ms if group.state_timestamp is None else group.state_timestamp
        elif group.state is not STABLE or group.subscribed_topics is None:
            return False
    if group.is_subscribed(topic) or turn.state.offsets.is_pending(group.group_id, topic, index):
        return False
    return committed.is_expired(since_ms, turn.now.clock_ms, turn.state.settings.retention_ms)
