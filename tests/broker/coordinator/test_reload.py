"""A bug after an append: the state is not what the log says. The shard begins anew from it, nothing else ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import structlog
import trio
import trio.testing
from support.coordinator_node import MemoryNode, run_with_node
from support.transaction_bench import Bench, in_trio

from minikafka.broker.coordinator.decision import Decision, Producer
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.state.group_records import OffsetCommitValue
from minikafka.broker.coordinator.runtime import RELOAD_S_MAX, CoordinatorRuntime
from minikafka.broker.coordinator.shard import Status
from minikafka.broker.coordinator.transactions.transaction_shard import TransactionShard
from minikafka.controller.failures import FAILURES
from minikafka.protocol.errors import NotCoordinatorError
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction
from minikafka.storage.waits import begin

KEYS = [OffsetCommitKey(group="g", topic="t", partition=number) for number in range(5)]
Runtime = CoordinatorRuntime[GroupShard]


def commit(offset: int, then: Callable[[], Decision] | None = None, producer: Producer | None = None) -> Decision:
    """Five records."""
    return Decision([(key, OffsetCommitValue(offset=offset)) for key in KEYS], then=then, producer=producer)


def decide(runtime: Runtime, decision: Decision) -> None:
    """Carry out a decision of partition 0, which also replies."""
    begin(runtime.decide(0, lambda state, now, ticket: replace(decision, replies=[(ticket, None)])))


def committed(state: GroupShard) -> list[int]:
    return [found.offset for key in KEYS if (found := state.offsets.get("g", "t", key.partition))]


class Bug(Exception):
    pass


def fails(*_: object, **__: object) -> Any:
    raise Bug


async def fails_in_a_task() -> None:
    raise Bug


def break_apply(patch: pytest.MonkeyPatch, owner: Any, after: int) -> None:
    """The record after so many meets a bug, once."""
    apply, left = owner.apply, [after]

    def broken(state: Any, *args: Any) -> None:
        left[0] -= 1
        if left[0] == -1:
            raise Bug
        apply(state, *args)

    patch.setattr(owner, "apply", broken)


def by_request(runtime: Runtime, patch: pytest.MonkeyPatch) -> None:
    break_apply(patch, GroupShard, 2)
    with pytest.raises(Bug):
        decide(runtime, commit(2))


def by_what_follows(runtime: Runtime, patch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Bug):
        decide(runtime, commit(2, then=fails))


def by_deadline(runtime: Runtime, patch: pytest.MonkeyPatch) -> None:
    break_apply(patch, GroupShard, 2)
    patch.setattr(GroupShard, "expire", lambda *_: commit(2))
    set_deadline(runtime)


def by_deadline_in_steps(runtime: Runtime, patch: pytest.MonkeyPatch) -> None:
    break_apply(patch, GroupShard, 2)
    patch.setattr(GroupShard, "expire", lambda *_: (one for one in (Decision(), commit(2), commit(3))))
    set_deadline(runtime)


def set_deadline(runtime: Runtime) -> None:
    shard = runtime._shards[0]
    shard.state.deadlines.set(("session", "g", "m"), 0)
    assert shard.timer is not None
    shard.timer.wake()


def by_marker(runtime: Runtime, patch: pytest.MonkeyPatch) -> None:
    decide(runtime, commit(2, producer=Producer(9, 0)))
    marker = encode_end_transaction(EndTxnMarker(ControlType.COMMIT, 0), producer_id=9, producer_epoch=0, timestamp=1)
    with pytest.MonkeyPatch.context() as once:
        once.setattr(GroupShard, "end_transaction", fails)
        with pytest.raises(Bug):
            begin(runtime.end_transaction(0, marker, 9, committed=True))


def by_task(runtime: Runtime, patch: pytest.MonkeyPatch) -> None:
    decide(runtime, commit(2))
    runtime.start_soon(0, fails_in_a_task)


@pytest.mark.parametrize(
    "meet", [by_request, by_what_follows, by_deadline, by_deadline_in_steps, by_marker, by_task]
)
def test_after_a_bug_the_state_is_that_of_the_log(
    meet: Callable[[Runtime, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(node: MemoryNode) -> None:
        runtime = node.groups.runtime
        decide(runtime, commit(1))
        before = list(runtime.states())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refused, runtime)
            await trio.testing.wait_all_tasks_blocked()
            meet(runtime, monkeypatch)
            await trio.testing.wait_all_tasks_blocked()
        assert [status for _, status in runtime.partitions()] == [Status.LOADING, Status.ACTIVE, Status.ACTIVE]
        await trio.sleep(1.5)
        monkeypatch.undo()
        after = list(runtime.states())
        assert [one is other for one, other in zip(before, after, strict=True)] == [False, True, True]
        assert committed(after[0]) == [2] * 5
        decide(runtime, commit(4))
        assert committed(after[0]) == [4] * 5

    async def refused(runtime: Runtime) -> None:
        with trio.fail_after(10), pytest.raises(NotCoordinatorError):
            await runtime.decide(0, lambda *_: Decision())

    with structlog.testing.capture_logs() as logs:
        run_with_node(body)
    assert [one["delay_s"] for one in logs if one["event"] == "coordinator loaded again"] == [1]


def test_a_bug_before_the_append_keeps_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(node: MemoryNode) -> None:
        runtime = node.groups.runtime
        before = list(runtime.states())
        with pytest.raises(Bug):
            begin(runtime.decide(0, fails))
        monkeypatch.setattr(GroupShard, "encode", fails)
        with pytest.raises(Bug):
            decide(runtime, commit(1))
        assert all(one is other for one, other in zip(before, runtime.states(), strict=True))

    run_with_node(body)


def test_a_record_that_no_load_can_apply_takes_only_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Apache Kafka the coordinator fails until another node leads the partition."""

    async def body(node: MemoryNode) -> None:
        runtime = node.groups.runtime
        monkeypatch.setattr(GroupShard, "apply", fails)
        with pytest.raises(Bug):
            decide(runtime, commit(1))
        await trio.sleep(2 * RELOAD_S_MAX)
        assert [status for _, status in runtime.partitions()] == [Status.FAILED, Status.ACTIVE, Status.ACTIVE]
        with pytest.raises(NotCoordinatorError):
            decide(runtime, commit(1))
        monkeypatch.undo()
        runtime.elected(0, 1)
        await trio.testing.wait_all_tasks_blocked()
        decide(runtime, commit(2))

    with structlog.testing.capture_logs() as logs:
        run_with_node(body)
    assert [one["event"] for one in logs if one["log_level"] == "error"] == [
        "coordinator loaded again",
        "coordinator load failed",
    ]


