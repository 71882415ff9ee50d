"""Requests with offsets of very many partitions: each part is a decision of its own, and others run in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from support.coordinator_node import MemoryNode, run_with_node
from support.coordinator_requests import GROUP, join
from trio.testing import assert_checkpoints, assert_no_checkpoints

from minikafka.broker.apis import add_partitions_to_txn
from minikafka.broker.connections.request_context import ConnectionInfo, RequestContext
from minikafka.broker.coordinator.groups.offsets.request_parts import PARTITIONS_AT_ONCE
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import parse_header
from minikafka.storage.waits import begin, completed

PARTITIONS = 3 * PARTITIONS_AT_ONCE + 500
ASKED = {"t": range(1_500), "u": range(2_000)}
IN_PARTS = [PARTITIONS_AT_ONCE] * 3 + [500]
Ask = Callable[[MemoryNode], Awaitable[Any]]


def offset_commit() -> OffsetCommitRequest:
    return OffsetCommitRequest(group_id=GROUP, topics=[
        OffsetCommitRequestTopic(name=name, partitions=[
            OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
            for index in indexes
        ])
        for name, indexes in ASKED.items()
    ])  # fmt: skip


def txn_offset_commit() -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(transactional_id="x", group_id=GROUP, producer_id=7, producer_epoch=0, topics=[
        TxnOffsetCommitRequestTopic(name=name, partitions=[
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
            for index in indexes
        ])
        for name, indexes in ASKED.items()
    ])  # fmt: skip


def offset_delete() -> OffsetDeleteRequest:
    return OffsetDeleteRequest(group_id=GROUP, topics=[
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in ASKED.items()
    ])  # fmt: skip


async def ask_commit(node: MemoryNode) -> Any:
    return await node.ask("OffsetCommit", 8, offset_commit())


async def ask_transactional_commit(node: MemoryNode) -> Any:
    return await node.groups.commit_in_transaction(txn_offset_commit())


async def ask_delete(node: MemoryNode) -> Any:
    return await node.ask("OffsetDelete", 0, offset_delete())


def errors(reply: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    return [(topic.name, [(one.partition_index, one.error_code) for one in topic.partitions]) for topic in reply.topics]


def all_with(error: ErrorCode) -> list[tuple[str, list[tuple[int, int]]]]:
    return [(name, [(index, error) for index in indexes]) for name, indexes in ASKED.items()]


def with_topics(body: Callable[[MemoryNode], Awaitable[Any]]) -> Any:
    async def prepared(node: MemoryNode) -> Any:
        for name, indexes in ASKED.items():
            node.create_topic(name, len(indexes))
        return await body(node)

    return run_with_node(prepared)


async def appended_by(node: MemoryNode, ask: Ask, others: Ask | None = None) -> tuple[Any, list[list[int]]]:
    """The response, and how many records were appended in each batch, by the turns of another task.

    Args:
        others: Called at that task's first turn after the second batch.
    """
    turns: list[list[int]] = [[]]
    append = node.logs.append

    def counted(partition: TopicPartition, batch: bytearray, verification: object | None = None) -> int:
        turns[-1].append(parse_header(batch).record_count)
        return append(partition, batch, verification)

    async def other() -> None:
        called = others is None
        while True:
            turns.append([])
            if not called and sum(map(len, turns)) >= 2:
                called = True
                assert others is not None
                await others(node)
            await trio.lowlevel.checkpoint()

    node.logs.append = counted  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        reply = await ask(node)
        nursery.cancel_scope.cancel()
    node.logs.append = append  # type: ignore[method-assign]
    return reply, [turn for turn in turns if turn]


@pytest.mark.parametrize("ask", [ask_commit, ask_transactional_commit, ask_delete])
def test_each_part_is_a_batch_and_others_run_in_between(ask: Ask) -> None:
    async def body(node: MemoryNode) -> None:
        if ask is ask_delete:
            await ask_commit(node)
        reply, turns = await appended_by(node, ask)
        assert [count for turn in turns for count in turn] == IN_PARTS
        assert max(map(len, turns)) <= 2, "in each round a part, before or after the other task's turn"
        assert errors(reply) == all_with(ErrorCode.NONE)

    with_topics(body)


def test_a_group_that_changes_meanwhile_refuses_the_later_partitions() -> None:
    async def body(node: MemoryNode) -> None:
        async def joins(node: MemoryNode) -> None:
            await join(node)

        reply, _ = await appended_by(node, ask_commit, joins)
        found = dict(errors(reply))
        accepted = [(name, index) for name, some in found.items() for index, error in some if not error]
        assert accepted == [(name, index) for name, indexes in ASKED.items() for index in indexes][: len(accepted)]
        assert 2 * PARTITIONS_AT_ONCE <= len(accepted) < PARTITIONS
        refused = {error for some in found.values() for _, error in some if error}
        assert refused == {ErrorCode.UNKNOWN_MEMBER_ID}
        [offsets] = [state.offsets for state in node.groups.runtime.states() if len(state.offsets)]
        assert [(name, index) for name, some in offsets.topics(GROUP) for index, _ in some] == accepted

    with_topics(body)


async def connector_joins(node: MemoryNode) -> None:
    """Join a group whose members' topics are unknown."""
    protocols = [JoinGroupRequestProtocol(name="default", metadata=b"m")]
    request = JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=10_000, member_id="", protocol_type="connect", protocols=protocols
    )
    await node.ask("JoinGroup", 0, request)


