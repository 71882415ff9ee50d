"""Fetch: slices of logs, as files. Versions 4 to 18: sessions from 7 (KIP-227), leader epochs from 9 (KIP-320),
diverging epochs from 12 (KIP-595), topics by id from 13 (KIP-516).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import trio

from minikafka.broker.context import RequestContext
from minikafka.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, CachedPartition, Session, SessionKey
from minikafka.broker.partition import EMPTY, Partition, Read
from minikafka.broker.waiting import sleep_until_grown
from minikafka.protocol.errors import ErrorCode, KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError
from minikafka.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

REQUEST = FetchRequest
VERSIONS = "4-18"
WAITS = True

VERSION_WITH_SESSIONS = 7
VERSION_BY_ID = 13
NIL = bytes(16)


@dataclass(slots=True)
class Answers:
    """What one look at all partitions found."""

    partitions: list[tuple[CachedPartition, PartitionData]] = field(default_factory=lambda: [])
    size_bytes: int = 0
    urgent: bool = False
    """An error or a divergence: the client should hear of it now."""
    watched: list[Partition] = field(default_factory=lambda: [])


async def handle(request: FetchRequest, context: RequestContext) -> FetchResponse:
    """Answer once `min_bytes` are there, `max_wait_ms` are over, or something is wrong."""
    sessions = context.node.fetch_sessions
    by_id = context.version >= VERSION_BY_ID
    session: Session | None = None
    asked = _asked(request, context, by_id)
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        sessions.close(request.session_id)
        wanted: Iterable[CachedPartition] = asked
    else:
        now_ms = context.node.now_ms()
        session = sessions.resume(request.session_id, request.session_epoch, by_id=by_id, now_ms=now_ms)
        session.update(asked, _forgotten(request, context, by_id))
        wanted = session.partitions.values()
        if not session.partitions:  # whoever forgets everything is answered as if there had been no session
            sessions.close(session.id)
            session, wanted = None, asked
    answers = await _read_enough(request, wanted, context)
    response = FetchResponse()
    if session is not None:
        _answer_changes(session, answers, response, by_id)
        return response
    if request.session_epoch == INITIAL_EPOCH and context.version >= VERSION_WITH_SESSIONS:
        opened = sessions.open(asked, by_id=by_id, now_ms=context.node.now_ms())
        response.session_id = opened.id if opened else 0
    for cached, answer in answers.partitions:
        _remember(cached, answer)
    response.responses = _by_topic(answers.partitions, by_id)
    return response


def _asked(request: FetchRequest, context: RequestContext, by_id: bool) -> list[CachedPartition]:
    """The request's partitions; of one that is named twice the last counts."""
    asked: dict[SessionKey, CachedPartition] = {}
    topics_by_id = context.node.image.topics_by_id
    for topic in request.topics:
        known = topics_by_id.get(topic.topic_id) if by_id else None
        name = (known.name if known else "") if by_id else topic.topic
        for partition in topic.partitions:
            cached = CachedPartition(
                topic.topic_id if by_id else NIL,
                name,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
                partition.log_start_offset,
                by_id=by_id,
            )
            asked[cached.key] = cached
    return list(asked.values())


