"""FindCoordinator: one key in old versions, several in new ones, each with its own error."""

from __future__ import annotations

import pytest
from support.coordinator_node import BROKER_ID, MemoryNode
from support.coordinator_requests import with_node

from minikafka.protocol.errors import CoordinatorNotAvailableError, ErrorCode
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest


@pytest.mark.parametrize("version", range(4))
def test_old_versions_find_the_coordinator_of_one_key(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        reply = await node.ask("FindCoordinator", version, FindCoordinatorRequest(key="g"))
        assert (reply.error_code, reply.node_id, reply.host, reply.port) == (0, 1, "localhost", 9092)

    with_node(body)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_new_versions_answer_for_each_key(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        reply = await node.ask("FindCoordinator", version, FindCoordinatorRequest(coordinator_keys=["g", "h", "g"]))
        assert [(one.key, one.node_id) for one in reply.coordinators] == [("g", 1), ("h", 1), ("g", 1)]

    with_node(body)


@pytest.mark.parametrize("key_type", [-1, 2, 3, 127])
def test_unknown_types_of_coordinators_are_invalid(key_type: int) -> None:
    async def body(node: MemoryNode) -> None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
        (one,) = (await node.ask("FindCoordinator", 6, request)).coordinators
        assert (one.error_code, one.node_id, one.port, one.key) == (ErrorCode.INVALID_REQUEST, -1, -1, "k")
        old = await node.ask("FindCoordinator", 1, FindCoordinatorRequest(key_type=key_type, key="k"))
        assert (old.error_code, old.node_id) == (ErrorCode.INVALID_REQUEST, -1)

    with_node(body)


class Picky:
    """One key has no coordinator."""

    async def coordinator_of(self, key_type: int, key: str) -> int:
        if key == "bad":
            raise CoordinatorNotAvailableError("no leader")
        return BROKER_ID


def test_an_error_of_one_key_does_not_affect_the_others() -> None:
    async def body(node: MemoryNode) -> None:
        node.coordinators = Picky()
        request = FindCoordinatorRequest(coordinator_keys=["bad", "g"])
        bad, good = (await node.ask("FindCoordinator", 4, request)).coordinators
        assert (bad.error_code, bad.error_message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "no leader")
        assert (good.error_code, good.node_id) == (0, 1)

    with_node(body)


def test_a_coordinator_that_is_fenced_is_not_available() -> None:
    async def body(node: MemoryNode) -> None:
        node.image.brokers.clear()
        (answer,) = (await node.ask("FindCoordinator", 4, FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators
        assert (answer.error_code, answer.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)

    with_node(body)
