"""What a follower asks of one leader, and what it does with the answers. No socket, no clock: both are handed in.

    ready ──asked──► answered: appended, cut, or trouble ──► ready again, at once or after a pause of its own

All partitions that one leader leads are asked for together, in a fetch session (KIP-227): after the first request only
what has changed is named. Every partition fails for itself: a corrupt batch, an unknown epoch or a full disk keeps no
other one waiting (KAFKA-5211).

Source: Kafka's `AbstractFetcherThread`, `ReplicaFetcherThread`, `FetchSessionHandler`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import structlog

from minikafka.broker.partitions.partition import Partition
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

log = structlog.get_logger("minikafka.replication")

FIRST_PAUSE_MS = 20
"""The usual trouble is that follower and leader hear of an election one after the other: soon both have."""
NO_SESSION, FULL, EPOCH_MAX = 0, 0, 2**31 - 1
SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
EXPECTED = (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Errors that elections bring with them: no news for anybody."""

Key = tuple[bytes, int]


class Question(NamedTuple):
    """What was asked of a partition."""

    fetch_offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(slots=True)
class Copy:
    """A partition that is copied from this leader.

    Attributes:
        key: Topic id and partition number.
        leader_epoch: In which this node follows.
        asked: The last question; None if the session does not have it.
        behind: Whether it lacks records that are committed, as far as is known.
        ready_ms: Not to be asked for before, on a steady clock.
        pause_ms: The next pause.
    """

    key: Key
    partition: Partition
    leader_epoch: int
    asked: Question | None = None
    behind: bool = True
    ready_ms: int = 0
    pause_ms: int = FIRST_PAUSE_MS

    def question(self) -> Question:
        """What to ask next: from the end of the log, naming the epoch of its last record (KIP-595)."""
        kept = self.partition.log
        latest = kept.epochs.latest
        return Question(
            kept.end_offset, self.leader_epoch, -1 if latest is None else latest, kept.start_offset
        )


@dataclass(slots=True)
class Settings:
    """`replica.fetch.*`: bytes and milliseconds."""

    node_id: int
    max_bytes: int = setting_field(NODE_SETTINGS["replica.fetch.max.bytes"])
    response_max_bytes: int = setting_field(NODE_SETTINGS["replica.fetch.response.max.bytes"])
    min_bytes: int = setting_field(NODE_SETTINGS["replica.fetch.min.bytes"])
    wait_max_ms: int = setting_field(NODE_SETTINGS["replica.fetch.wait.max.ms"])
    backoff_ms: int = setting_field(NODE_SETTINGS["replica.fetch.backoff.ms"])


@dataclass(slots=True)
class Outcome:
    """What an answer leaves to be done: partitions to be synced, and those whose offset the leader does not have."""

    flush: list[Partition] = field(default_factory=lambda: [])
    out_of_range: list[Copy] = field(default_factory=lambda: [])
    progress: bool = False