def _forgotten(request: FetchRequest, context: RequestContext, by_id: bool) -> list[SessionKey]:
    return [
        (topic.topic_id, "", partition) if by_id else (NIL, topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


async def _read_enough(
    request: FetchRequest, wanted: Iterable[CachedPartition], context: RequestContext
) -> Answers:
    deadline = trio.current_time() + max(request.max_wait_ms, 0) / 1000
    in_time = request.max_wait_ms > 0
    while True:
        answers = _read_all(request, wanted, context)
        missing_bytes = request.min_bytes - answers.size_bytes
        if missing_bytes <= 0 or answers.urgent or not in_time or not answers.watched:
            return answers
        in_time = await sleep_until_grown(answers.watched, missing_bytes, deadline)


def _read_all(request: FetchRequest, wanted: Iterable[CachedPartition], context: RequestContext) -> Answers:
    answers = Answers()
    replica_id = max(request.replica_id, request.replica_state.replica_id)
    budget = min(request.max_bytes, context.node.fetch_max_bytes)
    for cached in wanted:
        answer = PartitionData(partition_index=cached.partition, aborted_transactions=None, records=EMPTY)
        answers.partitions.append((cached, answer))
        try:
            partition = _find(cached, context)
            if replica_id >= 0:
                partition.check_follower(replica_id)
            found = partition.read(
                cached.fetch_offset,
                max_bytes=min(cached.max_bytes, budget),
                isolation=request.isolation_level,
                current_leader_epoch=cached.current_leader_epoch,
                last_fetched_epoch=cached.last_fetched_epoch,
                at_least_one_batch=not answers.size_bytes,
            )
        except KafkaError as error:
            answers.urgent = True
            _fail(answer, error)
            continue
        answers.watched.append(partition)
        _fill(answer, found)
        answers.urgent |= found.diverging is not None
        answers.size_bytes += len(found.records)
        budget -= len(found.records)
    return answers


def _find(cached: CachedPartition, context: RequestContext) -> Partition:
    partitions = context.node.partitions
    if not cached.by_id:
        return partitions.find(cached.topic, cached.partition)
    if not cached.topic:
        known = context.node.image.topics_by_id.get(cached.topic_id)
        if known is None:
            raise UnknownTopicIdError("This server does not host this topic ID.")
        cached.topic = known.name
    partition = partitions.find(cached.topic, cached.partition)
    if partition.topic_id != cached.topic_id:
        partitions.check_id(cached.topic, cached.topic_id)
    return partition


def _fill(answer: PartitionData, found: Read) -> None:
    answer.high_watermark = found.high_watermark
    answer.last_stable_offset = found.last_stable_offset
    answer.log_start_offset = found.log_start_offset
    answer.records = found.records
    if found.diverging is not None:
        answer.diverging_epoch = EpochEndOffset(epoch=found.diverging[0], end_offset=found.diverging[1])
    answer.aborted_transactions = (
        None
        if found.aborted is None
        else [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in found.aborted]
    )


def _fail(answer: PartitionData, error: KafkaError) -> None:
    answer.error_code = error.code
    answer.high_watermark = -1
    answer.records = EMPTY
    unknown = isinstance(error, UnknownTopicIdError | UnknownTopicOrPartitionError)
    answer.aborted_transactions = [] if unknown else None


def _answer_changes(session: Session, answers: Answers, response: FetchResponse, by_id: bool) -> None:
    """An incremental answer names only partitions with records, errors or moved watermarks (KIP-227)."""
    changed: list[tuple[CachedPartition, PartitionData]] = []
    for cached, answer in answers.partitions:
        if _changed(cached, answer):
            changed.append((cached, answer))
            if answer.error_code == ErrorCode.NONE and len(answer.records or b""):
                session.partitions.move_to_end(cached.key)
        _remember(cached, answer)
    response.session_id = session.id
    response.responses = _by_topic(changed, by_id)


def _changed(cached: CachedPartition, answer: PartitionData) -> bool:
    return bool(
        not cached.answered
        or answer.error_code
        or len(answer.records or b"")
        or answer.high_watermark != cached.high_watermark
        or answer.log_start_offset != cached.answered_log_start_offset
        or answer.diverging_epoch.epoch >= 0
    )


def _remember(cached: CachedPartition, answer: PartitionData) -> None:
    cached.answered = not answer.error_code
    cached.high_watermark = answer.high_watermark
    cached.answered_log_start_offset = answer.log_start_offset


def _by_topic(answers: list[tuple[CachedPartition, PartitionData]], by_id: bool) -> list[FetchableTopicResponse]:
    """Neighbours of one topic share an entry; the order of the partitions is kept."""
    topics: list[FetchableTopicResponse] = []
    last: tuple[bytes, str] | None = None
    for cached, answer in answers:
        topic = (cached.topic_id, "") if by_id else (NIL, cached.topic)
        if topic != last:
            topics.append(FetchableTopicResponse(topic=topic[1], topic_id=topic[0]))
            last = topic
        topics[-1].partitions.append(answer)
    return topics
