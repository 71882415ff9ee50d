"""`FollowerFetchState`: a follower's fetch session with one leader: requests, appends and truncations, and the
log and delay of partitions that fail. Pure.

    ready ──request──► response: append, truncate, or error ──► ready again, at once or after a backoff

All partitions led by one leader are fetched together in a fetch session (KIP-227): after the first request, only
changed partitions are sent. Each partition fails on its own: a corrupt batch, an unknown epoch or a full disk delays no
other partition (KAFKA-5211).

Source: Kafka's `AbstractFetcherThread`, `ReplicaFetcherThread`, `FetchSessionHandler`.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import structlog

from minikafka.broker.partitions.follower_log import parts
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.replication.fetch_backoff import PartitionBackoff
from minikafka.broker.replication.replication_throttle import UNLIMITED, Throttle
from minikafka.protocol.errors import ErrorCode, KafkaError, KafkaStorageError, error_for
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from minikafka.protocol.records.record import CorruptRecords
from minikafka.protocol.settings.dataclass_fields import setting_field
from minikafka.protocol.settings.registry import NODE_SETTINGS
from minikafka.storage.steps import Pauses

log = structlog.get_logger("minikafka.replication")

NO_SESSION, FULL, EPOCH_MAX = 0, 0, 2**31 - 1
PARTITIONS_MAX, FORGOTTEN_MAX = 40_000, 9_000
"""The most partitions, and forgotten partitions, of a request; the others are in the next requests. A leader refuses a
request of more than 100,000 elements, which includes topics."""
WORK_AT_ONCE = 1000
"""Units of work between two pauses, 5 ms together. A batch is one unit, besides those of the next constants."""
PARTITION_WORK, BYTES_OF_WORK = 10, 4096
"""The units of work for each partition in a response; how many appended bytes are one unit."""
SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
ELECTION_ERRORS = (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Errors that are expected during elections; logged at debug level."""

Key = tuple[bytes, int]


class FetchPosition(NamedTuple):
    """The fields of a Fetch request that describe one partition."""

    fetch_offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(slots=True)
class PartitionFetchState:
    """A partition that is fetched from this leader.

    Attributes:
        key: Topic id and partition number.
        leader_epoch: The leader epoch in which this node follows.
        backoff: Delays after failures.
        sent: The position last sent in this session; None if the session does not have the partition.
        behind: Whether committed records are missing, as far as this node knows.
        lag: How many committed records are missing, as of the last response.
        delayed_until_ms: The partition is not fetched before this time of a steady clock.
    """

    key: Key
    partition: Partition
    leader_epoch: int
    backoff: PartitionBackoff
    sent: FetchPosition | None = None
    behind: bool = True
    lag: int = 0
    delayed_until_ms: int = 0

    def position(self) -> FetchPosition:
        """Return the position to fetch next: the log end offset, with the epoch of the last record (KIP-595)."""
        kept = self.partition.log
        latest = kept.epochs.latest
        return FetchPosition(kept.end_offset, self.leader_epoch, -1 if latest is None else latest, kept.start_offset)


@dataclass(slots=True)
class FetchSettings:
    """The settings `replica.fetch.*` and `replica.socket.timeout.ms`, in bytes and milliseconds."""

    node_id: int
    max_bytes: int = setting_field(NODE_SETTINGS["replica.fetch.max.bytes"])
    response_max_bytes: int = setting_field(NODE_SETTINGS["replica.fetch.response.max.bytes"])
    min_bytes: int = setting_field(NODE_SETTINGS["replica.fetch.min.bytes"])
    wait_max_ms: int = setting_field(NODE_SETTINGS["replica.fetch.wait.max.ms"])
    backoff_ms: int = setting_field(NODE_SETTINGS["replica.fetch.backoff.ms"])
    timeout_ms: int = setting_field(NODE_SETTINGS["replica.socket.timeout.ms"])


@dataclass(slots=True)
class FetchOutcome:
    """The outcome of a response: the partitions whose offset is out of range, and whether any partition succeeded."""

    out_of_range: list[PartitionFetchState] = field(default_factory=lambda: [])
    progress: bool = False


