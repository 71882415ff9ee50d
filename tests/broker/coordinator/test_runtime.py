"""CoordinatorRuntime: loading, replies after commit, append errors, end of leadership, deadlines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from support.batches import encode_batch
from support.coordinator_node import MemoryLogs, MemoryNode, run_with_node

from minikafka.broker.coordinator.groups.group_coordinator import TOPIC
from minikafka.broker.coordinator.groups.state.group_records import OffsetCommitValue, encode_record
from minikafka.broker.coordinator.runtime import Status, partition_for
from minikafka.controller.failures import FAILURES
from minikafka.protocol.errors import (
    ErrorCode,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
)
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction
from minikafka.protocol.records.record import Record

GROUP = "g"
HOME = TopicPartition(TOPIC, partition_for(GROUP, 3))


async def commit(node: MemoryNode, offset: int) -> int:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
    request = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name="t", partitions=[part])])
    return (await node.ask("OffsetCommit", 8, request)).topics[0].partitions[0].error_code


async def fetch(node: MemoryNode, *, stable: bool = False) -> tuple[int, int]:
    """(error code of the group or the partition, offset)."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=stable
    )
    (group,) = (await node.ask("OffsetFetch", 8, request)).groups
    if group.error_code:
        return group.error_code, -1
    return group.topics[0].partitions[0].error_code, group.topics[0].partitions[0].committed_offset


async def join(node: MemoryNode, member_id: str = "", session_timeout_ms: int = 10_000) -> Any:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    return await node.ask("JoinGroup", 3, request)


async def sync(node: MemoryNode, member_id: str, generation: int, assignment: bytes = b"all") -> Any:
    request = SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
    request.assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)]
    return await node.ask("SyncGroup", 3, request)


def offset_batch(offset: int, *, producer_id: int = -1, base_offset: int = 0, log_offset: int | None = None) -> bytes:
    """A commit of `offset` for t-0, as it stands in the log."""
    key = OffsetCommitKey(group=GROUP, topic="t", partition=0)
    record = Record(-1, 1, *encode_record(key, OffsetCommitValue(offset=offset)))
    transactional = producer_id >= 0
    return encode_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0 if transactional else -1,
        base_sequence=0,
        transactional=transactional,
    )


def marker_of(kind: ControlType) -> bytes:
    """The end of producer 9's transaction."""
    return encode_end_transaction(EndTxnMarker(kind, 0), producer_id=9, producer_epoch=0, timestamp=1)


def run(body: Callable[[MemoryNode], Awaitable[Any]], logs: MemoryLogs | None = None, **settings: str) -> Any:
    async def with_topic(node: MemoryNode) -> Any:
        node.create_topic("t")
        return await body(node)

    return run_with_node(with_topic, logs, {name.replace("_", "."): value for name, value in settings.items()})


# -- loading -------------------------------------------------------------------------------------------------


def test_committed_state_survives_a_restart() -> None:
    logs = MemoryLogs()
    assert run(lambda node: commit(node, 7), logs) == 0
    assert run(fetch, logs) == (0, 7)


def test_loading_skips_gaps_of_compaction_also_at_the_end() -> None:
    """KAFKA-9065: a log that ends in a hole must not be read for ever."""
    logs = MemoryLogs()
    empty_tail = encode_batch([], base_offset=90, deltas=(), last_offset_delta=9)
    logs.batches[HOME] = [
        bytearray(offset_batch(1, base_offset=10)),
        bytearray(offset_batch(2, base_offset=50)),
        bytearray(empty_tail),
    ]

    async def body(node: MemoryNode) -> tuple[int, int]:
        assert await commit(node, 3) == 0
        return await fetch(node)

    assert run(body, logs) == (0, 3)
    assert logs.end_offset(HOME) == 101


@pytest.mark.parametrize(("kind", "expected"), [(ControlType.COMMIT, 5), (ControlType.ABORT, 1)])
def test_a_transaction_in_the_log_counts_if_committed(kind: ControlType, expected: int) -> None:
    logs = MemoryLogs()
    for batch in (offset_batch(1), offset_batch(5, producer_id=9), marker_of(kind)):
        logs.append(HOME, bytearray(batch))
    assert run(fetch, logs) == (0, expected)


