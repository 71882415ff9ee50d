"""Requests of an `Admin` about groups follow a coordinator that has moved, on an in-memory network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from support.scripted_coordinator import committed_offset
from trio.testing import MockClock

from minikafka.client import Admin, TopicPartition
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from minikafka.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from minikafka.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest

FORMER, NOW = 1, 2
CALLS: dict[str, Callable[[Admin], Awaitable[Any]]] = {
    "describe": lambda admin: admin.describe_group("g"),
    "delete": lambda admin: admin.delete_group("g"),
    "alter offsets": lambda admin: admin.alter_group_offsets("g", {TopicPartition("t", 0): 1}),
}


def handlers(node: int, found: list[int]) -> dict[Any, Any]:
    """Node 1 is the coordinator for the first who looks it up, and has resigned when it is asked."""
    error = ErrorCode.NOT_COORDINATOR if node == FORMER else ErrorCode.NONE

    def find(request: Any, version: int) -> FindCoordinatorResponse:
        found.append(FORMER if not found else NOW)
        one = Coordinator(key="g", node_id=found[-1], host="a", port=found[-1], error_code=0, error_message=None)
        return FindCoordinatorResponse(coordinators=[one])

    described = DescribedGroup(error_code=error, group_id="g", group_state="Empty")
    deleted = DeletableGroupResult(group_id="g", error_code=error)
    return {
        FindCoordinatorRequest: find,
        ConsumerGroupDescribeRequest: lambda request, version: ConsumerGroupDescribeResponse(groups=[described]),
        DeleteGroupsRequest: lambda request, version: DeleteGroupsResponse(results=[deleted]),
        OffsetCommitRequest: lambda request, version: committed_offset(error),
    }


@pytest.mark.parametrize("what", CALLS)
def test_a_coordinator_that_has_moved_is_looked_up_again(what: str) -> None:
    found: list[int] = []

    async def story() -> None:
        network = FakeNetwork({"t": [1]})
        for node in (FORMER, NOW):
            network.broker("a", node, handlers(node, found))
        async with Admin(bootstrap_servers="a:1", seams=network.seams(), default_api_timeout_ms=5_000) as admin:
            await CALLS[what](admin)

    trio.run(story, clock=MockClock(autojump_threshold=0))
    assert found == [FORMER, NOW]
