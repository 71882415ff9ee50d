"""`RecordingConsumer`: a consumer whose polls, positions and commits are in the history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chaos.history import CommitOffsets, Event, Outcome, Poll, Position
from chaos.workload.process import ClientProcess
from chaos.workload.values import read_of
from minikafka.client import Consumer, ConsumerRecord
from minikafka.protocol.errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    KafkaError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from minikafka.protocol.names import TopicPartition

REJECTED = (IllegalGenerationError, UnknownMemberIdError, RebalanceInProgressError, FencedInstanceIdError)
"""With these errors a coordinator rejects a whole commit, before it appends anything."""
POLL_MS = 300
POLLS_MORE = 8
"""Polls that follow one with records, without a pause: they cost no request."""
POLL_LIMITS = (None, 1, 1, 1, 2, 3)
"""Limits of the records of a poll."""


class RecordingConsumer:
    """A consumer in the history.

    Args:
        topics: The name in the history of topics that have another one there.

    Attributes:
        trusted: Whether records are of the topics that the history means. If not, they are not recorded.
        uncertain: What was committed last of the partitions of a commit without a response, which the coordinator may
            receive after later ones (as in Kafka): it must be committed again, or the group may lag for ever.
    """

    def __init__(
        self, process: ClientProcess, program: str, topics: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        self.process = process
        self.program = program
        self.name = process.client_name()
        self.consumer: Consumer = process.consumer(**options)
        self.trusted: Callable[[], bool] = lambda: True
        self.uncertain: dict[TopicPartition, int] = {}
        self._topics = topics or {}
        self._read_committed = options.get("isolation_level") == "read_committed"
        self._group = options.get("group_id")

    def partition(self, tp: TopicPartition) -> TopicPartition:
        """A partition as it is named in the history."""
        return TopicPartition(self._topics.get(tp.topic, tp.topic), tp.partition)

    async def poll(self, timeout_ms: float = POLL_MS, max_records: int | None = None) -> list[ConsumerRecord]:
        """Poll and record it. A poll that raises has returned no records, and passes over none.

        Raises KafkaError.
        """
        invocation = self.process.invoke(self.name, Poll(read_committed=self._read_committed))
        try:
            records = await self.consumer.poll(timeout_ms, max_records)
        except KafkaError as error:
            self.process.complete(invocation, Outcome.OK, error=error)
            self.process.count(self.program, "poll", error)
            raise
        named = self._topics
        reads = tuple(read_of(record, named.get(record.topic)) for record in records) if self.trusted() else ()
        self.process.complete(invocation, Outcome.OK, Poll(reads, self._read_committed))
        self.process.count(self.program, "poll with records" if records else "poll")
        return records

    def moved(self, positions: Mapping[TopicPartition, int | None], cause: str) -> None:
        """Record that the positions have changed, before the next poll."""
        if positions:
            named = tuple((self.partition(tp), offset) for tp, offset in positions.items())
            self.process.note(self.name, Position(named, cause))
            self.process.count(self.program, cause)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Seek to an offset."""
        self.moved({tp: offset}, "seek")
        self.consumer.seek(tp, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Seek to the log start offset of partitions."""
        self.moved(dict.fromkeys(partitions, None), "seek to the beginning")
        self.consumer.seek_to_beginning(*partitions)

    def reset(self) -> None:
        """Seek to the beginning of all partitions, after an offset was out of range."""
        self.moved(dict.fromkeys(self.consumer.assignment(), None), "reset")
        if self.consumer.assignment():
            self.consumer.seek_to_beginning()

    def record_commits(self) -> None:
        """Record every attempt to commit from now on, also automatic ones. The consumer must be open."""
        commits = self.consumer._open_subscriptions()._commits
        send = commits._send

        async def attempt(commit: Any) -> dict[TopicPartition, KafkaError]:
            reached = {tp: one.offset for tp, one in commit.waiting.items()}
            positions = tuple((self.partition(tp), offset) for tp, offset in reached.items())
            assert self._group is not None
            invocation = self.process.invoke(self.name, CommitOffsets(self._group, positions))
            try:
                errors = await send(commit)
            except KafkaError as error:
                self._commit_failed(invocation, dict.fromkeys(reached, error), reached)
                raise
            if errors:
                self._commit_failed(invocation, errors, reached)
                return errors
            self.uncertain |= {tp: offset for tp, offset in reached.items() if tp in self.uncertain}
            self.process.complete(invocation, Outcome.OK)
            self.process.count(self.program, "commit")
            return errors

        commits._send = attempt  # type: ignore[method-assign]

    def _commit_failed(
        self,
        invocation: Event | None,
        errors: Mapping[TopicPartition, KafkaError],
        reached: Mapping[TopicPartition, int],
    ) -> None:
        """What is known of an attempt of which some partitions failed: nothing of any, unless all were rejected."""
        uncertain = {tp: reached[tp] for tp, error in errors.items() if not isinstance(error, REJECTED)}
        self.uncertain |= uncertain
        outcome = Outcome.FAIL if len(errors) == len(reached) and not uncertain else Outcome.UNKNOWN
        error = next(iter(errors.values()))
        self.process.complete(invocation, outcome, error=error)
        self.process.count(self.program, "commit", error)


async def poll_or_reset(it: RecordingConsumer, **arguments: Any) -> list[ConsumerRecord]:
    """Poll; if records were deleted before they were read, start again at the log start. Raises other KafkaErrors."""
    try:
        return await it.poll(**arguments)
    except OffsetOutOfRangeError:
        it.reset()
        return []


def next_offsets(records: Iterable[ConsumerRecord]) -> dict[TopicPartition, int]:
    """The offsets to commit after these records."""
    return {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
