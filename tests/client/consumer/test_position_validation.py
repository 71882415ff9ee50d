"""Positions are compared with the log of a new leader: which are asked about, and which answers count (KIP-320)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import trio

from minikafka.client import TopicPartition
from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.consumer.fetch_state import Fetcher
from minikafka.client.consumer.partition_state import PartitionState
from minikafka.client.consumer.position_validation import validate
from minikafka.client.options import ConsumerOptions, make
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, UnknownLeaderEpochError
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

LEADER = 1
EPOCH_BEFORE, EPOCH_BETWEEN, EPOCH = 4, 5, 6
PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]


@dataclass
class Leader:
    """The part of `Cluster` that is used, and the leader of both partitions. It knows that the former epoch ended at 3.

    Attributes:
        leader_epoch_now: that metadata name.
        errors: by partition.
        omitted: the partitions that its answers lack.
        meanwhile: called while a request waits for its response.
        asked: the partitions of each request.
    """

    leader_epoch_now: int = EPOCH
    errors: dict[int, int] = field(default_factory=dict)
    omitted: tuple[int, ...] = ()
    meanwhile: Callable[[], None] = lambda: None
    asked: list[list[int]] = field(default_factory=list)
    request_timeout_ms: int = 1000
    refreshes: int = 0

    @property
    def metadata(self) -> Leader:
        return self

    def leader(self, topic: str, partition: int) -> int:
        return LEADER

    def leader_epoch(self, topic: str, partition: int) -> int:
        return self.leader_epoch_now

    def refresh_soon(self) -> None:
        self.refreshes += 1

    async def connection(self, node_id: int) -> Leader:
        assert node_id == LEADER
        return self

    def version_for(self, request: Any) -> int:
        return 4

    async def request(self, request: OffsetForLeaderEpochRequest, timeout_ms: float) -> OffsetForLeaderEpochResponse:
        asked = request.topics[0].partitions
        self.asked.append([one.partition for one in asked])
        self.meanwhile()
        ends = [
            EpochEndOffset(partition=one.partition, leader_epoch=EPOCH_BEFORE, end_offset=3)
            if one.partition not in self.errors
            else EpochEndOffset(partition=one.partition, error_code=self.errors[one.partition])
            for one in asked
            if one.partition not in self.omitted
        ]
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=ends)])


def at(offset: int, places: Sequence[TopicPartition] = PLACES) -> Fetcher:
    """All positions at `offset`, after a batch of the former leader."""
    fetcher = Fetcher(make(ConsumerOptions, {}, "Consumer"))
    fetcher.assign(places)
    for tp in places:
        fetcher.seek(tp, offset, epoch=EPOCH_BEFORE)
    return fetcher


def compare(leader: Leader, fetcher: Fetcher) -> None:
    states = list(fetcher.states.values())
    trio.run(validate, cast(Cluster, leader), fetcher, LEADER, states, "earliest")


def fetched(state: PartitionState, epoch: int) -> None:
    """Two records from offset 3 on arrive, and the application takes them."""
    state.fetched([(3, epoch)])
    state.fetch_offset = state.position = 5


@pytest.mark.parametrize(("epoch", "position"), [(EPOCH, 5), (EPOCH_BETWEEN, 5), (EPOCH_BEFORE, 3)])
def test_an_answer_counts_for_the_epoch_that_was_asked_about(epoch: int, position: int) -> None:
    """A fetch moves the position while the leader is asked: records of a later epoch are not what the answer is about,
    further ones of the same epoch are, and are gone."""
    fetcher = at(3, PLACES[:1])
    compare(Leader(meanwhile=lambda: fetched(fetcher.states[PLACES[0]], epoch)), fetcher)
    assert fetcher.positions() == {PLACES[0]: position}


def test_a_position_that_a_later_leader_has_confirmed_is_not_moved() -> None:
    fetcher = at(4, PLACES[:1])
    state = fetcher.states[PLACES[0]]

    def confirm() -> None:
        state.validated_epoch = EPOCH + 1

    compare(Leader(meanwhile=confirm), fetcher)
    assert (fetcher.positions(), state.validated_epoch) == ({PLACES[0]: 4}, EPOCH + 1)


def test_what_an_attempt_has_settled_is_not_asked_again() -> None:
    fetcher, leader = at(3), Leader(errors={1: ErrorCode.UNKNOWN_LEADER_EPOCH})
    with pytest.raises(UnknownLeaderEpochError):
        compare(leader, fetcher)
    fetched(fetcher.states[PLACES[0]], EPOCH)
    leader.errors = {}
    compare(leader, fetcher)
    assert leader.asked == [[0, 1], [1]]
    assert fetcher.positions() == {PLACES[0]: 5, PLACES[1]: 3}
    compare(leader, fetcher)
    assert len(leader.asked) == 2


@pytest.mark.parametrize(
    ("leader", "why"),
    [(Leader(errors={0: ErrorCode.FENCED_LEADER_EPOCH}), "t-0: "), (Leader(omitted=(0,)), "response lacks t-0")],
)
def test_an_error_or_no_answer_is_raised_and_metadata_are_requested_and_other_partitions_are_compared(
    leader: Leader, why: str
) -> None:
    fetcher = at(3)
    with pytest.raises(KafkaError, match=why) as caught:
        compare(leader, fetcher)
    assert caught.value.retriable
    assert leader.refreshes == 1
    assert [state.validated_epoch == EPOCH for state in fetcher.states.values()] == [False, True]
