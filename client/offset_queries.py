"""Offset requests of the consumer and the admin client: ListOffsets, OffsetFetch and OffsetCommit.

ListOffsets goes to partition leaders, the other two to a group's coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from minikafka.client.connections.answers import answer_to
from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.offsets import OffsetAndMetadata, OffsetAndTimestamp
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NetworkError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_for,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.types import NIL_UUID

V = TypeVar("V")
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
NO_OFFSET = -1
"""The offset in a response if no record is at or after the requested time."""
OFFSET_COMMIT_VERSION_MAX = 9
"""The last version of OffsetCommit that identifies topics by name."""
OFFSET_COMMIT_VERSION_BY_ID = 10
_OFFSET_FETCH_VERSION_BY_NAME_MAX = 9
"""The last version of OffsetFetch that identifies topics by name. It gets offsets of a deleted topic of the name from a
coordinator that has not heard of the deletion."""
_FIRST_VERSION_WITH_GROUPS = 8


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation_level: int, timeout_ms: int
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first offset of each partition at or after a time: ms since 1970, or LATEST, EARLIEST, MAX_TIMESTAMP.

    Sends one request to every leader. If a partition fails, raises the first one's KafkaError and refreshes metadata.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    by_leader, leaderless = await leaders_of(cluster, wanted)
    for error in leaderless.values():
        raise error
    for leader, some in by_leader.items():
        results = await list_offsets_of_leader(
            cluster, leader, some, isolation_level=isolation_level, timeout_ms=timeout_ms
        )
        for tp, one in results.items():
            if isinstance(one, KafkaError):
                raise one
            found[tp] = one
    return found


async def list_offsets_of_leader(
    cluster: Cluster, leader: int, wanted: Mapping[TopicPartition, int], *, isolation_level: int, timeout_ms: int
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """As `list_offsets`, for partitions of one leader; return the KafkaError of each that fails. Does not raise."""
    found: dict[TopicPartition, OffsetAndTimestamp | KafkaError] = {
        tp: UnknownTopicOrPartitionError(f"the ListOffsets response lacks {tp}") for tp in wanted
    }
    try:
        response = await cluster.request(_list_request(cluster, wanted, isolation_level, timeout_ms), leader)
    except KafkaError as error:
        return dict.fromkeys(wanted, error)
    for topic in response.topics:
        for one in topic.partitions:
            tp = TopicPartition(topic.name, one.partition_index)
            if tp not in wanted:
                continue
            if one.error_code:
                found[tp] = error_for(one.error_code, f"{tp}: {error_for(one.error_code)}")
            elif one.offset < (0 if wanted[tp] in (LATEST, EARLIEST) else NO_OFFSET):
                found[tp] = NetworkError(f"a response names the offset {one.offset} of {tp}, which cannot be")
            else:
                found[tp] = OffsetAndTimestamp(one.offset, one.timestamp, one.leader_epoch)
    if any(isinstance(one, KafkaError) for one in found.values()):
        cluster.refresh_soon()
    return found


async def leaders_of(
    cluster: Cluster, wanted: Mapping[TopicPartition, V]
) -> tuple[dict[int, dict[TopicPartition, V]], dict[TopicPartition, KafkaError]]:
    """Group partitions by leader; also return the errors of partitions without a leader.

    Metadata is refreshed first if a leader is unknown. Raises KafkaError if metadata could not be fetched.
    """
    if cluster.topics is not None:
        cluster.topics |= dict.fromkeys(tp.topic for tp in wanted)
    if any(cluster.metadata.leader(*tp) < 0 for tp in wanted):
        await cluster.refresh()
    by_leader: dict[int, dict[TopicPartition, V]] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for tp, asked in wanted.items():
        leader = cluster.metadata.leader(*tp)
        if leader < 0:
            known = cluster.metadata.errors.get(tp.topic) or cluster.metadata.missing(*tp)
            errors[tp] = known or LeaderNotAvailableError(f"{tp} has no leader")
        else:
            by_leader.setdefault(leader, {})[tp] = asked
    return by_leader, errors


def _list_request(
    cluster: Cluster, some: Mapping[TopicPartition, int], isolation_level: int, timeout_ms: int
) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for tp, timestamp in some.items():
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic, partitions=[]))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=tp.partition,
                current_leader_epoch=cluster.metadata.leader_epoch(*tp),
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=list(topics.values()), timeout_ms=timeout_ms
    )


async def committed_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A group's committed offsets (`partitions` None: of all); partitions without a committed offset are omitted.

    Sends one request. Raises the first partition's KafkaError; after a retriable error of the request, the next call
    looks up the coordinator again.
    """
    answered = await _fetch_offsets(cluster, group_id, partitions, require_stable=require_stable)
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for tp, one in answered.items():
        if isinstance(one, KafkaError):
            raise one
        found[tp] = one
    return found


async def committed_offsets_of_each(
    cluster: Cluster, group_id: str, partitions: Collection[TopicPartition], *, require_stable: bool
) -> dict[TopicPartition, OffsetAndMetadata | KafkaError]:
    """As `committed_offsets`, but return the KafkaError of each partition that fails: of all, without a response."""
    try:
        return await _fetch_offsets(cluster, group_id, partitions, require_stable=require_stable)
    except KafkaError as error:
        return dict.fromkeys(partitions, error)