def test_an_open_transaction_in_the_log_is_pending() -> None:
    logs = MemoryLogs()
    for batch in (offset_batch(1), offset_batch(5, producer_id=9)):
        logs.append(HOME, bytearray(batch))

    async def body(node: MemoryNode) -> None:
        assert await fetch(node) == (0, 1)
        assert await fetch(node, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        marker = marker_of(ControlType.COMMIT)
        await node.groups.runtime.end_transaction(HOME.partition, marker, 9, committed=True)
        assert await fetch(node, stable=True) == (0, 5)

    run(body, logs)


def test_records_of_share_groups_are_skipped() -> None:
    logs = MemoryLogs()
    strange = encode_batch([Record(-1, 1, b"\x00\x0b\x00\x01x", b"\x00\x00"), Record(-1, 1, None, b"x")])
    logs.append(HOME, bytearray(strange))
    logs.append(HOME, bytearray(offset_batch(4)))
    assert run(fetch, logs) == (0, 4)


def test_while_loading_requests_fail_and_heartbeats_succeed() -> None:
    async def body(node: MemoryNode) -> None:
        node.groups.resigned(HOME.partition)
        node.groups.elected(HOME.partition, 1)
        assert (HOME.partition, Status.LOADING) in list(node.groups.runtime.partitions())
        assert await commit(node, 1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        node.groups.resigned(HOME.partition)
        node.groups.elected(HOME.partition, 2)
        listed = await node.ask("ListGroups", 4, ListGroupsRequest())
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        node.groups.resigned(HOME.partition)
        node.groups.elected(HOME.partition, 3)
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
        assert (await node.ask("Heartbeat", 4, beat)).error_code == 0
        await trio.testing.wait_all_tasks_blocked()
        assert await commit(node, 1) == 0

    run(body)


def test_a_failed_load_affects_only_its_partition() -> None:
    logs = MemoryLogs()
    torn = bytearray(encode_batch([Record(-1, 1, b"\x00\x01\x00", b"")]))
    torn[-1] ^= 0x55  # The record claims headers that it has not.
    logs.append(HOME, torn)

    async def body(node: MemoryNode) -> None:
        assert await commit(node, 1) == ErrorCode.NOT_COORDINATOR
        assert (await node.ask("ListGroups", 4, ListGroupsRequest())).error_code == 0

    run(body, logs)


# -- answers wait for commitment -----------------------------------------------------------------------------


def test_replies_are_sent_after_the_commit() -> None:
    async def body(node: MemoryNode) -> None:
        node.logs.held = held = trio.Event()
        answered: list[Any] = []

        async def note(what: Callable[[MemoryNode], Awaitable[Any]]) -> None:
            answered.append(await what(node))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, lambda node: commit(node, 4))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(note, fetch)
            await trio.sleep(4.9)
            assert not answered, "also a fetch would tell what is not committed"
            held.set()
        assert sorted(map(str, answered)) == ["(0, 4)", "0"]

    run(body)


def test_a_commit_timeout_fails_with_coordinator_not_available() -> None:
    async def body(node: MemoryNode) -> None:
        node.logs.held = trio.Event()
        began = trio.current_time()
        assert await commit(node, 4) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert trio.current_time() - began == pytest.approx(5)
        assert await fetch(node) == (ErrorCode.NOT_COORDINATOR, -1)  # what clients before 3.9 understand
        assert (await join(node)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(body)


# -- a log that refuses --------------------------------------------------------------------------------------

REFUSALS: list[tuple[KafkaError, ErrorCode]] = [
    (NotEnoughReplicasError(), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (NotLeaderOrFollowerError(), ErrorCode.NOT_COORDINATOR),
    (KafkaStorageError(), ErrorCode.NOT_COORDINATOR),
    (MessageTooLargeError(), ErrorCode.UNKNOWN_SERVER_ERROR),
]


@pytest.mark.parametrize(("refusal", "told"), REFUSALS, ids=lambda value: type(value).__name__)
def test_a_failed_append_of_a_commit_changes_nothing(refusal: KafkaError, told: ErrorCode) -> None:
    async def body(node: MemoryNode) -> None:
        assert await commit(node, 1) == 0
        node.logs.refusal = refusal
        assert await commit(node, 2) == told
        assert await fetch(node) == (0, 1)

    run(body)


@pytest.mark.parametrize(("refusal", "told"), REFUSALS, ids=lambda value: type(value).__name__)
def test_a_failed_append_creates_no_group(refusal: KafkaError, told: ErrorCode) -> None:
    async def body(node: MemoryNode) -> None:
        node.logs.refusal = refusal
        assert (await join(node)).error_code == told
        assert not (await node.ask("ListGroups", 4, ListGroupsRequest())).groups
        assert (await join(node)).error_code == 0

    run(body)


@pytest.mark.parametrize(("refusal", "told"), REFUSALS, ids=lambda value: type(value).__name__)
def test_a_failed_append_of_an_assignment_reaches_no_member(refusal: KafkaError, told: ErrorCode) -> None:
    async def body(node: MemoryNode) -> None:
        joined = await join(node)
        node.logs.refusal = refusal
        assert (await sync(node, joined.member_id, 1)).error_code == told
        again = await join(node, joined.member_id)
        assert again.generation_id == 2
        assert (await sync(node, joined.member_id, 2)).assignment == b"all"

    run(body)


def test_member_ids_fit_into_messages_for_any_client_id() -> None:
    async def body(node: MemoryNode) -> None:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=9_000,
            protocol_type="consumer",
            group_instance_id="ü" * 16_000,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        )
        joined = await node.ask("JoinGroup", 9, request, client_id="x" * 32_767)
        assert (await sync(node, joined.member_id, 1)).assignment == b"all"

    run(body)


# -- leadership ----------------------------------------------------------------------------------------------


def test_waiting_requests_fail_with_not_coordinator_when_leadership_ends() -> None:
    async def body(node: MemoryNode) -> None:
        first = await join(node)
        await sync(node, first.member_id, 1)
        answers: list[int] = []

        async def second() -> None:
            answers.append((await join(node)).error_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(second)
            await trio.testing.wait_all_tasks_blocked()
            node.groups.resigned(HOME.partition, 1)
        assert answers == [ErrorCode.NOT_COORDINATOR]
        assert await commit(node, 1) == ErrorCode.NOT_COORDINATOR

    run(body)


def test_outdated_leadership_changes_are_ignored() -> None:
    async def body(node: MemoryNode) -> None:
        node.groups.elected(HOME.partition, 5)
        await trio.testing.wait_all_tasks_blocked()
        node.groups.elected(HOME.partition, 4)
        node.groups.resigned(HOME.partition, 4)
        assert await commit(node, 1) == 0

    run(body)


def test_without_the_topic_requests_fail_with_not_coordinator() -> None:
    async def body(node: MemoryNode) -> None:
        node.logs.count = None
        assert await commit(node, 1) == ErrorCode.NOT_COORDINATOR

    run(body)


def test_cancelling_a_request_keeps_the_decision() -> None:
    async def body(node: MemoryNode) -> None:
        first = await join(node)
        await sync(node, first.member_id, 1)
        with trio.move_on_after(1):
            await join(node)
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=first.member_id)
        assert (await node.ask("Heartbeat", 4, beat)).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    run(body)


# -- time ----------------------------------------------------------------------------------------------------


def test_deadlines_fire_without_requests() -> None:
    async def body(node: MemoryNode) -> None:
        member = await join(node, session_timeout_ms=6_000)
        await sync(node, member.member_id, 1)
        before = len(node.logs.records())
        await trio.sleep(5.99)
        assert len(node.logs.records()) == before
        await trio.sleep(0.02)
        assert len(node.logs.records()) == before + 1, "the group is written as Empty"

    run(body)


def test_a_bug_at_a_deadline_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the node nor the requests that come meanwhile; and the deadline comes again."""

    async def body(node: MemoryNode) -> None:
        def broken(*_: Any) -> None:
            raise ZeroDivisionError

        failed = FAILURES["deadline"]
        member = await join(node, session_timeout_ms=6_000)
        await sync(node, member.member_id, 1)
        state = next(one for one in node.groups.runtime.states() if GROUP in one.classic_groups)
        with monkeypatch.context() as patch:
            patch.setattr(type(state), "expire", broken)
            await trio.sleep(6.1)
        assert FAILURES["deadline"] == failed + 1
        assert await commit(node, 3) == ErrorCode.UNKNOWN_MEMBER_ID, "still a member"
        await trio.sleep(1)
        assert await commit(node, 3) == 0, "its session ended after all"

    run(body)


def test_an_earlier_deadline_wakes_the_timer_task() -> None:
    async def body(node: MemoryNode) -> None:
        long = await join(node, session_timeout_ms=1_800_000)
        await sync(node, long.member_id, 1)
        with trio.fail_after(6.1):  # the second one's session ends long before the first one's
            await join_and_vanish(node)

    async def join_and_vanish(node: MemoryNode) -> None:
        request = JoinGroupRequest(
            group_id="other", session_timeout_ms=6_000, rebalance_timeout_ms=6_000, protocol_type="consumer"
        )
        request.protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
        assert (await node.ask("JoinGroup", 4, request)).error_code == ErrorCode.MEMBER_ID_REQUIRED
        state = [shard.state for shard in node.groups.runtime._shards.values() if "other" in shard.state.classic_groups]
        while state[0].classic_groups["other"].pending_joins:
            await trio.sleep(0.01)

    run(body)


@pytest.mark.parametrize(
    ("key", "count", "expected"),
    [("", 50, 0), ("golden-group", 3, 1), ("my-group", 50, 12), ("ünïcode-⚙😀", 50, 1), ("polygenelubricants", 50, 0)],
)
def test_groups_are_partitioned_as_in_java(key: str, count: int, expected: int) -> None:
    """The second is where a log of Kafka's own has it; the last one's hash is the number without a positive twin."""
    assert partition_for(key, count) == expected
