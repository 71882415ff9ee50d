"""Fetch: returns records of partitions, as slices of logs.

Versions 4 to 18: sessions from 7 (KIP-227), leader epochs from 9 (KIP-320), racks from 11 (KIP-392), diverging epochs
from 12 (KIP-595), topics by id from 13 (KIP-516), a follower's broker epoch from 15 (KIP-903), leaders' addresses from
16 (KIP-951).

Consumers and followers use the same API. A follower reads up to the log end offset, and its fetch offset reports
its progress to the leader; a consumer reads committed records, from version 11 on from any replica.
"""

from collections.abc import Collection, Generator, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import trio

from minikafka.broker.apis.fetch_access import check_readable, readable, refuse_unreadable
from minikafka.broker.apis.fetch_response import (
    AT_ONCE,
    BEFORE_READING,
    NIL,
    VERSION_BY_ID,
    add_leaders,
    by_topic,
    changed,
    fail,
    fill,
    remember,
    response_size,
)
from minikafka.broker.apis.services import Clock, ClusterView, FetchService, PartitionStore
from minikafka.broker.connections.large_messages import ELEMENTS_MAX_WITH_PAUSES
from minikafka.broker.connections.long_polls import LongPoll
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.partitions.fetch_result import NO_RECORDS, Fetcher, FetchResult
from minikafka.broker.partitions.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, CachedPartition, Session, SessionKey
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.preferred_read_replica import preferred_replica
from minikafka.broker.partitions.request_waiters import (
    ChangedPartitions,
    Watchable,
    deadline_in,
    sleep_until_grown,
    steady_ms,
)
from minikafka.broker.replication.replication_throttle import Throttle
from minikafka.protocol.errors import (
    ErrorCode,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
)
from minikafka.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage.steps import at_once, in_steps
from minikafka.storage.waits import in_task, offered

REQUEST = FetchRequest
VERSIONS = "4-18"
ELEMENTS_MAX = ELEMENTS_MAX_WITH_PAUSES

VERSION_WITH_SESSIONS = 7
VERSION_OF_ANY_REPLICA = 11
PARTITIONS_AT_ONCE = 64


