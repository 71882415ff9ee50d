"""A consumer fetches from the replica that the leader prefers (KIP-392), and notices truncated logs (KIP-320)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from support.batches import encode_batch
from support.fake_network import FakeNetwork
from support.scripted_coordinator import committed_offset, fetched_offset
from trio.testing import MockClock

from minikafka.client import Consumer, LogTruncationError, TopicPartition
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import OffsetOutOfRangeError
from minikafka.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from minikafka.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from minikafka.protocol.records.record import Record

TP = TopicPartition("t", 0)
LEADER, FOLLOWER = 1, 2
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


class Replicas:
    """A leader and a follower of one partition.

    Attributes:
        logs: the records of each node: leader epoch and value.
        prefers: the leader's preferred replica.
        records_max: of one response.
        errors: by node: the error of its next fetches.
        ends: the leader's answer to OffsetForLeaderEpoch: epoch and end offset.
        silent: the nodes that do not answer it.
        omits: how many of the leader's answers to it lack the partition.
        fetched_from: the node of each fetch that was answered with records or an error, with the offset.
    """

    def __init__(self, count: int = 3) -> None:
        self.network = FakeNetwork({"t": [LEADER]})
        self.network.leader_epoch = 4
        self.logs = {node: [(4, b"%d" % n) for n in range(count)] for node in (LEADER, FOLLOWER)}
        self.prefers = -1
        self.records_max = 100
        self.errors: dict[int, ErrorCode] = {}
        self.ends = (-1, -1)
        self.silent: set[int] = set()
        self.omits = 0
        self.fetched_from: list[tuple[int, int]] = []
        self.racks: set[str] = set()
        self.asked_epochs: list[tuple[int, int]] = []
        for node in (LEADER, FOLLOWER):
            self.network.broker("a", node, {
                FetchRequest: lambda request, version, node=node: self.fetch(request, node),
                OffsetForLeaderEpochRequest: lambda request, version, node=node: self.end_of_epoch(request, node),
            })  # fmt: skip

    def fetch(self, request: FetchRequest, node: int) -> FetchResponse | None:
        self.racks.add(request.rack_id)
        asked = request.topics[0].partitions[0]
        data = PartitionData(aborted_transactions=None, high_watermark=len(self.logs[node]))
        data.partition_index = asked.partition
        some = self.logs[node][asked.fetch_offset :][: self.records_max]
        if node in self.errors:
            data.error_code = self.errors[node]
        elif asked.current_leader_epoch < self.network.leader_epoch:
            data.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif node == LEADER and self.prefers >= 0:
            data.preferred_read_replica = self.prefers
        elif some:
            records = [Record(-1, 0, None, value) for _, value in some]
            data.records = memoryview(
                encode_batch(records, base_offset=asked.fetch_offset, leader_epoch=some[-1][0])
            )
        else:
            return None
        self.fetched_from.append((node, asked.fetch_offset))
        topic = FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=[data])
        return FetchResponse(responses=[topic])

    def end_of_epoch(
        self, request: OffsetForLeaderEpochRequest, node: int
    ) -> OffsetForLeaderEpochResponse | None:
        asked = request.topics[0].partitions[0]
        self.asked_epochs.append((asked.current_leader_epoch, asked.leader_epoch))
        if node in self.silent:
            return None
        if len(self.asked_epochs) <= self.omits:
            return OffsetForLeaderEpochResponse(topics=[])
        epoch, end = self.ends
        result = EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[result])])

    def consumer(self, **options: Any) -> Consumer:
        return Consumer(bootstrap_servers="a:1", seams=self.network.seams(), **options)


def run(story: Callable[[Replicas], Awaitable[None]]) -> None:
    trio.run(story, Replicas(), clock=MockClock(autojump_threshold=0))


async def values(consumer: Consumer, count: int) -> list[bytes]:
    taken: list[bytes] = []
    while len(taken) < count:
        taken += [record.value for record in await consumer.poll(60_000)]
    return taken


def test_the_replica_that_the_leader_prefers_is_fetched_from_until_metadata_are_old() -> None:
    async def story(replicas: Replicas) -> None:
        replicas.prefers, replicas.records_max = FOLLOWER, 1
        async with replicas.consumer(client_rack="r2", metadata_max_age_ms=50_000) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            await trio.sleep(10)
            ahead = [(LEADER, 0), (FOLLOWER, 0), (FOLLOWER, 1)]
            assert replicas.fetched_from == ahead
            assert replicas.racks == {"r2"}
            await trio.sleep(50)
            assert await values(consumer, 3) == [b"0", b"1", b"2"]
            assert replicas.fetched_from == [*ahead, (LEADER, 2), (FOLLOWER, 2)]

    run(story)


@pytest.mark.parametrize("error", [OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID])
def test_a_replica_that_fails_is_left_for_the_leader(error: ErrorCode) -> None:
    async def story(replicas: Replicas) -> None:
        replicas.prefers = FOLLOWER
        replicas.errors = {FOLLOWER: error}
        async with replicas.consumer(client_rack="r2", auto_offset_reset="none") as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 1)
            assert await consumer.poll(1_000) == []
            replicas.prefers = -1
            assert await values(consumer, 2) == [b"1", b"2"]
            assert replicas.fetched_from[:3] == [(LEADER, 1), (FOLLOWER, 1), (LEADER, 1)]

    run(story)


def test_a_replica_that_is_gone_is_left_for_the_leader() -> None:
    async def story(replicas: Replicas) -> None:
        replicas.prefers = FOLLOWER
        replicas.network.brokers[FOLLOWER - 1].die()
        async with replicas.consumer(client_rack="r2") as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert await consumer.poll(1_000) == []
            replicas.prefers = -1
            assert await values(consumer, 3) == [b"0", b"1", b"2"]

    run(story)


@pytest.mark.parametrize(
    ("taken", "end", "then"),
    [
        (3, (4, 3), [b"new"]),  # nothing is gone
        (3, (4, 1), [b"1", b"2", b"new"]),  # records that the application has are gone: from where the log differs
        (1, (4, 2), [b"1", b"2", b"new"]),  # records that were fetched ahead are gone: from the position
        (1, (4, 3), [b"1", b"2", b"new"]),
    ],
)
def test_positions_are_compared_with_the_log_of_a_new_leader(
    taken: int, end: tuple[int, int], then: list[bytes]
) -> None:
    async def story(replicas: Replicas) -> None:
        async with replicas.consumer(auto_offset_reset="earliest", metadata_max_age_ms=1_000) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            with trio.fail_after(60):
                taken_first = []
                while len(taken_first) < taken:
                    taken_first += await consumer.poll(1_000, max_records=taken)
            replicas.ends = end
            replicas.network.leader_epoch = 5
            replicas.logs[LEADER] = [*replicas.logs[LEADER][:3], (5, b"new")]
            replicas.network.brokers[0].hang_up()
            await trio.sleep(5)
            assert await values(consumer, len(then)) == then
            assert replicas.asked_epochs == [(5, 4)]

    run(story)


def test_a_new_leader_that_does_not_answer_holds_up_no_other() -> None:
    async def story(replicas: Replicas) -> None:
        replicas.network.topics["t"] = [LEADER, FOLLOWER]
        async with replicas.consumer(metadata_max_age_ms=1_000, request_timeout_ms=30_000) as consumer:
            consumer.assign([TP, TopicPartition("t", 1)])
            consumer.seek(TP, 0)
            consumer.seek(TopicPartition("t", 1), 0)
            assert len(await values(consumer, 6)) == 6
            replicas.ends, replicas.silent = (4, 3), {LEADER}
            replicas.network.leader_epoch = 5
            replicas.logs[FOLLOWER] = [*replicas.logs[FOLLOWER], (5, b"new")]
            for broker in replicas.network.brokers:
                broker.hang_up()
            with trio.fail_after(20):
                assert await values(consumer, 1) == [b"new"]

    run(story)


def test_a_leader_whose_answer_lacks_the_partition_is_asked_again_after_a_pause() -> None:
    """As after an error: with retry_backoff_ms=1000 the pauses are 0.8 to 1.2 s."""

    async def story(replicas: Replicas) -> None:
        options = {"retry_backoff_ms": 1_000, "retry_backoff_max_ms": 1_000, "metadata_max_age_ms": 500}
        async with replicas.consumer(auto_offset_reset="earliest", **options) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert len(await values(consumer, 3)) == 3
            replicas.ends, replicas.omits = (4, 3), 1000
            replicas.network.leader_epoch = 5
            replicas.network.brokers[0].hang_up()
            await trio.sleep(20)
            assert 10 <= len(replicas.asked_epochs) <= 25
            replicas.omits = 0
            replicas.logs[LEADER].append((5, b"new"))
            assert await values(consumer, 1) == [b"new"]

    run(story)


def test_truncation_below_the_position_is_an_error_without_a_reset() -> None:
    async def story(replicas: Replicas) -> None:
        async with replicas.consumer(auto_offset_reset="none", metadata_max_age_ms=1_000) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert len(await values(consumer, 3)) == 3
            replicas.ends = (4, 1)
            replicas.network.leader_epoch = 5
            replicas.network.brokers[0].hang_up()
            with pytest.raises(LogTruncationError, match="t-0 was truncated: offset 3 is the position") as caught:
                await consumer.poll(60_000)
            assert isinstance(caught.value, OffsetOutOfRangeError)
            assert (caught.value.offset, caught.value.diverging_offset) == (3, 1)
            consumer.seek(TP, 1)
            assert await values(consumer, 2) == [b"1", b"2"]

    run(story)


class IsolatedLeader(Replicas):
    """The first node was cut off from the second one, which leads since. Clients reach both; they know the first one.

    Attributes:
        committed: offset and leader epoch of group "g".
    """

    def __init__(self) -> None:
        super().__init__()
        self.logs[FOLLOWER] += [(5, b"3"), (5, b"4")]
        self.errors = {LEADER: OUT_OF_RANGE}
        self.committed = (4, 5)
        first, second = self.network.brokers
        first.handlers[MetadataRequest] = lambda request, version: self.metadata(request, version, LEADER, 4)
        second.handlers[MetadataRequest] = lambda request, version: self.metadata(request, version, FOLLOWER, 5)
        coordinator = Coordinator(key="g", node_id=LEADER, host="a", port=LEADER, error_message=None)
        for broker in self.network.brokers:
            broker.handlers |= {
                FindCoordinatorRequest: lambda request, version: FindCoordinatorResponse(coordinators=[coordinator]),
                OffsetFetchRequest: lambda request, version: self.fetch_offsets(),
                OffsetCommitRequest: lambda request, version: self.commit_offsets(request),
            }

    def metadata(self, request: Any, version: int, leader: int, epoch: int) -> MetadataResponse:
        self.network.topics["t"], self.network.leader_epoch = [leader], epoch
        return self.network.metadata(request, version)

    def fetch(self, request: FetchRequest, node: int) -> FetchResponse | None:
        self.network.leader_epoch = 5 if node == FOLLOWER else 4
        return super().fetch(request, node)

    def fetch_offsets(self) -> OffsetFetchResponse:
        return fetched_offset(*self.committed)

    def commit_offsets(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        asked = request.topics[0].partitions[0]
        self.committed = asked.committed_offset, asked.committed_leader_epoch
        return committed_offset()


def test_a_leader_older_than_the_committed_offset_is_not_asked() -> None:
    """Its log ends before the offset: OFFSET_OUT_OF_RANGE would have the consumer begin at the start again."""

    async def story(replicas: IsolatedLeader) -> None:
        async with replicas.consumer(group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.assign([TP])
            assert await values(consumer, 1) == [b"4"]
        assert replicas.fetched_from == [(FOLLOWER, 4)]

    trio.run(story, IsolatedLeader(), clock=MockClock(autojump_threshold=0))


def test_a_committed_offset_has_the_leader_epoch_of_the_record_before_it() -> None:
    async def story(replicas: IsolatedLeader) -> None:
        replicas.records_max, replicas.committed, replicas.ends = 1, (0, 4), (4, 3)
        replicas.logs[LEADER] = replicas.logs[FOLLOWER]
        replicas.errors = {}
        committed = []
        async with replicas.consumer(group_id="g", enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
            consumer.assign([TP])
            for _ in range(5):
                assert len(await consumer.poll(60_000, max_records=1)) == 1
                await consumer.commit()
                committed.append(replicas.committed)
            await consumer.commit({TP: 2})
            committed.append(replicas.committed)
        assert committed == [(1, 4), (2, 4), (3, 4), (4, 5), (5, 5), (2, 4)]

    trio.run(story, IsolatedLeader(), clock=MockClock(autojump_threshold=0))
