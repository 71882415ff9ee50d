"""A member notices a topic that appears at any moment, also while its group is being joined."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from support.scripted_coordinator import TP, ScriptedCoordinator
from trio.testing import MockClock

from minikafka.client import Consumer
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class LeadingMember(ScriptedCoordinator):
    """The member assigns.

    Attributes:
        appears_in_join: Whether the client hears that the topic exists before the first answer to SyncGroup.
    """

    def __init__(self, *, appears_in_join: bool) -> None:
        super().__init__()
        self.appears_in_join = appears_in_join
        self.network = FakeNetwork()
        self.consumer: Consumer | None = None

    def handlers(self) -> dict[Any, Any]:
        return {**super().handlers(), SyncGroupRequest: self.sync}

    def join(self, request: JoinGroupRequest, version: int) -> JoinGroupResponse | None:
        response = super().join(request, version)
        assert response is not None
        response.leader = "m"
        response.members = [JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)]
        return response

    def sync(self, request: SyncGroupRequest, version: int) -> SyncGroupResponse:
        if self.appears_in_join and not self.network.topics:
            self.network.topics[TP.topic] = [1]
            self.topic_appears()
        return SyncGroupResponse(assignment=request.assignments[0].assignment)

    def topic_appears(self) -> None:
        """A response to a Metadata request, as the client's background task receives it."""
        assert self.consumer is not None
        cluster = self.consumer.cluster
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TP.topic)])
        cluster.metadata.apply(self.network.metadata(request, 12), [TP.topic])
        cluster.on_update()


@pytest.mark.parametrize("appears_in_join", [False, True])
def test_a_topic_that_appears_is_assigned_within_seconds(appears_in_join: bool) -> None:
    async def main() -> None:
        coordinator = LeadingMember(appears_in_join=appears_in_join)
        coordinator.network.broker("a", 1, coordinator.handlers())
        options: dict[str, Any] = {"enable_auto_commit": False, "heartbeat_interval_ms": 100}
        seams = coordinator.network.seams()
        async with Consumer(bootstrap_servers="a:1", group_id="g", seams=seams, **options) as consumer:
            coordinator.consumer = consumer
            await consumer.subscribe([TP.topic])
            await consumer.poll(20_000)
            coordinator.network.topics[TP.topic] = [1]
            await consumer.poll(5_000)
            assert consumer.assignment() == [TP]
            assert coordinator.joins == 2

    trio.run(main, clock=MockClock(autojump_threshold=0))
