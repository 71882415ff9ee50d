"""Deadlines in steps: what very many of them decide is counted between two turns of the loop, and in all; others decide
in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from support.coordinator_bench import Bench as GroupBench
from support.coordinator_node import CLOCK_MS, MemoryLogs, MemoryNode, run_with_node
from support.coordinator_steps import LONG_AGO_MS, TRANSACTIONS, counted_calls, offsets, open_since, transactions
from support.transaction_bench import Bench, in_trio

from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.groups.group_shard import CLEANUP, MEMBERS_IN_A_STEP, GroupShard
from minikafka.broker.coordinator.groups.offsets.removal_in_steps import (
    TOMBSTONE_WORK,
    WORK_AT_ONCE,
    delete_partition_offsets,
)
from minikafka.broker.coordinator.groups.state.group_records import OffsetCommitValue
from minikafka.broker.coordinator.transactions import transaction_shard
from minikafka.broker.coordinator.transactions.transaction import Transaction
from minikafka.broker.coordinator.transactions.transaction_shard import (
    ABORTED_MAX,
    EXPIRED_MAX,
    RESUMED_MAX,
    TIMEOUTS,
    TransactionShard,
)
from minikafka.protocol.errors import NotEnoughReplicasError
from minikafka.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
)
from minikafka.protocol.names import TopicPartition

REMOVED_MAX = WORK_AT_ONCE // TOMBSTONE_WORK
COUNT = 3_000


# -- transactions ------------------------------------------------------------------------------------------------


def test_transactions_that_time_out_together_are_aborted_in_steps_and_looked_at_once() -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.held = trio.Event()
        transactions(bench.logs, COUNT, open_since(LONG_AGO_MS))
        async with bench.running():
            visited: list[str] = []
            decide = TransactionShard.has_timed_out

            def noted(shard: TransactionShard, key: str, now: Now) -> bool:
                visited.append(key)
                return decide(shard, key, now)

            with pytest.MonkeyPatch.context() as patch, counted_calls(TransactionShard, "apply") as steps:
                patch.setattr(TransactionShard, "has_timed_out", noted)
                await trio.sleep(10.5)
            assert sum(steps.counts) == len(visited) == len(set(visited)) == COUNT
            assert max(steps.counts) == ABORTED_MAX
            assert len(set(steps.rounds)) == COUNT // ABORTED_MAX, "others run between any two"

    in_trio(body)


def test_open_transactions_are_looked_at_in_steps_and_others_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_shard, "VISITED_MAX", 100)

    async def body() -> None:
        bench = Bench()
        transactions(bench.logs, COUNT, Transaction(7, 60_000, producer_epoch=0, last_update_ms=CLOCK_MS))
        transactions(bench.logs, 500, open_since(CLOCK_MS))
        async with bench.running():
            with counted_calls(TransactionShard, "has_timed_out") as steps:
                await trio.sleep(10.5)
            assert steps.counts == [100] * 5

    in_trio(body)


def test_transactional_ids_that_expire_together_are_removed_in_steps() -> None:
    async def body() -> None:
        bench = Bench(expiry_interval_ms=1_000)
        transactions(bench.logs, COUNT, Transaction(7, 60_000, producer_epoch=0, last_update_ms=LONG_AGO_MS))
        async with bench.running():
            with counted_calls(TransactionShard, "apply") as steps:
                await trio.sleep(1.5)
            assert steps.counts == [EXPIRED_MAX] * (COUNT // EXPIRED_MAX)
            assert len(set(steps.rounds)) == len(steps.rounds)

    in_trio(body)


def test_decided_transactions_of_the_last_coordinator_are_resumed_in_steps() -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.held = trio.Event()
        transactions(bench.logs, COUNT, open_since(CLOCK_MS).prepared(CLOCK_MS, 2, commit=True))
        prepared = type(bench.coordinator)
        with counted_calls(prepared, "_prepared") as steps:
            async with bench.running():
                await trio.testing.wait_all_tasks_blocked()
        assert steps.counts == [RESUMED_MAX] * (COUNT // RESUMED_MAX)
        assert bench.markers.asked == COUNT

    in_trio(body)


def test_a_transaction_that_is_decided_before_it_is_resumed_is_completed_once() -> None:
    shard_prepared: list[str] = []
    bench = Bench()
    shard = TransactionShard(
        bench.settings, 0, 1, lambda: 2, lambda _, key: shard_prepared.append(key), lambda *_: None
    )
    decided = open_since(CLOCK_MS).prepared(CLOCK_MS, 2, commit=True)
    for number in range(RESUMED_MAX + 1):
        shard.apply(f"id {number}", decided, number, -1)
    now = Now(CLOCK_MS, 0)
    list(shard.loaded(now))
    name = shard.deadlines.pop(now.steady_ms)
    assert name is not None, "resumption comes first"
    resumption = shard.expire(name, now)
    next(resumption)
    (last,) = {f"id {number}" for number in range(RESUMED_MAX + 1)} - set(shard_prepared)
    shard.apply(last, decided.completed(CLOCK_MS), RESUMED_MAX + 1, -1)
    shard.apply(last, decided, RESUMED_MAX + 2, -1)
    list(resumption)
    assert shard_prepared.count(last) == 1


@pytest.mark.parametrize("change", ["ended", "removed", "another"])
def test_a_transaction_that_others_end_meanwhile_is_not_aborted(change: str) -> None:
    bench = Bench()
    shard = TransactionShard(bench.settings, 0, 1, lambda: 2, lambda *_: None, lambda *_: None)
    ids = [f"id {number}" for number in range(2 * ABORTED_MAX)]
    for offset, key in enumerate(ids):
        shard.apply(key, open_since(LONG_AGO_MS), offset, -1)
    abort = shard.expire(TIMEOUTS, Now(CLOCK_MS, 0))
    first = next(abort)
    last = ids[-1]
    assert last not in {key for key, _ in first.records}
    committed = open_since(LONG_AGO_MS).prepared(CLOCK_MS, 2, commit=True)
    shard.apply(last, None if change == "removed" else committed, 1_000, -1)
    if change == "another":
        shard.apply(last, committed.completed(CLOCK_MS), 1_001, -1)
        shard.apply(last, open_since(CLOCK_MS), 1_002, -1)
    rest = [key for decision in abort for key, _ in decision.records]
    assert sorted(rest) == sorted(set(ids) - {key for key, _ in first.records} - {last})


def test_a_log_that_refuses_ends_the_check_until_the_next_one() -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.held = trio.Event()
        transactions(bench.logs, 500, open_since(LONG_AGO_MS))
        async with bench.running():
            bench.logs.refusal = NotEnoughReplicasError()
            with counted_calls(TransactionShard, "apply") as steps:
                await trio.sleep(19.5)
                assert steps.counts == []
                await trio.sleep(1)
                assert sum(steps.counts) == 500

    in_trio(body)


# -- groups ------------------------------------------------------------------------------------------------------

TABLES = {
    "many groups": [(f"g{number}", "t", 0) for number in range(COUNT)],
    "one group": [("g", "t", number) for number in range(COUNT)],
    "many topics": [("g", f"t{number}", 0) for number in range(COUNT)],
    "some of each": [(f"g{number % 30}", f"t{number % 7}", number) for number in range(COUNT)],
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_offsets_that_expire_together_are_removed_in_steps_with_their_groups(table: list[Any]) -> None:
    logs = MemoryLogs(1)
    offsets(logs, table)

    async def body(node: MemoryNode) -> None:
        (state,) = node.groups.runtime.states()
        groups = len(state.classic_groups)
        with counted_calls(GroupShard, "apply") as steps:
            await trio.sleep(601)
        assert sum(steps.counts) == COUNT + groups
        assert max(steps.counts) <= REMOVED_MAX + 100
        assert len(set(steps.rounds)) == len(steps.rounds) >= COUNT // REMOVED_MAX
        assert not state.classic_groups
        assert not len(state.offsets)

    run_with_node(body, logs)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_offsets_in_deleted_partitions_are_removed_in_steps(table: list[Any]) -> None:
    logs = MemoryLogs(1)
    kept = ("g", "kept", 7)
    offsets(logs, [*table, kept, ("g", "kept", 0)])

    async def body(node: MemoryNode) -> None:
        (state,) = node.groups.runtime.states()
        for number in (0, 1, 2):
            state.offsets.apply(OffsetCommitKey(group=f"p{number}", topic="t0", partition=0), OffsetCommitValue(), 0, 9)
        deleted = sorted({(topic, index) for _, topic, index in table} | {("kept", 0), ("kept", 1), ("t0", 0)})
        with counted_calls(GroupShard, "apply") as steps:
            node.groups.partitions_deleted([TopicPartition(*partition) for partition in deleted])
            await trio.testing.wait_all_tasks_blocked()
        assert sum(steps.counts) == COUNT + 1 + 3
        assert max(steps.counts) <= REMOVED_MAX
        assert len(set(steps.rounds)) == len(steps.rounds) > COUNT // REMOVED_MAX - 1
        assert len(state.offsets) == 1
        assert state.offsets.get(*kept) is not None
        assert not any(state.offsets.has_open_transaction(f"p{number}") for number in (0, 1, 2))

    run_with_node(body, logs)


def test_groups_are_looked_at_once_for_all_deleted_partitions() -> None:
    """Of a thousand groups none has read any of the thousand topics that are deleted together."""
    bench = GroupBench()
    for number in range(1_000):
        bench.state.apply(OffsetCommitKey(group=f"g{number}", topic="t", partition=0), OffsetCommitValue(), number, -1)
    looked: list[str] = []
    known_of = bench.state.offsets.known_of

    def counting(group_id: str, partitions: Any) -> Any:
        looked.append(group_id)
        return known_of(group_id, partitions)

    bench.state.offsets.known_of = counting  # type: ignore[method-assign]
    deleted = [TopicPartition(f"other {number}", 0) for number in range(1_000)]
    bench.carry_out_all(delete_partition_offsets(bench.state, bench.now, deleted))
    assert len(looked) == len(set(looked)) == 1_000


@pytest.mark.parametrize("pending", ["none", "elsewhere", "here"])
def test_each_offset_is_looked_at_once_however_many_transactions_are_open(pending: str) -> None:
    bench = GroupBench()
    for number in range(1_000):
        group = "g" if pending == "here" else "other"
        key = OffsetCommitKey(group=group, topic="open", partition=number)
        if pending != "none":
            bench.state.apply(key, OffsetCommitValue(offset=1), number, producer_id=number)
    old = OffsetCommitValue(offset=1, commit_timestamp=LONG_AGO_MS)
    for number in range(COUNT):
        bench.state.apply(OffsetCommitKey(group="g", topic="t", partition=number), old, number, -1)
    touched: list[int] = []

    class Counting(dict):  # type: ignore[type-arg]
        def get(self, *args: Any) -> Any:
            touched.append(1)
            return super().get(*args)

        def pop(self, *args: Any) -> Any:
            touched.append(1)
            return super().pop(*args)

        def __contains__(self, key: object) -> bool:
            touched.append(1)
            return super().__contains__(key)

    table = bench.state.offsets
    for transaction in table._pending.values():
        transaction.offsets = Counting(transaction.offsets)
    table._pending = Counting(table._pending)
    bench.carry_out_all(bench.state.expire(CLEANUP, bench.now))
    assert table.count("g") == 0
    assert ("g" in bench.state.classic_groups) == (pending == "here")
    assert len(touched) <= COUNT, "not once for each open transaction"


def commit_anew(bench: GroupBench, group: str, topic: str = "t", producer_id: int = -1) -> None:
    value = OffsetCommitValue(offset=2, commit_timestamp=bench.now.clock_ms)
    bench.state.apply(OffsetCommitKey(group=group, topic=topic, partition=1_499), value, 10_000, producer_id)


def delete(bench: GroupBench, group: str) -> None:
    for topic, partition in list(bench.state.offsets.partitions(group)):
        bench.state.apply(OffsetCommitKey(group=group, topic=topic, partition=partition), None, 10_000, -1)
    bench.state.classic_groups.pop(group, None)


CHANGES: dict[str, tuple[Callable[[GroupBench, str], Any], int | None]] = {
    "the last offset is committed anew": (commit_anew, 1),
    "another topic is committed": (lambda bench, group: commit_anew(bench, group, "u"), 1),
    "a transaction has an offset": (lambda bench, group: commit_anew(bench, group, "t", 7), None),
    "a member joins": (lambda bench, group: bench.join(group=group), None),
    "the group is deleted": (delete, 0),
    "nothing": (lambda bench, group: None, 0),
}
"""What happens between two steps, and how many offsets are left of a group; None if that depends on the step."""


@pytest.mark.parametrize("step", range(5))
@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_between_two_steps_counts(step: int, change: str) -> None:
    bench = GroupBench()
    act, left = CHANGES[change]
    old = OffsetCommitValue(offset=1, commit_timestamp=LONG_AGO_MS)
    names = [f"g{number}" for number in range(3)]
    for name in names:
        for number in range(1_500):
            bench.state.apply(OffsetCommitKey(group=name, topic="t", partition=number), old, number, -1)
    decisions = bench.state.expire(CLEANUP, bench.now)
    assert not isinstance(decisions, Decision)
    for number, decision in enumerate(decisions):
        bench.carry_out(decision)
        if number == step:
            for name in names:
                act(bench, name)
    assert number >= min(step, 4)
    for name in names:
        assert (name in bench.state.classic_groups) == (left != 0)
        assert left in (None, bench.state.offsets.count(name))


def test_sessions_that_end_together_end_one_by_one() -> None:
    async def body(node: MemoryNode) -> None:
        (state,) = node.groups.runtime.states()
        now = Now(node.now_ms(), int(trio.current_time() * 1000))
        for number in range(COUNT):
            state.deadlines.set(("session", f"g{number}", "m"), now.steady_ms + 1_000)
        node.groups.runtime._shards[0].timer.wake()
        with counted_calls(GroupShard, "expire") as steps:
            await trio.sleep(5)
        assert steps.counts == [1] * COUNT

    run_with_node(body, MemoryLogs(1))


def test_others_decide_while_a_check_goes_on() -> None:
    logs = MemoryLogs(1)
    offsets(logs, TABLES["one group"])

    async def body(node: MemoryNode) -> None:
        (state,) = node.groups.runtime.states()
        state.deadlines.set(("session", "other", "m"), int(trio.current_time() * 1000) + 600_000)
        fired: list[int] = []
        expire = GroupShard.expire

        def noted(shard: GroupShard, name: Any, now: Now) -> Any:
            if name != CLEANUP:
                fired.append(shard.offsets.count("g"))
            return expire(shard, name, now)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GroupShard, "expire", noted)
            left: list[int] = []
            await trio.sleep(600)
            while state.offsets.count("g"):
                left.append(state.offsets.count("g"))
                await trio.lowlevel.checkpoint()
            await trio.sleep(1)
        assert len(set(left)) >= COUNT // REMOVED_MAX - 1, "requests, too, are decided in between"
        assert [count > 0 for count in fired] == [True], "no deadline waits for the end of the check"

    run_with_node(body, logs)


def test_the_sessions_of_a_loaded_shard_begin_in_steps() -> None:
    """The coordinator serves nobody before all of them have begun."""
    bench = GroupBench()
    some = [MemberMetadata(member_id=str(number), session_timeout=9_000) for number in range(MEMBERS_IN_A_STEP // 2)]
    for group in range(4):
        value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="p", leader="0", members=some)
        bench.state.apply(GroupMetadataKey(group=f"g{group}"), value, group, -1)
    begun = [len(bench.state.deadlines)]
    for decision in bench.state.loaded(bench.now):
        assert decision == Decision()
        begun.append(len(bench.state.deadlines))
    assert begun == [1, MEMBERS_IN_A_STEP + 1, 2 * MEMBERS_IN_A_STEP + 1]


# -- leadership --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elected_again", [False, True])
@pytest.mark.parametrize("steps_before", [1, 2, 5])
def test_a_check_ends_with_the_leadership(steps_before: int, elected_again: bool) -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.held = trio.Event()
        transactions(bench.logs, COUNT, open_since(LONG_AGO_MS))
        async with bench.running():
            (state,) = bench.coordinator.runtime.states()
            applied: list[TransactionShard] = []
            apply = TransactionShard.apply

            def resigning(shard: TransactionShard, *args: Any) -> None:
                apply(shard, *args)
                applied.append(shard)
                if shard is state and len(applied) == steps_before * ABORTED_MAX:
                    bench.coordinator.runtime.resigned(0)
                    if elected_again:
                        bench.coordinator.runtime.elected(0, 9)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(TransactionShard, "apply", resigning)
                await trio.sleep(30)
            assert applied.count(state) == steps_before * ABORTED_MAX
            written = bench.logs.end_offset(TopicPartition(TRANSACTIONS, 0)) - COUNT
            assert written == (COUNT if elected_again else steps_before * ABORTED_MAX)

    in_trio(body)
