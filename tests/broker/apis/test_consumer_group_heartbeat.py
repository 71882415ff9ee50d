"""ConsumerGroupHeartbeat: refused with NOT_COORDINATOR or UNSUPPORTED_VERSION."""

from __future__ import annotations

from support.coordinator_node import MemoryNode
from support.coordinator_requests import with_node

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def test_the_groups_of_kip_848_are_refused_by_the_coordinator() -> None:
    async def body(node: MemoryNode) -> None:
        assert await asked(node) == ErrorCode.UNSUPPORTED_VERSION

    with_node(body)


def test_another_node_than_the_coordinator_answers_not_coordinator() -> None:
    async def body(node: MemoryNode) -> None:
        for partition in range(3):
            node.groups.resigned(partition)
        assert await asked(node) == ErrorCode.NOT_COORDINATOR

    with_node(body)


async def asked(node: MemoryNode) -> int:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    response = await node.ask("ConsumerGroupHeartbeat", 1, request)
    code: int = response.error_code
    return code
