"""Detects that the log was truncated below a consumer's position, by an unclean leader election (KIP-320).

After an election the new leader is asked for the end offset of the leader epoch of the last batch fetched. If that end
offset is before the offset of the next fetch, the records after it are gone, and others take their offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.consumer.fetch_state import Fetcher
from minikafka.client.consumer.partition_state import PartitionState
from minikafka.client.escaped_log import escaped
from minikafka.protocol.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError, error_for
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.protocol.names import TopicPartition

_logger = escaped(logging.getLogger("minikafka.client.consumer"))
_CONSUMER = -1
_FIRST_VERSION_FOR_CONSUMERS = 3


class LogTruncationError(OffsetOutOfRangeError):
    """The log was truncated below a position, and `auto_offset_reset` is "none": some records consumed are gone.

    Attributes:
        partition: the truncated partition.
        offset: the consumer's position.
        diverging_offset: the offset from which on the log differs now; -1 if the leader does not know.
    """

    def __init__(self, partition: TopicPartition, offset: int, diverging_offset: int) -> None:
        self.partition = partition
        self.offset = offset
        self.diverging_offset = diverging_offset
        super().__init__(
            f"{partition} was truncated: offset {offset} is the position, and the log differs from offset"
            f" {diverging_offset} on; seek to an offset, or set auto_offset_reset"
        )


class _Question(NamedTuple):
    """A question to a leader: the end offset of the leader epoch of the batch before a position."""

    state: PartitionState
    era: int
    fetch_epoch: int
    leader_epoch: int

    @property
    def is_open(self) -> bool:
        """Whether the answer is still about the position: a fetch that was on its way may have moved it into a later
        epoch, or a later leader may have confirmed it (Kafka's `SubscriptionState.maybeCompleteValidation`)."""
        asked_about = self.state.era == self.era and self.state.fetch_epoch == self.fetch_epoch
        return asked_about and self.state.needs_validation(self.leader_epoch)


async def validate(
    cluster: Cluster, fetcher: Fetcher, leader: int, states: Iterable[PartitionState], reset: str
) -> None:
    """Compare positions with the log of their leader, and reset those that were truncated.

    Args:
        states: the partitions to compare; those that no longer need validation once connected are skipped.
        reset: the option `auto_offset_reset`.

    Raises:
        LogTruncationError: a log was truncated, and `reset` is "none".
        KafkaError: the leader could not be asked, or has not answered for a partition. The other partitions are
            compared; metadata is refreshed.
    """
    connection = await cluster.connection(leader)
    epochs = [(one, cluster.metadata.leader_epoch(*one.tp)) for one in states if _leads(cluster, leader, one)]
    asked = [_Question(one, one.era, one.fetch_epoch, epoch) for one, epoch in epochs if one.needs_validation(epoch)]
    if connection.version_for(OffsetForLeaderEpochRequest) < _FIRST_VERSION_FOR_CONSUMERS:
        for question in asked:
            question.state.validated_epoch = question.leader_epoch
    elif asked:
        response = await connection.request(_request(asked), timeout_ms=cluster.request_timeout_ms)
        found = {(topic.topic, one.partition): one for topic in response.topics for one in topic.partitions}
        answers = [(question, found.get(question.state.tp)) for question in asked]
        for question, one in answers:
            if one is not None and not one.error_code and question.is_open:
                apply(fetcher, question.state, question.leader_epoch, one, reset)
        for question, one in answers:
            _check(cluster, question.state.tp, one)


def _leads(cluster: Cluster, leader: int, state: PartitionState) -> bool:
    return cluster.metadata.leader(*state.tp) == leader


def _check(cluster: Cluster, tp: TopicPartition, found: EpochEndOffset | None) -> None:
    """Raise the KafkaError of an answer, or of a missing answer; the caller then asks again after a pause."""
    if found is None or found.error_code:
        cluster.refresh_soon()
    if found is None:
        raise UnknownTopicOrPartitionError(f"the OffsetForLeaderEpoch response lacks {tp}")
    if found.error_code:
        raise error_for(found.error_code, f"{tp}: {error_for(found.error_code)}")


def _request(asked: list[_Question]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for state, _, fetch_epoch, leader_epoch in asked:
        topic = topics.setdefault(state.tp.topic, OffsetForLeaderTopic(topic=state.tp.topic, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=state.tp.partition, current_leader_epoch=leader_epoch, leader_epoch=fetch_epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))


def apply(fetcher: Fetcher, state: PartitionState, leader_epoch: int, found: EpochEndOffset, reset: str) -> None:
    """Compare a position with a leader's answer, and seek if the log was truncated. Raises LogTruncationError.

    Buffered records that were not yet returned are fetched again if some of them are gone.
    """
    state.validated_epoch = leader_epoch
    known = found.leader_epoch >= 0 and found.end_offset >= 0
    if state.fetch_offset is None or (known and found.end_offset >= state.fetch_offset):
        return
    position = fetcher.positions().get(state.tp, state.fetch_offset)
    if known and found.end_offset >= position:
        fetcher.seek(state.tp, position, epoch=state.epoch_before(position))
        state.validated_epoch = leader_epoch
    elif reset == "none":
        fetcher.seek(state.tp, None, "none")
        raise LogTruncationError(state.tp, position, found.end_offset)
    else:
        _logger.warning(
            "log truncated below the position: %s, position %d, the log differs from offset %d on",
            state.tp, position, found.end_offset,
        )  # fmt: skip
        fetcher.seek(state.tp, found.end_offset if known else None, None if known else reset)