async def _fetch_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
) -> dict[TopicPartition, OffsetAndMetadata | KafkaError]:
    """Fetch the committed offsets, or errors, of partitions. Raises the KafkaError of the request or of the group."""
    asked = None if partitions is None else list(partitions)
    names: dict[str, list[int]] | None = None if asked is None else {}
    for tp in asked or ():
        assert names is not None
        names.setdefault(tp.topic, []).append(tp.partition)
    node_id = await cluster.coordinator(group_id)
    try:
        connection = await cluster.connection(node_id)
        ids = {name: cluster.metadata.topic_id(name) for name in names or ()}
        by_id = bool(ids) and NIL_UUID not in ids.values()
        version = connection.version_for(OffsetFetchRequest, None if by_id else _OFFSET_FETCH_VERSION_BY_NAME_MAX)
        batched = version >= _FIRST_VERSION_WITH_GROUPS
        request = _batched_request(group_id, names, ids) if batched else _single_request(group_id, names)
        request.require_stable = require_stable and version >= 7
        response = await cluster.request(request, node_id, highest=version)
        answer = answer_to(request, response) if batched else response
        if answer.error_code:
            raise error_for(answer.error_code, f"group {group_id!r}: {error_for(answer.error_code)}")
    except KafkaError as error:
        if error.retriable:
            cluster.forget_coordinator(group_id)
        raise
    found = _committed(answer.topics, asked, {topic_id: name for name, topic_id in ids.items()})
    if any(isinstance(one, UnknownTopicIdError) for one in found.values()):
        cluster.refresh_soon()
    return found


def _batched_request(
    group_id: str, names: dict[str, list[int]] | None, ids: Mapping[str, bytes]
) -> OffsetFetchRequest:
    topics = None
    if names is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, topic_id=ids[name], partition_indexes=some)
            for name, some in names.items()
        ]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])


def _single_request(group_id: str, names: dict[str, list[int]] | None) -> OffsetFetchRequest:
    topics = None
    if names is not None:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in names.items()]
    return OffsetFetchRequest(group_id=group_id, topics=topics)


def _committed(
    topics: Any, asked: Sequence[TopicPartition] | None, names: Mapping[bytes, str]
) -> dict[TopicPartition, OffsetAndMetadata | KafkaError]:
    """The results for the requested partitions, `asked` (None: all); a missing partition gets a NetworkError."""
    found: dict[TopicPartition, OffsetAndMetadata | KafkaError] = {
        tp: NetworkError(f"the OffsetFetch response lacks {tp}") for tp in asked or ()
    }
    for topic in topics:
        for one in topic.partitions:
            tp = TopicPartition(topic.name or names.get(topic.topic_id, ""), one.partition_index)
            if asked is not None and found.pop(tp, None) is None:
                continue
            if one.error_code:
                found[tp] = error_for(one.error_code, f"{tp}: {error_for(one.error_code)}")
            elif one.committed_offset >= 0:
                found[tp] = OffsetAndMetadata(one.committed_offset, one.metadata or "", one.committed_leader_epoch)
    return found


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    topic_id_of: Callable[[TopicPartition], bytes] = lambda tp: NIL_UUID,
) -> OffsetCommitRequest:
    """An OffsetCommit request without a membership; members add their member id and generation.

    Args:
        topic_id_of: returns a topic's id, for versions that identify topics by id; the nil id if it is unknown.
    """
    topics: dict[tuple[str, bytes], OffsetCommitRequestTopic] = {}
    for tp, committed in offsets.items():
        key = tp.topic, topic_id_of(tp)
        topic = topics.setdefault(key, OffsetCommitRequestTopic(name=key[0], topic_id=key[1], partitions=[]))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return OffsetCommitRequest(group_id=group_id, topics=list(topics.values()))


def commit_version_max(request: OffsetCommitRequest) -> int:
    """The highest version in which a request can be sent; versions with topic ids require that all ids are known."""
    by_id = all(topic.topic_id != NIL_UUID for topic in request.topics)
    return OFFSET_COMMIT_VERSION_BY_ID if by_id else OFFSET_COMMIT_VERSION_MAX


def commit_results(request: OffsetCommitRequest, response: Any) -> dict[TopicPartition, KafkaError | None]:
    """The error of each partition of a request, or None if the partition was committed."""
    names = {topic.topic_id: topic.name for topic in request.topics}
    codes = {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }
    results: dict[TopicPartition, KafkaError | None] = {}
    for topic in request.topics:
        for one in topic.partitions:
            tp = TopicPartition(topic.name, one.partition_index)
            code = codes.get(tp, ErrorCode.NETWORK_EXCEPTION)
            what = error_for(code) if code and tp in codes else "the response lacks it"
            text = f"commit failed: group {request.group_id!r}, {tp.topic}-{tp.partition}: {what}"
            results[tp] = error_for(code, text) if code else None
    return results
