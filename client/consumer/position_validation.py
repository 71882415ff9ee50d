"""Detects that the log was truncated below a consumer's position, by an unclean leader election (KIP-320).

After an election the new leader is asked where its log ends for the leader epoch of the last batch fetched. If that is
before the offset of the next fetch, the records after it are gone, and others take their offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.consumer.fetch_state import Fetcher
from minikafka.client.consumer.partition_state import PartitionState
from minikafka.protocol.errors import OffsetOutOfRangeError, error_for
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.protocol.names import TopicPartition

_logger = logging.getLogger("minikafka.client.consumer")
_CONSUMER = -1
_FIRST_VERSION_FOR_CONSUMERS = 3


class LogTruncationError(OffsetOutOfRangeError):
    """The log was truncated below a position, and `auto_offset_reset` is "none": some records consumed are gone.

    Attributes:
        partition: of the position.
        offset: the position.
        diverging_offset: where the log is another one now; -1 if the leader does not know.
    """

    def __init__(self, partition: TopicPartition, offset: int, diverging_offset: int) -> None:
        self.partition = partition
        self.offset = offset
        self.diverging_offset = diverging_offset
        super().__init__(
            f"{partition} was truncated: offset {offset} is the position, and the log differs from offset"
            f" {diverging_offset} on; seek to an offset, or set auto_offset_reset"
        )


async def validate(cluster: Cluster, fetcher: Fetcher, states: Iterable[PartitionState], reset: str) -> None:
    """Compare positions with the logs of their leaders, and reset those that were truncated.

    Args:
        reset: `auto_offset_reset`.

    Raises:
        LogTruncationError: `reset` is "none".
        KafkaError: A leader could not be asked; metadata is refreshed then.
    """
    by_leader: dict[int, list[tuple[PartitionState, int, int]]] = {}
    for state in states:
        leader, epoch = cluster.metadata.leader(*state.tp), cluster.metadata.leader_epoch(*state.tp)
        by_leader.setdefault(leader, []).append((state, state.era, epoch))
    for leader, some in by_leader.items():
        connection = await cluster.connection(leader)
        if connection.version_for(OffsetForLeaderEpochRequest) < _FIRST_VERSION_FOR_CONSUMERS:
            for state, _, epoch in some:
                state.validated_epoch = epoch
            continue
        request = _request(some)
        response = await connection.request(request, timeout_ms=cluster.request_timeout_ms)
        found = {(topic.topic, one.partition): one for topic in response.topics for one in topic.partitions}
        for state, era, epoch in some:
            one = found.get(state.tp)
            if one is not None and one.error_code:
                cluster.refresh_soon()
                raise error_for(one.error_code, f"{state.tp}: {error_for(one.error_code)}")
            if one is not None and state.era == era:
                apply(fetcher, state, epoch, one, reset)


def _request(some: list[tuple[PartitionState, int, int]]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for state, _, epoch in some:
        topic = topics.setdefault(state.tp.topic, OffsetForLeaderTopic(topic=state.tp.topic, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=state.tp.partition, current_leader_epoch=epoch, leader_epoch=state.fetch_epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))


def apply(fetcher: Fetcher, state: PartitionState, leader_epoch: int, found: EpochEndOffset, reset: str) -> None:
    """Compare a position with a leader's answer. Raises LogTruncationError.

    Records that were fetched and not yet returned are fetched again if some of them are gone.
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
