"""What an `Admin` asks the leaders of several partitions: each has its own result or error, which names it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import LATEST, Admin, KafkaError, TopicPartition
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import UnknownTopicOrPartitionError
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from minikafka.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API_TIMEOUT_MS = 5_000
LED, SILENT, LEADERLESS, NEW, UNKNOWN = (
    TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("t", 3),
    TopicPartition("nix", 0),
)  # fmt: skip
"""The partitions asked about: the broker with `SILENT` never answers; `NEW` and `UNKNOWN` do not exist."""
Call = Callable[[Admin], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "delete_records": lambda admin: admin.delete_records(dict.fromkeys((LED, SILENT, LEADERLESS, NEW, UNKNOWN), 7)),
    "list_offsets_of_each": lambda admin: admin.list_offsets_of_each(
        dict.fromkeys((UNKNOWN, NEW, LEADERLESS, SILENT, LED), LATEST)
    ),
}


def network() -> FakeNetwork:
    """Broker 1 leads `LED` and answers; broker 2 leads `SILENT` and says nothing."""
    made = FakeNetwork({"t": [1, 2, -1]})
    made.broker("a", 1, {DeleteRecordsRequest: deleted, ListOffsetsRequest: listed})
    made.broker("a", 2, {DeleteRecordsRequest: lambda *_: None, ListOffsetsRequest: lambda *_: None})
    return made


def deleted(request: Any, version: int) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(partition_index=one.partition_index, low_watermark=7, error_code=0)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def listed(request: Any, version: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=0, offset=7)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def outcome(made: FakeNetwork, call: Call) -> tuple[float, Any]:
    """The seconds that a call took, and its result or error."""

    async def main() -> tuple[float, Any]:
        async with Admin("a:1", seams=made.seams(), default_api_timeout_ms=API_TIMEOUT_MS) as admin:
            began = trio.current_time()
            try:
                found = await call(admin)
            except KafkaError as error:
                found = error
            return trio.current_time() - began, found

    return trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("name", CALLS)
def test_each_partition_has_its_own_result(name: str) -> None:
    """Also those of a leader that is asked at the same time as one that never answers."""
    _, found = outcome(network(), CALLS[name])
    assert found.keys() == {LED, SILENT, LEADERLESS, NEW, UNKNOWN}
    assert getattr(found[LED], "offset", found[LED]) == 7
    errors = {tp: (one.code, str(one)) for tp, one in found.items() if isinstance(one, KafkaError)}
    assert errors.keys() == {SILENT, LEADERLESS, NEW, UNKNOWN}
    assert errors[UNKNOWN][0] is errors[NEW][0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "'nix'" in errors[UNKNOWN][1]
    assert "no partition 3" in errors[NEW][1]
    assert errors[LEADERLESS][0] is ErrorCode.LEADER_NOT_AVAILABLE
    assert str(LEADERLESS) in errors[LEADERLESS][1]


@pytest.mark.parametrize("name", CALLS)
def test_a_partition_that_appears_in_time_has_a_result(name: str) -> None:
    made = network()
    made.brokers[1].handlers |= {DeleteRecordsRequest: deleted, ListOffsetsRequest: listed}

    async def appears(admin: Admin) -> Any:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(appear)
            return await CALLS[name](admin)

    async def appear() -> None:
        await trio.sleep(1)
        made.topics |= {"t": [1, 2, 1, 2], "nix": [1]}

    took, found = outcome(made, appears)
    assert took < API_TIMEOUT_MS / 1000
    assert [getattr(one, "offset", one) for one in found.values()] == [7] * 5


OF_ONE: dict[str, Call] = {
    "describing the producers": lambda admin: admin.describe_producers(UNKNOWN),
    "aborting the transaction": lambda admin: admin.abort_transaction(UNKNOWN, 1, 1, 1),
    "deleting records": lambda admin: admin.delete_records({UNKNOWN: 1}),
    "listing offsets": lambda admin: admin.list_offsets({UNKNOWN: 1}),
}


@pytest.mark.parametrize("what", OF_ONE)
def test_the_wait_for_a_topic_and_its_error_name_the_topic(what: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        took, found = outcome(network(), OF_ONE[what])
    error = found[UNKNOWN] if isinstance(found, dict) else found
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert "'nix'" in str(error)
    assert took == pytest.approx(API_TIMEOUT_MS / 1000, abs=1), "as Kafka's client, which waits for a new topic"
    assert any(what in line and "topic 'nix' does not exist" in line for line in caplog.messages), caplog.messages


def test_offsets_of_a_group_are_set_without_those_of_an_unknown_topic() -> None:
    """As Kafka's `alterConsumerGroupOffsets`: at once; what the coordinator cannot take yet is sent again alone."""
    asked: list[list[str]] = []

    def commit(request: Any, version: int) -> OffsetCommitResponse:
        asked.append([one.name for one in request.topics])
        codes = {"nix": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        if len(asked) == 1:
            codes["t"] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        topics = [
            OffsetCommitResponseTopic(
                name=one.name,
                partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=codes.get(one.name, 0))],
            )
            for one in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    def coordinator(request: Any, version: int) -> FindCoordinatorResponse:
        found = Coordinator(key="g", node_id=1, host="a", port=1, error_code=0, error_message=None)
        return FindCoordinatorResponse(coordinators=[found])

    made = network()
    made.brokers[0].handlers |= {OffsetCommitRequest: commit, FindCoordinatorRequest: coordinator}
    took, found = outcome(made, lambda admin: admin.alter_group_offsets("g", {UNKNOWN: 1, LED: 2}))
    assert isinstance(found, UnknownTopicOrPartitionError)
    assert str(UNKNOWN) in str(found)
    assert asked == [["nix", "t"], ["t"]]
    assert took < API_TIMEOUT_MS / 1000 / 2