class FetchServices(Clock, ClusterView, FetchService, PartitionStore, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[FetchServices]


@dataclass(slots=True)
class Reads:
    """The result of reading all partitions once."""

    partitions: list[tuple[CachedPartition, PartitionData]] = field(default_factory=lambda: [])
    unread: list[tuple[CachedPartition, PartitionData]] = field(default_factory=lambda: [])
    """Those whose errors (`BEFORE_READING`) follow `partitions` once all are read."""
    size_bytes: int = 0
    urgent: bool = False
    """Whether the response must not wait, because of an error, a diverging epoch or a preferred replica."""
    watched: list[Watchable] = field(default_factory=lambda: [])
    refused: int = 0
    """How many partitions the client may not read; the fetch does not wait for them."""
    grown: int = 0
    """The sum of `grown` of all `watched`, each taken when its partition was read."""

    def watch(self, signal: Watchable) -> None:
        """Add a signal whose growth the fetch waits for, from now on."""
        self.watched.append(signal)
        self.grown += signal.grown

    def fail(self, partition: tuple[CachedPartition, PartitionData], error: KafkaError) -> None:
        """Add a partition with an error; those that are not read at all are answered last, as by Kafka."""
        (self.unread if isinstance(error, BEFORE_READING) else self.partitions).append(partition)
        if isinstance(error, TopicAuthorizationFailedError):
            self.refused += 1
        else:
            self.urgent = True

    def grown_meanwhile(self, watched: Iterable[Watchable]) -> int:
        """Return the bytes by which partitions grew after they were read, while other tasks ran."""
        return sum(signal.grown for signal in watched) - self.grown


def _fetcher_of(request: FetchRequest, context: Context) -> Fetcher:
    replica_id = max(request.replica_id, request.replica_state.replica_id)
    return Fetcher(
        replica_id,
        request.replica_state.replica_epoch,
        request.rack_id if context.services.fetching.rack_aware else "",
        replica_id >= 0 or context.version < VERSION_OF_ANY_REPLICA,
        readable(context, follows=replica_id >= 0),
    )


def _read_few(request: FetchRequest, context: Context) -> FetchResponse | LongPoll | None:
    """The response to a consumer that fetches few partitions without a session, or its wait if there are too few
    records; None for other requests, and for those that count for a quota."""
    follows = max(request.replica_id, request.replica_state.replica_id) >= 0
    if follows or context.meter is not None or request.session_id or request.session_epoch != FINAL_EPOCH:
        return None
    if sum([len(topic.partitions) for topic in request.topics]) > PARTITIONS_AT_ONCE:
        return None
    by_id = context.version >= VERSION_BY_ID
    asked, fetcher = at_once(_asked(request, context, by_id)), _fetcher_of(request, context)
    answers = Reads()

    def waiting(answers: Reads) -> LongPoll | None:
        missing_bytes = request.min_bytes - answers.size_bytes
        if missing_bytes <= 0 or answers.urgent or request.max_wait_ms <= 0 or not answers.watched:
            return None
        fetcher.first_read = False
        return LongPoll(answers.watched, missing_bytes, request.max_wait_ms / 1000, again, sent)

    def sent(times: int) -> None:
        count_sent(answers, context, times)

    def again(in_time: bool) -> FetchResponse | LongPoll | None:
        nonlocal answers
        answers = at_once(_read_all(request, asked, context, fetcher))
        if answers.urgent:
            return None
        return (waiting(answers) if in_time else None) or _full(answers, context, by_id)

    answers = at_once(_read_all(request, asked, context, fetcher))
    if (poll := waiting(answers)) is not None:
        return poll
    sent(1)
    return _full(answers, context, by_id)


def _full(answers: Reads, context: Context, by_id: bool) -> FetchResponse:
    """Build the response to a request for few partitions without a session, which contains all of them."""
    response = FetchResponse(responses=at_once(by_topic(answers.partitions, by_id)))
    return at_once(add_leaders(response, context))


async def handle(request: FetchRequest, context: Context) -> FetchResponse:
    """Return records once `min_bytes` are available, `max_wait_ms` have passed, or a partition has an error."""
    few = _read_few(request, context)
    if few is not None and not isinstance(few, LongPoll):
        return few
    await (in_task() if few is None else offered(few))
    follows = max(request.replica_id, request.replica_state.replica_id) >= 0
    if context.meter is not None and not follows:
        request.max_bytes = min(request.max_bytes, context.meter.fetch_bytes_max())
        request.min_bytes = min(request.min_bytes, request.max_bytes, context.services.fetching.max_bytes)
    sessions = context.services.fetching.sessions
    by_id = context.version >= VERSION_BY_ID
    session: Session | None = None
    asked = await in_steps(_asked(request, context, by_id))
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        sessions.close(request.session_id)
    else:
        now_ms = context.services.now_ms()
        session = sessions.resume(request.session_id, request.session_epoch, by_id=by_id, now_ms=now_ms)
        sessions.update(session, asked, _forgotten(request, context, by_id))
        if not session.partitions:  # A session without partitions is closed, and the response has no session.
            sessions.close(session.id)
            session = None
    if session is not None and (follows or not _fetcher_of(request, context).rack):
        session.changes.keys.update(dict.fromkeys(cached.key for cached in asked))
        answers = await _read_changed(request, session, context)
    else:
        wanted = asked if session is None else list(session.partitions.values())
        answers = await _read_until_enough(request, wanted, context)
    if follows:
        context.connection.follows = context.access.acts_as_node
        _count(answers, context)
    elif throttle_ms := await _throttle_ms(session, answers, context):
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=session.id if session else 0)
    count_sent(answers, context, 1, follows)
    response = FetchResponse()
    if session is not None:
        await in_steps(_answer_changes(session, answers, response, by_id))
        return await in_steps(add_leaders(response, context))
    if request.session_epoch == INITIAL_EPOCH and context.version >= VERSION_WITH_SESSIONS:
        of_follower = follows and context.connection.follows
        opened = sessions.open(asked, by_id=by_id, now_ms=context.services.now_ms(), is_of_follower=of_follower)
        response.session_id = opened.id if opened else 0
        if opened:
            opened.changes.keys.update(dict.fromkeys(opened.partitions))
    for cached, answer in answers.partitions:
        remember(cached, answer)
    response.responses = await in_steps(by_topic(answers.partitions, by_id))
    return await in_steps(add_leaders(response, context))


async def _throttle_ms(session: Session | None, answers: Reads, context: Context) -> int:
    """Return how long a consumer is throttled that would be sent these answers; above 0 it is sent none of them."""
    if context.meter is None:
        return 0
    partitions = answers.partitions
    if session is not None:
        partitions = [(cached, answer) for cached, answer in partitions if changed(cached, answer)]
    size_bytes = await in_steps(response_size(partitions, context.version))
    throttle_ms = context.meter.throttle_fetch(size_bytes)
    if throttle_ms and session is not None:
        session.changes.keys.update(dict.fromkeys(cached.key for cached, _ in answers.partitions))
    return throttle_ms