class FollowerFetchState:
    """The fetch session of this follower with one leader.

    Args:
        settings: Sizes and delays.
        throttle: The node's limit for replication from all leaders.

    Attributes:
        partitions: The fetched partitions, by topic id and partition number.
    """

    def __init__(self, settings: FetchSettings, throttle: Throttle = UNLIMITED) -> None:
        self.partitions: dict[Key, PartitionFetchState] = {}
        self._settings = settings
        self._throttle = throttle
        self._session_id = NO_SESSION
        self._session_epoch = FULL
        self._sent: dict[Key, FetchPosition] = {}
        self._changed: dict[Key, None] = {}
        self._delayed: dict[Key, PartitionFetchState] = {}
        self._forgotten: dict[Key, None] = {}

    def add(self, partition: Partition) -> None:
        """Fetch this partition from now on, in its current leader epoch."""
        key = (partition.topic_id, partition.topic_partition.partition)
        known = self.partitions.get(key)
        sent = None if known is None else known.sent  # The session may already have the partition.
        backoff = PartitionBackoff(self._settings.backoff_ms)
        self.partitions[key] = PartitionFetchState(key, partition, partition.leader_epoch, backoff, sent)
        self._changed[key] = None
        self._delayed.pop(key, None)
        self._forgotten.pop(key, None)

    def remove(self, partition: Partition) -> None:
        """Stop fetching this partition; a response that is under way is dropped."""
        state = self.partitions.pop((partition.topic_id, partition.topic_partition.partition), None)
        if state is not None:
            self._delayed.pop(state.key, None)
            self._forget(state)

    def _forget(self, state: PartitionFetchState) -> None:
        self._sent.pop(state.key, None)
        if state.sent is not None:
            state.sent = None
            self._forgotten[state.key] = None

    def due_ms(self, now_ms: int) -> int | None:
        """Milliseconds until a partition can be fetched, 0 for now; None without partitions."""
        if not self.partitions:
            return None
        self._resume(now_ms)
        self._apply_throttle(now_ms)
        if len(self._delayed) < len(self.partitions):
            return 0
        return max(0, min(state.delayed_until_ms for state in self._delayed.values()) - now_ms)

    def unflushed(self, now_ms: int) -> list[PartitionFetchState]:
        """Return the partitions that have to be flushed before a request at `now_ms`, as `flush.messages` requires.

        A flush must come first, since the fetch offset of a request tells the leader which records this replica has.
        """
        self._resume(now_ms)
        keys = self.partitions if self._session_epoch == FULL else self._changed
        found = [self.partitions[key] for key in keys if key in self.partitions and key not in self._delayed]
        return [state for state in found if state.partition.log.flush_due]

    def request(self, now_ms: int, broker_epoch: int) -> FetchRequest:
        """Make the next request: all partitions in a new session, else the changed ones; at most `PARTITIONS_MAX`."""
        settings = self._settings
        if self._session_epoch == FULL:
            self._forgotten.clear()
            self._sent.clear()
            for every in self.partitions.values():
                every.sent = None
            is_whole = len(self.partitions) <= PARTITIONS_MAX  # Else partitions left out before come first.
            self._changed = dict.fromkeys(self.partitions if is_whole else (*self._changed, *self.partitions))
        self._resume(now_ms)
        self._apply_throttle(now_ms)
        next_ms = min(
            (state.delayed_until_ms for state in self._delayed.values()), default=now_ms + settings.wait_max_ms
        )
        changed: list[tuple[Key, FetchPosition]] = []
        due, self._changed = _first(self._changed, PARTITIONS_MAX)
        for key in due:
            state = self.partitions.get(key)
            if state is None or key in self._delayed:
                continue
            position = self._sent[key] = state.position()
            if position != state.sent:
                state.sent = position
                changed.append((key, position))
                self._forgotten.pop(key, None)
        forgotten, self._forgotten = _first(self._forgotten, FORGOTTEN_MAX)
        return FetchRequest(
            replica_state=ReplicaState(replica_id=settings.node_id, replica_epoch=broker_epoch),
            max_wait_ms=0 if self._changed else min(settings.wait_max_ms, next_ms - now_ms),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(_topics(changed, settings.max_bytes)),
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=[index for _, index in keys])
                for topic_id, keys in groupby(forgotten, lambda key: key[0])
            ],
        )

    def _resume(self, now_ms: int) -> None:
        """Let partitions whose delay is over be fetched again."""
        for state in [state for state in self._delayed.values() if state.delayed_until_ms <= now_ms]:
            del self._delayed[state.key]
            self._changed[state.key] = None

    def _apply_throttle(self, now_ms: int) -> None:
        """Delay throttled partitions that are behind while the rate is above the limit."""
        wait_ms = self._throttle.wait_ms(now_ms)
        if not wait_ms:
            return
        for state in self.partitions.values():
            throttled = state.behind and self._throttle.covers(state.partition.topic_partition)
            if throttled and state.key not in self._delayed:
                self._delay(state, now_ms + wait_ms)

    def disconnected(self) -> None:
        """Begin a new session after the connection was lost. The next request has the leader drop the old session."""
        self._session_epoch = FULL

    def handle_response(self, response: FetchResponse, now_ms: int) -> Generator[None, None, FetchOutcome]:
        """Process the leader's response to the last request.

        At each `yield` other tasks may run, and change which partitions are fetched or their logs. Records that no
        longer fit are dropped, and fetched again.

        Raises:
            KafkaError: The request failed as a whole; the next request begins a new session.
        """
        if response.error_code:
            self._session_epoch = FULL
            if response.error_code not in SESSION_ERRORS:
                raise error_for(response.error_code, "fetch from the leader failed")
            self._session_id = NO_SESSION
            return FetchOutcome(progress=True)
        if self._session_epoch == FULL:
            self._session_id = response.session_id
        if self._session_id != NO_SESSION:
            self._session_epoch = 1 if self._session_epoch == EPOCH_MAX else self._session_epoch + 1
        outcome, pauses = FetchOutcome(), Pauses(WORK_AT_ONCE)
        for topic in response.responses:
            for answer in topic.partitions:
                key = (topic.topic_id, answer.partition_index)
                state, sent = self.partitions.get(key), self._sent.get(key)
                self._changed[key] = None
                if state is not None and sent is not None and sent.leader_epoch == state.leader_epoch:
                    yield from self._process(state, sent, answer, outcome, now_ms, pauses)
                if pauses.is_due(items=PARTITION_WORK):
                    yield
        return outcome

    def _process(
        self,
        state: PartitionFetchState,
        sent: FetchPosition,
        answer: PartitionData,
        outcome: FetchOutcome,
        now_ms: int,
        pauses: Pauses,
    ) -> Generator[None, None, None]:
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            outcome.out_of_range.append(state)
            return
        if answer.error_code:
            self.delay(state, now_ms, error_for(answer.error_code, ""))
            return
        if sent.fetch_offset != state.partition.log.end_offset:
            return
        try:
            yield from self._apply(state, answer, now_ms, pauses)
        except (KafkaError, CorruptRecords) as error:
            self.delay(state, now_ms, error)
        else:
            state.backoff.reset()
            outcome.progress = True

    def _apply(
        self, state: PartitionFetchState, answer: PartitionData, now_ms: int, pauses: Pauses
    ) -> Generator[None, None, None]:
        """Append the records of a response, or truncate a diverging log, to which the leader's high watermark does not
        apply (KAFKA-14704)."""
        partition, diverging = state.partition, answer.diverging_epoch
        if diverging.epoch >= 0 or diverging.end_offset >= 0:
            before = partition.log.end_offset
            partition.truncate(diverging.epoch, diverging.end_offset, leader_epoch=state.leader_epoch)
            (log.info if partition.log.end_offset < before else log.debug)(
                "log truncated: diverged from the leader",
                partition=str(partition),
                diverging_epoch=diverging.epoch,
                end_offset=before,
                truncated_to=partition.log.end_offset,
            )
            return
        records = answer.records or memoryview(b"")
        self._throttle.record(partition.topic_partition, len(records), now_ms)
        yield from self._append(state, answer, records, pauses)
        state.lag = max(0, answer.high_watermark - partition.log.end_offset)
        state.behind = state.lag > 0

    def _append(
        self, state: PartitionFetchState, answer: PartitionData, records: memoryview, pauses: Pauses
    ) -> Generator[None, None, None]:
        """Append the records in parts. If another task changes the log or its role meanwhile, drop the rest."""
        partition, end_offset = state.partition, state.partition.log.end_offset
        for part, count in parts(records):
            if self.partitions.get(state.key) is not state or partition.log.end_offset != end_offset:
                return
            appended_bytes = partition.append_fetched(
                part,
                leader_epoch=state.leader_epoch,
                high_watermark=answer.high_watermark,
                log_start_offset=answer.log_start_offset,
            )
            if appended_bytes < len(part):
                return
            end_offset = partition.log.end_offset
            if pauses.is_due(items=count + len(part) // BYTES_OF_WORK):
                yield

    def delay(self, state: PartitionFetchState, now_ms: int, error: Exception) -> None:
        """Fetch a failed partition again after its backoff; if its log is offline, do not fetch it until a restart."""
        if isinstance(error, KafkaStorageError) and state.partition.log.failure is not None:
            self.remove(state.partition)
            log.error("replica fetch stopped: log offline", partition=str(state.partition), error=str(error))
            return
        expected = isinstance(error, KafkaError) and error.code in ELECTION_ERRORS
        (log.debug if expected else log.warning)(
            "replica fetch failed",
            partition=str(state.partition),
            leader_epoch=state.leader_epoch,
            error=f"{type(error).__name__}: {error}",
        )
        self._delay(state, now_ms + state.backoff.next_delay_ms())

    def _delay(self, state: PartitionFetchState, until_ms: int) -> None:
        self._forget(state)
        self._delayed[state.key] = state
        state.delayed_until_ms = until_ms


def _first(keys: dict[Key, None], most: int) -> tuple[dict[Key, None], dict[Key, None]]:
    """Split the keys into the first `most`, and the others."""
    if len(keys) <= most:
        return keys, {}
    names = list(keys)
    return dict.fromkeys(names[:most]), dict.fromkeys(names[most:])


def _topics(changed: list[tuple[Key, FetchPosition]], max_bytes: int) -> Iterator[FetchTopic]:
    for topic_id, positions in groupby(changed, lambda one: one[0][0]):
        yield FetchTopic(
            topic_id=topic_id,
            partitions=[
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=max_bytes,
                )
                for key, position in positions
            ],
        )