class Copying:
    """The standing question of one follower to one leader.

    Args:
        settings: How much, and how long.
        throttle: Of the node, for what is copied from all leaders.

    Attributes:
        copies: By topic id and partition.
    """

    def __init__(self, settings: Settings, throttle: Throttle = UNLIMITED) -> None:
        self.copies: dict[Key, Copy] = {}
        self._settings = settings
        self._throttle = throttle
        self._session_id = NO_SESSION
        self._session_epoch = FULL
        self._asked: dict[Key, Question] = {}
        self._changed: dict[Key, None] = {}
        self._paused: dict[Key, Copy] = {}
        self._forgotten: dict[Key, None] = {}

    def add(self, partition: Partition) -> None:
        """Copy this partition from now on, in its present leader epoch."""
        key = (partition.topic_id, partition.topic_partition.partition)
        known = self.copies.get(key)
        asked = None if known is None else known.asked  # the session has it already
        self.copies[key] = Copy(key, partition, partition.leader_epoch, asked)
        self._changed[key] = None
        self._paused.pop(key, None)
        self._forgotten.pop(key, None)

    def remove(self, partition: Partition) -> None:
        """No longer; what is under way for it will be dropped."""
        copy = self.copies.pop((partition.topic_id, partition.topic_partition.partition), None)
        if copy is not None:
            self._paused.pop(copy.key, None)
            self._forget(copy)

    def _forget(self, copy: Copy) -> None:
        self._asked.pop(copy.key, None)
        if copy.asked is not None:
            copy.asked = None
            self._forgotten[copy.key] = None

    def due_ms(self, now_ms: int) -> int | None:
        """How long until there is something to ask for: 0 for at once, None for nothing at all."""
        if not self.copies:
            return None
        self._resume(now_ms)
        self._hold_back(now_ms)
        if len(self._paused) < len(self.copies):
            return 0
        return max(0, min(copy.ready_ms for copy in self._paused.values()) - now_ms)

    def request(self, now_ms: int, broker_epoch: int) -> FetchRequest:
        """The next request: everything in a new session, else what has changed."""
        settings = self._settings
        if self._session_epoch == FULL:
            self._forgotten.clear()
            self._asked.clear()
            for every in self.copies.values():
                every.asked = None
            self._changed = dict.fromkeys(self.copies)
        self._resume(now_ms)
        self._hold_back(now_ms)
        next_ms = min((copy.ready_ms for copy in self._paused.values()), default=now_ms + settings.wait_max_ms)
        asked: list[tuple[Key, Question]] = []
        for key in self._changed:
            copy = self.copies.get(key)
            if copy is None or key in self._paused:
                continue
            question = self._asked[key] = copy.question()
            if question != copy.asked:
                copy.asked = question
                asked.append((key, question))
                self._forgotten.pop(key, None)
        self._changed.clear()
        forgotten, self._forgotten = self._forgotten, {}
        return FetchRequest(
            replica_state=ReplicaState(replica_id=settings.node_id, replica_epoch=broker_epoch),
            max_wait_ms=min(settings.wait_max_ms, next_ms - now_ms),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(_topics(asked, settings.max_bytes)),
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=[index for _, index in keys])
                for topic_id, keys in groupby(forgotten, lambda key: key[0])
            ],
        )

    def _resume(self, now_ms: int) -> None:
        """Ask again for those whose pause is over."""
        for copy in [copy for copy in self._paused.values() if copy.ready_ms <= now_ms]:
            del self._paused[copy.key]
            self._changed[copy.key] = None

    def _hold_back(self, now_ms: int) -> None:
        """While more is copied than may be, throttled partitions that are behind wait."""
        wait_ms = self._throttle.wait_ms(now_ms)
        if not wait_ms:
            return
        for copy in self.copies.values():
            throttled = copy.behind and self._throttle.covers(copy.partition.topic_partition)
            if throttled and copy.key not in self._paused:
                self._pause(copy, now_ms + wait_ms)

    def disconnected(self) -> None:
        """The connection is gone, and what was asked over it; the leader closes the old session for the new one."""
        self._session_epoch = FULL

    def answered(self, response: FetchResponse, now_ms: int) -> Outcome:
        """Carry out what the leader answered to the last request.

        Raises:
            KafkaError: The answer is to the request as a whole; the next one begins a new session.
        """
        if response.error_code:
            self._session_epoch = FULL
            if response.error_code not in SESSION_ERRORS:
                raise error_for(response.error_code, "the leader refused a fetch")
            self._session_id = NO_SESSION
            return Outcome(progress=True)
        if self._session_epoch == FULL:
            self._session_id = response.session_id
        if self._session_id != NO_SESSION:
            self._session_epoch = 1 if self._session_epoch == EPOCH_MAX else self._session_epoch + 1
        outcome = Outcome()
        for topic in response.responses:
            for answer in topic.partitions:
                key = (topic.topic_id, answer.partition_index)
                copy, asked = self.copies.get(key), self._asked.get(key)
                self._changed[key] = None
                if copy is not None and asked is not None and asked.leader_epoch == copy.leader_epoch:
                    self._take(copy, asked, answer, outcome, now_ms)
        return outcome

    def _take(self, copy: Copy, asked: Question, answer: PartitionData, outcome: Outcome, now_ms: int) -> None:
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            outcome.out_of_range.append(copy)
            return
        if answer.error_code:
            self.pause(copy, now_ms, error_for(answer.error_code, ""))
            return
        if asked.fetch_offset != copy.partition.log.end_offset:
            return
        try:
            self._carry_out(copy, answer, outcome, now_ms)
        except (KafkaError, CorruptRecords) as error:
            self.pause(copy, now_ms, error)
        else:
            copy.pause_ms = FIRST_PAUSE_MS
            outcome.progress = True

    def _carry_out(self, copy: Copy, answer: PartitionData, outcome: Outcome, now_ms: int) -> None:
        """A diverging epoch comes first: until the log is cut, the leader's high watermark means nothing for it
        (KAFKA-14704)."""
        partition, diverging = copy.partition, answer.diverging_epoch
        if diverging.epoch >= 0 or diverging.end_offset >= 0:
            before = partition.log.end_offset
            partition.truncate(diverging.epoch, diverging.end_offset, leader_epoch=copy.leader_epoch)
            (log.info if partition.log.end_offset < before else log.debug)(
                "a log was cut where its leader's parted",
                partition=str(partition),
                epoch=diverging.epoch,
                end_offset=before,
                cut_to=partition.log.end_offset,
            )
            return
        records = answer.records or memoryview(b"")
        self._throttle.record(partition.topic_partition, len(records), now_ms)
        flush_due = partition.append_fetched(
            records,
            leader_epoch=copy.leader_epoch,
            high_watermark=answer.high_watermark,
            log_start_offset=answer.log_start_offset,
        )
        copy.behind = answer.high_watermark > partition.log.end_offset
        if flush_due:
            outcome.flush.append(partition)

    def pause(self, copy: Copy, now_ms: int, error: Exception) -> None:
        """Ask for it again later, a little later each time. A log that is offline stays so until the node restarts."""
        if isinstance(error, KafkaStorageError) and copy.partition.log.failure is not None:
            self.remove(copy.partition)
            log.error("a partition is no longer copied", partition=str(copy.partition), reason=str(error))
            return
        expected = isinstance(error, KafkaError) and error.code in EXPECTED
        (log.debug if expected else log.warning)(
            "a partition could not be copied",
            partition=str(copy.partition),
            leader_epoch=copy.leader_epoch,
            reason=f"{type(error).__name__}: {error}",
        )
        self._pause(copy, now_ms + copy.pause_ms)
        copy.pause_ms = min(copy.pause_ms * 2, max(self._settings.backoff_ms, FIRST_PAUSE_MS))

    def _pause(self, copy: Copy, ready_ms: int) -> None:
        self._forget(copy)
        self._paused[copy.key] = copy
        copy.ready_ms = ready_ms


def _topics(asked: list[tuple[Key, Question]], max_bytes: int) -> Iterator[FetchTopic]:
    for topic_id, questions in groupby(asked, lambda one: one[0][0]):
        yield FetchTopic(
            topic_id=topic_id,
            partitions=[
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=question.leader_epoch,
                    fetch_offset=question.fetch_offset,
                    last_fetched_epoch=question.last_fetched_epoch,
                    log_start_offset=question.log_start_offset,
                    partition_max_bytes=max_bytes,
                )
                for key, question in questions
            ],
        )
