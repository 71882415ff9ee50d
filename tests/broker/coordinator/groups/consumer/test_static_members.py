"""Sessions of static members of consumer groups."""

from __future__ import annotations

import pytest
from support.coordinator_bench import GROUP
from support.topics_bench import TopicsBench

from minikafka.broker.coordinator.groups.consumer.consumer_heartbeat import consumer_heartbeat
from minikafka.broker.coordinator.groups.state.classic_member import Caller
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def beat(bench: TopicsBench, member_id: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, instance_id="instance"
    )
    if epoch == 0:
        request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = 300_000, ["t"], []
    caller = Caller("client", "/host", 1)
    answer = bench.ask(lambda builder, ticket: consumer_heartbeat(builder, request, caller, ticket))
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    return answer


@pytest.mark.parametrize("returns_as", ["a", "b"])
def test_the_session_of_a_static_member_that_has_returned_times_out(returns_as: str) -> None:
    """The one with the same id stayed for ever without a heartbeat, and no other could take its place (seed 189)."""
    bench = TopicsBench()
    bench.set_topic("t", b"t" * 16, 3)
    beat(bench, "a", 0)
    assert beat(bench, "a", -2).error_code == 0
    assert beat(bench, returns_as, 0).error_code == 0
    group = bench.state.consumer_groups[GROUP]
    bench.pass_time(bench.state.consumer_times(GROUP).session_timeout_ms - 1)
    assert set(group.members) == {returns_as}
    bench.pass_time(1)
    assert not group.members
    assert beat(bench, "c", 0).error_code == 0