async def is_deleted(node: MemoryNode) -> None:
    [deleted] = await node.groups.delete([GROUP])
    assert not deleted.error_code


@pytest.mark.parametrize(
    ("others", "error"), [(connector_joins, ErrorCode.NON_EMPTY_GROUP), (is_deleted, ErrorCode.NONE)]
)
def test_what_refuses_a_later_part_of_a_delete_is_the_error_of_its_partitions(others: Ask, error: ErrorCode) -> None:
    async def body(node: MemoryNode) -> None:
        await ask_commit(node)
        reply, _ = await appended_by(node, ask_delete, others)
        assert reply.error_code == ErrorCode.NONE
        found = [error for _, some in errors(reply) for _, error in some]
        assert set(found[: 2 * PARTITIONS_AT_ONCE]) == {ErrorCode.NONE}
        assert found[-1] == error
        assert [name for name, _ in errors(reply)] == list(ASKED)

    with_topics(body)


def test_a_delete_that_is_refused_from_the_beginning_has_one_error() -> None:
    async def body(node: MemoryNode) -> None:
        reply = await ask_delete(node)
        assert (reply.error_code, reply.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])

    with_topics(body)


def test_nobody_coordinates_the_group_any_more() -> None:
    async def body(node: MemoryNode) -> None:
        async def resigns(node: MemoryNode) -> None:
            for partition, _ in list(node.groups.runtime.partitions()):
                node.groups.resigned(partition)

        reply, turns = await appended_by(node, ask_commit, resigns)
        assert len(turns) < len(IN_PARTS)
        found = [error for _, some in errors(reply) for _, error in some]
        assert len(found) == PARTITIONS
        assert found[-1] == ErrorCode.NOT_COORDINATOR

    with_topics(body)


@pytest.mark.parametrize(("count", "pauses"), [(PARTITIONS_AT_ONCE, False), (PARTITIONS_AT_ONCE + 1, True)])
def test_many_partitions_are_added_to_a_transaction_after_a_pause(count: int, *, pauses: bool) -> None:
    async def add(*_: object, **__: object) -> ErrorCode:
        decided.append(True)
        return ErrorCode.NONE

    decided: list[bool] = []
    services: Any = SimpleNamespace(
        image=SimpleNamespace(topics={"t": SimpleNamespace(partitions=range(count))}),
        transactions=SimpleNamespace(coordinator=SimpleNamespace(add_partitions=add)),
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(range(count)))],
    )

    async def main() -> None:
        context = RequestContext(services, 3, "", ConnectionInfo("PLAINTEXT", "127.0.0.1"))
        answer = begin(add_partitions_to_txn.handle(request, context))
        assert bool(decided) is not pauses
        with assert_checkpoints() if pauses else assert_no_checkpoints():
            response = await completed(answer)
        [added] = response.results_by_topic_v3_and_below
        assert [one.partition_error_code for one in added.results_by_partition] == [0] * count

    trio.run(main)
