"""Builds responses to Fetch: a partition's records or error, the order of topics, the leaders' addresses."""

from collections.abc import Generator

from minikafka.broker.apis.cluster_answers import addresses_of, current_leader
from minikafka.broker.apis.services import ClusterView
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.partitions.fetch_result import NO_RECORDS, NO_REPLICA, FetchResult
from minikafka.broker.partitions.fetch_sessions import CachedPartition
from minikafka.protocol.errors import (
    FencedLeaderEpochError,
    KafkaError,
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.message import encode_parts
from minikafka.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

VERSION_WITH_LEADERS = 16
NIL = bytes(16)
VERSION_BY_ID = 13
AT_ONCE = 512
"""The number of partitions that are processed between two pauses."""
ENCODED_AT_ONCE = 256
FRAME_SIZE_BYTES = 4
BEFORE_READING = (TopicAuthorizationFailedError, UnknownTopicIdError, UnknownTopicOrPartitionError)
"""Errors of partitions that Kafka does not try to read: their list of aborted transactions is empty, not null."""
NOT_THE_LEADER = (NotLeaderOrFollowerError, FencedLeaderEpochError)

Context = RequestContext[ClusterView]


def fill(answer: PartitionData, found: FetchResult) -> None:
    """Fill a partition's answer with the records and offsets that were read."""
    answer.high_watermark = found.high_watermark
    answer.last_stable_offset = found.last_stable_offset
    answer.log_start_offset = found.log_start_offset
    answer.records = found.records
    answer.preferred_read_replica = found.preferred_replica
    if found.diverging is not None:
        answer.diverging_epoch = EpochEndOffset(epoch=found.diverging[0], end_offset=found.diverging[1])
    answer.aborted_transactions = (
        None
        if found.aborted is None
        else [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in found.aborted]
    )


def fail(answer: PartitionData, error: KafkaError, cached: CachedPartition, context: Context) -> None:
    """Fill a partition's answer with an error; if another node leads the partition, with the leader too (KIP-951)."""
    answer.error_code = error.code
    answer.high_watermark = -1
    answer.records = NO_RECORDS
    answer.aborted_transactions = [] if isinstance(error, BEFORE_READING) else None
    if isinstance(error, NOT_THE_LEADER) and context.version >= VERSION_WITH_LEADERS:
        leader, epoch = current_leader(context.services.image, cached.topic, cached.partition)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)


def add_leaders(response: FetchResponse, context: Context) -> Generator[None, None, FetchResponse]:
    """Add the addresses of the leaders that the response names (KIP-951)."""
    leaders: set[int] = set()
    looked_at = 0
    for topic in response.responses:
        leaders |= {partition.current_leader.leader_id for partition in topic.partitions}
        looked_at += 1 + len(topic.partitions) // 4
        if looked_at > AT_ONCE:
            looked_at = 0
            yield
    if leaders != {NO_REPLICA}:
        response.node_endpoints = [
            NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
            for one in addresses_of(context)
            if one.node_id in leaders
        ]
    return response


def changed(cached: CachedPartition, answer: PartitionData) -> bool:
    """Whether an incremental response has to contain the partition (KIP-227)."""
    return bool(
        not cached.answered
        or answer.error_code
        or len(answer.records or b"")
        or answer.high_watermark != cached.high_watermark
        or answer.log_start_offset != cached.answered_log_start_offset
        or answer.diverging_epoch.epoch >= 0
        or answer.preferred_read_replica >= 0
    )


def remember(cached: CachedPartition, answer: PartitionData) -> None:
    """Remember in the session which offsets the client was sent."""
    cached.answered = not answer.error_code and answer.diverging_epoch.epoch < 0
    cached.high_watermark = answer.high_watermark
    cached.answered_log_start_offset = answer.log_start_offset


def response_size(
    answers: list[tuple[CachedPartition, PartitionData]], version: int
) -> Generator[None, None, int]:
    """Return the size of the response with these answers as Kafka counts it: with 4 bytes for the frame's size.

    The answers are encoded in parts that do not take long; each further part counts a topic's name once more.
    """
    by_id = version >= VERSION_BY_ID
    empty_bytes = _encoded_size(FetchResponse(), version)
    size_bytes = FRAME_SIZE_BYTES + empty_bytes
    for start in range(0, len(answers), ENCODED_AT_ONCE):
        topics = yield from by_topic(answers[start : start + ENCODED_AT_ONCE], by_id)
        size_bytes += _encoded_size(FetchResponse(responses=topics), version) - empty_bytes
        if start:
            yield
    return size_bytes


def _encoded_size(response: FetchResponse, version: int) -> int:
    return sum(map(len, encode_parts(response, version)))


def by_topic(
    answers: list[tuple[CachedPartition, PartitionData]], by_id: bool
) -> Generator[None, None, list[FetchableTopicResponse]]:
    """Group answers by topic: adjacent partitions of a topic share an entry, and the order of partitions is kept."""
    topics: list[FetchableTopicResponse] = []
    last: tuple[bytes, str] | None = None
    for number, (cached, answer) in enumerate(answers, 1):
        if number % AT_ONCE == 0:
            yield
        topic = (cached.topic_id, "") if by_id else (NIL, cached.topic)
        if topic != last:
            topics.append(FetchableTopicResponse(topic=topic[1], topic_id=topic[0]))
            last = topic
        topics[-1].partitions.append(answer)
    return topics