def _asked(request: FetchRequest, context: Context, by_id: bool) -> Generator[None, None, list[CachedPartition]]:
    """Collect the request's partitions; of duplicates the last counts.

    This generator, like those below, yields where other tasks may run.
    """
    asked: dict[SessionKey, CachedPartition] = {}
    image, number = context.services.image, 0
    for topic in request.topics:
        known = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.topic)
        name = (known.name if known else "") if by_id else topic.topic
        count = len(known.partitions) if known else 0
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
                unknown=not 0 <= partition.partition < count,
            )
            asked[cached.key] = cached
            number += 1
            if number % AT_ONCE == 0:
                yield
    return list(asked.values())


def _forgotten(request: FetchRequest, context: Context, by_id: bool) -> list[SessionKey]:
    return [
        (topic.topic_id, "", partition) if by_id else (NIL, topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


async def _read_until_enough(
    request: FetchRequest, wanted: Collection[CachedPartition], context: Context
) -> Reads:
    deadline = trio.current_time() + max(request.max_wait_ms, 0) / 1000
    in_time = request.max_wait_ms > 0
    fetcher = _fetcher_of(request, context)
    while True:
        answers = await in_steps(_read_all(request, wanted, context, fetcher))
        missing_bytes = request.min_bytes - answers.size_bytes - answers.grown_meanwhile(answers.watched)
        if missing_bytes <= 0 < request.min_bytes - answers.size_bytes:
            continue
        if missing_bytes <= 0 or answers.urgent or not in_time or not answers.watched:
            return answers
        in_time = await sleep_until_grown(answers.watched, missing_bytes, deadline)
        fetcher.first_read = False


async def _read_changed(request: FetchRequest, session: Session, context: Context) -> Reads:
    """Read as `_read_until_enough` does, but only those partitions of a session that have changed or are requested."""
    deadline = deadline_in(request.max_wait_ms)
    in_time = request.max_wait_ms > 0
    fetcher, changes = _fetcher_of(request, context), session.changes
    if fetcher.readable is not None:
        await in_steps(refuse_unreadable(session, fetcher.readable))
    seen: dict[Hashable, None] = {}
    while True:
        seen.update(changes.keys)
        grown = changes.grown
        known = map(session.partitions.get, seen)  # type: ignore[arg-type]
        wanted = [cached for cached in known if cached is not None]
        answers = await in_steps(_read_all(request, wanted, context, fetcher, changes))
        missing_bytes = request.min_bytes - answers.size_bytes
        all_refused = answers.refused == len(session.partitions)
        if missing_bytes <= 0 or answers.urgent or all_refused or not in_time or changes.closed:
            return answers
        if changes.grown == grown:
            in_time = await sleep_until_grown([changes], missing_bytes, deadline)
        fetcher.first_read = False


def _read_all(
    request: FetchRequest,
    wanted: Collection[CachedPartition],
    context: Context,
    fetcher: Fetcher,
    changes: ChangedPartitions | None = None,
) -> Generator[None, None, Reads]:
    answers = Reads()
    follows = fetcher.replica_id >= 0
    fetching = context.services.fetching
    throttle = fetching.leader_throttle
    throttled = follows and throttle.wait_ms(steady_ms()) > 0
    budget = min(request.max_bytes, fetching.max_bytes)
    for number, cached in enumerate(wanted, 1):
        if number % AT_ONCE == 0:
            yield
        answer = PartitionData(partition_index=cached.partition, aborted_transactions=None, records=NO_RECORDS)
        max_bytes = min(cached.max_bytes, budget)
        try:
            partition = _find(cached, context, fetcher)
            if follows:
                waits = throttled and _is_throttled(partition, fetcher.replica_id, throttle)
                limit, least = 0 if waits else max_bytes, not (answers.size_bytes or waits)
                found = partition.read_for_follower(fetcher, cached, limit, at_least_one_batch=least)
            else:
                found = _read(partition, cached, max_bytes, fetcher, request, context, not answers.size_bytes)
        except KafkaError as error:
            answers.fail((cached, answer), error)
            fail(answer, error, cached, context)
            continue
        answers.partitions.append((cached, answer))
        _watch(partition, cached, found, answers, follows, context)
        if changes is not None:
            _looked_at(changes, partition, cached, found, context, follows)
        fill(answer, found)
        answers.size_bytes += len(found.records)
        budget -= len(found.records)
    answers.partitions += answers.unread
    return answers


def _looked_at(
    changes: ChangedPartitions,
    partition: Partition,
    cached: CachedPartition,
    found: FetchResult,
    context: Context,
    follows: bool,
) -> None:
    """Remove a partition that was read from the changed ones, unless its records did not fit into the response.

    A partition whose records were returned to a consumer stays changed until the consumer's offset moves on: the
    consumer may ask again from the same offset.
    """
    key = cached.key
    if follows:
        changes.follow(key, (partition.tail, True), (partition.visible, context.services.fetching.rack_aware))
        if len(found.records) or cached.fetch_offset == partition.log.end_offset:
            changes.keys.pop(key, None)
        return
    changes.follow(key, (partition.visible, True))
    if len(found.records):
        changes.keys.pop(key, None)
        changes.keys[key] = None
    elif cached.fetch_offset == found.high_watermark and found.diverging is None:
        changes.keys.pop(key, None)


def _read(
    partition: Partition,
    cached: CachedPartition,
    max_bytes: int,
    fetcher: Fetcher,
    request: FetchRequest,
    context: Context,
    at_least_one_batch: bool,
) -> FetchResult:
    if fetcher.rack and partition.leader_state is not None:
        brokers, leader_id = context.services.image.brokers, partition.leader_id
        nearer = preferred_replica(
            partition.leader_state, brokers, leader_id=leader_id, rack=fetcher.rack, offset=cached.fetch_offset
        )
        if nearer is not None:
            partition.check_leader(cached.current_leader_epoch)
            return partition.read_nothing(nearer)
    return partition.read(
        cached.fetch_offset,
        max_bytes=max_bytes,
        isolation=request.isolation_level,
        current_leader_epoch=cached.current_leader_epoch,
        last_fetched_epoch=cached.last_fetched_epoch,
        at_least_one_batch=at_least_one_batch,
        leader_only=fetcher.leader_only,
    )


def _count(answers: Reads, context: Context) -> None:
    """Count the records sent to a follower for the leader's throttle; records read but not sent do not count."""
    now_ms = steady_ms()
    for cached, answer in answers.partitions:
        partition = TopicPartition(cached.topic, cached.partition)
        context.services.fetching.leader_throttle.record(partition, len(answer.records or b""), now_ms)


def count_sent(answers: Reads, context: Context, times: int, follows: bool = False) -> None:
    """Count the records that `times` equal requests are sent, for the metrics."""
    traffic = context.services.partitions.traffic
    for cached, answer in answers.partitions:
        counts = traffic.get(cached.topic)
        if counts is None:
            continue
        size_bytes = len(answer.records or b"") * times
        counts.reads += times
        if follows:
            counts.followed_bytes_out += size_bytes
        else:
            counts.bytes_out += size_bytes
        if answer.error_code:
            counts.failed_reads += times


def _is_throttled(partition: Partition, node_id: int, throttle: Throttle) -> bool:
    """Whether a follower is throttled; replicas in the ISR never are, since producers would wait for them."""
    in_sync = partition.leader_state is not None and node_id in partition.leader_state.isr
    return not in_sync and throttle.covers(partition.topic_partition)


def _watch(
    partition: Partition,
    cached: CachedPartition,
    found: FetchResult,
    answers: Reads,
    follows: bool,
    context: Context,
) -> None:
    """Register the growth of a partition that the fetch waits for, and find out whether the fetch must not wait.

    A follower that serves consumers of its rack is sent an advanced high watermark at once. Other followers receive the
    high watermark with the next records, or when their wait ends, as in Kafka (KAFKA-9731).
    """
    answers.urgent |= found.diverging is not None or found.preferred_replica >= 0
    if not follows:
        answers.watch(partition.visible)
        return
    answers.watch(partition.tail)
    if context.services.fetching.rack_aware:
        answers.watch(partition.visible)
        answers.urgent |= cached.answered and found.high_watermark > cached.high_watermark


def _find(cached: CachedPartition, context: Context, fetcher: Fetcher) -> Partition:
    partitions = context.services.partitions
    if not cached.by_id:
        check_readable(cached.topic, fetcher)
        return partitions.find(cached.topic, cached.partition)
    if not cached.topic:
        if fetcher.replica_id >= 0:
            check_readable(cached.topic, fetcher)
        known = context.services.image.topics_by_id.get(cached.topic_id)
        if known is None:
            raise UnknownTopicIdError("This server does not host this topic ID.")
        cached.topic = known.name
    check_readable(cached.topic, fetcher)
    partition = partitions.find(cached.topic, cached.partition)
    if partition.topic_id != cached.topic_id:
        partitions.check_id(cached.topic, cached.topic_id)
    return partition


def _answer_changes(
    session: Session, answers: Reads, response: FetchResponse, by_id: bool
) -> Generator[None, None, None]:
    """Fill an incremental response, with only the partitions that have records, errors or changed offsets (KIP-227)."""
    moved: list[tuple[CachedPartition, PartitionData]] = []
    for number, (cached, answer) in enumerate(answers.partitions, 1):
        if number % AT_ONCE == 0:
            yield
        if changed(cached, answer):
            moved.append((cached, answer))
            moves = answer.error_code == ErrorCode.NONE and len(answer.records or b"")
            if moves and cached.key in session.partitions:
                session.partitions.move_to_end(cached.key)
        remember(cached, answer)
    response.session_id = session.id
    response.responses = yield from by_topic(moved, by_id)
