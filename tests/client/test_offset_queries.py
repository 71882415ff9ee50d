"""ListOffsets of partitions of which some have no leader or an error: the others are answered."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import LATEST, Admin, KafkaError, OffsetAndTimestamp, TopicPartition
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import LeaderNotAvailableError
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

API_TIMEOUT_MS = 5000
PARTITIONS = {TopicPartition("t", index): LATEST for index in range(4)}


class Cluster:
    """Brokers 1 and 2 with the topic `t`, of which partition `index` ends at offset `10 * index`."""

    def __init__(self, *leaders: int) -> None:
        self.network = FakeNetwork({"t": list(leaders)})
        self.codes: dict[int, ErrorCode] = {}
        self.asked: list[list[int]] = []
        for port in (1, 2):
            self.network.broker("a", port, {ListOffsetsRequest: self.answer})

    def answer(self, request: Any, version: int) -> ListOffsetsResponse:
        indexes = [one.partition_index for one in request.topics[0].partitions]
        self.asked.append(indexes)
        found = [
            ListOffsetsPartitionResponse(partition_index=one, error_code=self.codes.get(one, 0), offset=10 * one)
            for one in indexes
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=found)])

    def list(self, *, of_each: bool) -> dict[int, OffsetAndTimestamp | KafkaError]:
        async def main() -> dict[int, OffsetAndTimestamp | KafkaError]:
            seams = self.network.seams()
            async with Admin(bootstrap_servers="a:1", default_api_timeout_ms=API_TIMEOUT_MS, seams=seams) as admin:
                if of_each:
                    return {tp.partition: one for tp, one in (await admin.list_offsets_of_each(PARTITIONS)).items()}
                return {tp.partition: one for tp, one in (await admin.list_offsets(PARTITIONS)).items()}

        return trio.run(main, clock=MockClock(autojump_threshold=0))


def offsets(found: dict[int, OffsetAndTimestamp | KafkaError]) -> dict[int, int]:
    return {index: one.offset for index, one in found.items() if isinstance(one, OffsetAndTimestamp)}


def errors(found: dict[int, OffsetAndTimestamp | KafkaError]) -> dict[int, ErrorCode]:
    return {index: one.code for index, one in found.items() if isinstance(one, KafkaError)}


def test_a_partition_without_a_leader_does_not_withhold_the_others() -> None:
    cluster = Cluster(1, -1, 2, 1)
    found = cluster.list(of_each=True)
    assert offsets(found) == {0: 0, 2: 20, 3: 30}
    assert errors(found) == {1: ErrorCode.LEADER_NOT_AVAILABLE}
    assert sorted(cluster.asked) == [[0, 3], [2]], "what is known is not asked again"


def test_a_partition_that_gets_a_leader_in_time_is_answered() -> None:
    cluster = Cluster(1, -1, 2, 1)
    seen = cluster.answer

    def elects(request: Any, version: int) -> ListOffsetsResponse:
        cluster.network.topics["t"][1] = 2
        return seen(request, version)

    cluster.network.brokers[1].handlers[ListOffsetsRequest] = elects
    assert offsets(cluster.list(of_each=True)) == {0: 0, 1: 10, 2: 20, 3: 30}


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_the_error_of_a_partition_is_its_own(code: ErrorCode) -> None:
    cluster = Cluster(1, 1, 2, 1)
    cluster.codes[3] = code
    found = cluster.list(of_each=True)
    assert (offsets(found), errors(found)) == ({0: 0, 1: 10, 2: 20}, {3: code})


def test_a_broker_that_is_gone_costs_its_partitions_only() -> None:
    cluster = Cluster(1, 1, 2, 1)
    cluster.network.brokers[1].die()
    found = cluster.list(of_each=True)
    assert (offsets(found), list(errors(found))) == ({0: 0, 1: 10, 3: 30}, [2])


def test_as_a_whole_it_fails_with_the_first_error() -> None:
    cluster = Cluster(1, -1, 2, 1)
    with pytest.raises(LeaderNotAvailableError, match="t-1 has no leader"):
        cluster.list(of_each=False)
    assert cluster.asked == [], "the answers of the others would be thrown away"
