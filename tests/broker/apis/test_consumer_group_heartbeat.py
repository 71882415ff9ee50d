"""ConsumerGroupHeartbeat where consumer groups are switched off: NOT_COORDINATOR or UNSUPPORTED_VERSION."""

from __future__ import annotations

from support.coordinator_node import MemoryNode, run_with_node
from support.coordinator_requests import with_node

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def test_consumer_groups_are_refused_without_the_protocol() -> None:
    async def body(node: MemoryNode) -> None:
        assert await asked(node) == ErrorCode.UNSUPPORTED_VERSION

    run_with_node(body, settings={"group.coordinator.rebalance.protocols": "classic"})


def test_consumer_groups_are_refused_without_the_feature() -> None:
    async def body(node: MemoryNode) -> None:
        del node.image.features["group.version"]
        assert await asked(node) == ErrorCode.UNSUPPORTED_VERSION

    with_node(body)


def test_another_node_than_the_coordinator_answers_not_coordinator() -> None:
    async def body(node: MemoryNode) -> None:
        for partition in range(3):
            node.groups.resigned(partition)
        del node.image.features["group.version"]
        assert await asked(node) == ErrorCode.NOT_COORDINATOR

    with_node(body)


async def asked(node: MemoryNode) -> int:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    response = await node.ask("ConsumerGroupHeartbeat", 1, request)
    code: int = response.error_code
    return code