def test_a_shard_that_fails_again_and_again_is_loaded_ever_later() -> None:
    async def body(node: MemoryNode) -> None:
        for wait in (0.0, 1.5, 2.5, 4.5, 8.5, 16.5, 32.5, 60.5, 60.5 + 2 * RELOAD_S_MAX):
            await trio.sleep(wait)
            node.groups.runtime.start_soon(0, fails_in_a_task)
            await trio.testing.wait_all_tasks_blocked()

    failed = FAILURES["decision"]
    with structlog.testing.capture_logs() as logs:
        run_with_node(body)
    delays = [one["delay_s"] for one in logs if one["event"] == "coordinator loaded again"]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 0]
    assert FAILURES["decision"] == failed + len(delays)


@pytest.mark.parametrize("failures", [1, 2, 4])
def test_a_transaction_is_completed_although_its_markers_met_bugs(failures: int) -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.at_once = True
        write, left = bench.markers.write, [failures]

        def broken(*args: Any) -> Any:
            left[0] -= 1
            return fails() if left[0] >= 0 else write(*args)

        bench.markers.write = broken  # type: ignore[method-assign]
        async with bench.running():
            await bench.ended(await bench.init())
            await trio.sleep(5)
            assert bench.now.state.title == "CompleteCommit"
            assert len(bench.markers.written) == 1

    failed = FAILURES["decision"]
    with structlog.testing.capture_logs():
        in_trio(body)
    assert FAILURES["decision"] == failed + failures


@pytest.mark.parametrize("at_once", [False, True])
def test_a_transaction_is_completed_although_its_last_record_met_a_bug(
    at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that completes transactions, of all partitions of the node, goes on."""

    async def body() -> None:
        bench = Bench()
        bench.markers.at_once = at_once
        async with bench.running():
            producer = await bench.init()
            await bench.add(producer)
            break_apply(monkeypatch, TransactionShard, 1)
            after = await bench.end(producer)
            await trio.sleep(3)
            assert bench.now.state.title == "CompleteCommit"
            await bench.ended(after)
            assert bench.now.state.title == "CompleteCommit"

    failed = FAILURES["decision"]
    with structlog.testing.capture_logs():
        in_trio(body)
    assert FAILURES["decision"] == failed + 1
