"""DeleteGroups: groups without members, with their committed offsets."""

from __future__ import annotations

import pytest
from support.coordinator_node import MemoryNode, run_with_node
from support.coordinator_requests import GROUP, commit, join, member_of_stable_group, with_node

from minikafka.protocol.errors import ErrorCode, NotEnoughReplicasError
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest


async def delete(node: MemoryNode, *names: str, version: int = 2) -> dict[str, int]:
    reply = await node.ask("DeleteGroups", version, DeleteGroupsRequest(groups_names=list(names)))
    errors = {result.group_id: result.error_code for result in reply.results}
    assert len(errors) == len(reply.results), "each group is answered once"
    return errors


@pytest.mark.parametrize("version", range(3))
def test_valid_and_invalid_groups_together(version: int) -> None:
    async def body(node: MemoryNode) -> None:
        await member_of_stable_group(node)
        await commit(node, {0: 1, 1: 2}, group_id="simple")
        await join(node, version=4, group="pending")
        assert await delete(node, GROUP, "simple", "none", "simple", "pending", "", version=version) == {
            GROUP: ErrorCode.NON_EMPTY_GROUP,
            "simple": 0,
            "none": ErrorCode.GROUP_ID_NOT_FOUND,
            "pending": 0,
            "": ErrorCode.GROUP_ID_NOT_FOUND,
        }

    with_node(body)


def test_a_deleted_group_stays_deleted_after_a_restart() -> None:
    async def before(node: MemoryNode) -> MemoryNode:
        node.create_topic("t")
        await commit(node, {0: 1})
        assert await delete(node, GROUP) == {GROUP: 0}
        return node

    async def after(node: MemoryNode) -> None:
        assert await delete(node, GROUP) == {GROUP: ErrorCode.GROUP_ID_NOT_FOUND}

    run_with_node(after, run_with_node(before).logs)


def test_a_group_stays_if_the_append_fails() -> None:
    async def body(node: MemoryNode) -> None:
        await commit(node, {0: 1})
        node.logs.refusal = NotEnoughReplicasError()
        assert await delete(node, GROUP) == {GROUP: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert await delete(node, GROUP) == {GROUP: 0}

    with_node(body)
