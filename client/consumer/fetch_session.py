"""`FetchSession`: a fetch session with one broker, in which requests name only changed partitions (KIP-227). Pure.

    no session ──full request──► session, epoch 1 ──incremental request──► epoch 2 …
         ▲                            │
         └── session error, lost connection, response without a session id

The broker remembers the partitions of the session with their fetch offsets. A request contains the partitions that are
new or have another offset, and those that are no longer fetched. A response omits partitions without news. If a
response is lost, the client does not know what the broker remembers, so the next request is full and closes the
session.

A broker may refuse a session (`max.incremental.fetch.session.cache.slots`); then every request is full. A few
partitions are fetched without a session, as a full request is hardly longer than an incremental one.

Source: Kafka's `FetchSessionHandler`, which requests a session for any number of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from minikafka.client.consumer.partition_state import PartitionState
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.types import NIL_UUID

NO_SESSION = 0
FULL, FINAL = 0, -1
"""Epochs of requests: `FULL` opens a session; `FINAL` closes one, or is a request without a session."""
EPOCH_MAX = (1 << 31) - 1
WITHOUT_SESSION_MAX = 10
"""Up to this number of partitions, no session is opened."""
SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)

TopicIds = Callable[[str], bytes]
"""A function that returns a topic's id by its name."""


class _Sent(NamedTuple):
    """The last request's data about a partition; `topic_id` is nil if requests use names."""

    topic_id: bytes
    fetch_offset: int
    leader_epoch: int


class FetchSession:
    """The session with one broker.

    Args:
        without_session_max: the number of partitions up to which no session is opened.
        partition_max_bytes: the maximum size of the records of each partition in a response.

    Attributes:
        id: the session id that the broker has chosen; `NO_SESSION` if there is none.
        epoch: the epoch of the next request.
    """

    def __init__(self, partition_max_bytes: int, without_session_max: int = WITHOUT_SESSION_MAX) -> None:
        self.id = NO_SESSION
        self.epoch = FULL
        self._by_id = False
        self._sent: dict[TopicPartition, _Sent] = {}
        self._partition_max_bytes = partition_max_bytes
        self._without_session_max = without_session_max

    def __len__(self) -> int:
        return len(self._sent)

    def fill(
        self, request: FetchRequest, partitions: Sequence[tuple[PartitionState, int]], topic_ids: TopicIds | None
    ) -> None:
        """Complete a request for these partitions, each with the leader epoch; `topic_ids` is None for names."""
        by_id = topic_ids is not None
        wanted = {
            state.tp: _Sent(topic_ids(state.tp.topic) if topic_ids else NIL_UUID, state.fetch_offset or 0, epoch)
            for state, epoch in partitions
        }
        if by_id != self._by_id:
            self.epoch = FULL
        before, self._by_id = ({} if self.epoch == FULL else self._sent), by_id
        gone = {tp: one for tp, one in before.items() if tp not in wanted or wanted[tp].topic_id != one.topic_id}
        changed = [(tp, one) for tp, one in wanted.items() if before.get(tp) != one] if before else wanted.items()
        request.topics = self._topics(changed)
        request.forgotten_topics_data = self._forgotten(gone)
        request.session_id, request.session_epoch = self.id, self.epoch
        if self.epoch == FULL and len(wanted) <= self._without_session_max:
            request.session_epoch = FINAL
        self._sent = wanted

    def _topics(self, changed: Iterable[tuple[TopicPartition, _Sent]]) -> list[FetchTopic]:
        topics: dict[str, FetchTopic] = {}
        for tp, one in changed:
            topic = topics.get(tp.topic)
            if topic is None:
                name = "" if self._by_id else tp.topic
                topic = topics[tp.topic] = FetchTopic(topic=name, topic_id=one.topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=tp.partition,
                    current_leader_epoch=one.leader_epoch,
                    fetch_offset=one.fetch_offset,
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        return list(topics.values())

    def _forgotten(self, gone: dict[TopicPartition, _Sent]) -> list[ForgottenTopic]:
        topics: dict[tuple[str, bytes], ForgottenTopic] = {}
        for tp, one in gone.items():
            key = ("" if self._by_id else tp.topic, one.topic_id)
            if key not in topics:
                topics[key] = ForgottenTopic(topic=key[0], topic_id=key[1], partitions=[])
            topics[key].partitions.append(tp.partition)
        return list(topics.values())

    def names(self) -> dict[bytes, str]:
        """The names of the last request's topics, by topic id."""
        return {one.topic_id: tp.topic for tp, one in self._sent.items()}

    def answered(self, response: Any) -> None:
        """Apply a response without an error. A full one that lacks partitions, as under a quota, begins no session."""
        full = self.epoch == FULL
        if full:
            self.id = response.session_id
        lacks_some = full and sum(len(topic.partitions) for topic in response.responses) < len(self._sent)
        if response.session_id == NO_SESSION or lacks_some:
            self.reset(keep_id=response.session_id != NO_SESSION)
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def refused(self, error_code: int) -> bool:
        """Apply a response with an error; return whether a full request should be sent at once."""
        was_incremental = self.epoch != FULL
        self.reset(keep_id=error_code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return was_incremental and error_code in SESSION_ERRORS

    def reset(self, *, keep_id: bool = True) -> None:
        """Make the next request full, after a lost response. With `keep_id`, that request closes the old session."""
        self.epoch = FULL
        if not keep_id:
            self.id = NO_SESSION

    def closing(self) -> FetchRequest | None:
        """The request that closes the session; None if there is no session."""
        if self.id == NO_SESSION:
            return None
        request = FetchRequest(session_id=self.id, session_epoch=FINAL)
        self.reset(keep_id=False)
        return request
