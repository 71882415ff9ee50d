"""What Admin asks about very many topics is divided into requests that brokers take."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import Admin
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


@pytest.mark.parametrize("count", [0, 1, 1000, 1001, 25_000])
def test_the_configs_of_many_topics_are_described(count: int) -> None:
    """`minikafka health` failed with 100,000 topics: a request that names more than 10,000 ends its connection."""
    asked: list[int] = []

    def answer(request: Any, version: int) -> DescribeConfigsResponse:
        asked.append(len(request.resources))
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    error_message=None,
                    resource_type=2,
                    resource_name=one.resource_name,
                    configs=[DescribeConfigsResourceResult(name=name, value="2") for name in one.configuration_keys],
                )
                for one in request.resources
            ]
        )

    network = FakeNetwork({})
    network.broker("a", 1, {DescribeConfigsRequest: answer})
    names = [f"t{number}" for number in range(count)]

    async def main() -> dict[str, Any]:
        async with Admin("a:1", seams=network.seams()) as admin:
            return await admin.describe_topic_configs(iter(names), keys=iter(["min.insync.replicas"]))

    found = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert list(found) == names
    assert all(one["min.insync.replicas"].value == "2" for one in found.values())
    assert sum(asked) == count
    assert max(asked, default=0) <= 1000
