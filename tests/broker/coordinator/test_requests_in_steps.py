"""Requests about all groups, all transactions, or very many offsets are answered in steps, and others in between."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from support.coordinator_node import CLOCK_MS, MemoryLogs, MemoryNode, run_with_node
from support.coordinator_steps import counted_calls, offsets, open_since, transactions
from support.transaction_bench import Bench, in_trio

from minikafka.broker.coordinator.groups import group_admin
from minikafka.broker.coordinator.groups.group_admin import LISTED_AT_ONCE, TOMBSTONES_AT_ONCE
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.transactions import transaction_admin
from minikafka.broker.coordinator.transactions.transaction_admin import Filters
from minikafka.protocol.elements import BYTES_PER_ELEMENT
from minikafka.protocol.errors import ErrorCode, NotEnoughReplicasError
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.storage.steps import EVERY, Pauses

COUNT = 5_000


def test_all_groups_are_listed_in_steps() -> None:
    logs = MemoryLogs(1)
    offsets(logs, [(f"g{number}", "t", 0) for number in range(COUNT)])

    async def body(node: MemoryNode) -> None:
        with counted_calls(group_admin, "ListedGroup") as steps:
            listed = await node.groups.list_groups(ListGroupsRequest())
            await trio.lowlevel.checkpoint()
        assert (sum(steps.counts), max(steps.counts)) == (COUNT, LISTED_AT_ONCE)
        assert sorted(group.group_id for group in listed.groups) == sorted(f"g{number}" for number in range(COUNT))

    run_with_node(body, logs)


def test_very_many_states_and_types_are_read_once_and_in_steps() -> None:
    logs = MemoryLogs(3)
    offsets(logs, [("g", "t", 0)])
    request = ListGroupsRequest(states_filter=["  EMPTY ", *map(str, range(COUNT))], types_filter=["Classic"] * COUNT)

    async def body(node: MemoryNode) -> None:
        with counted_calls(Pauses, "is_due") as steps:
            listed = await node.groups.list_groups(request)
            await trio.lowlevel.checkpoint()
        assert [group.group_id for group in listed.groups] == ["g"]
        assert (sum(steps.counts), max(steps.counts)) == (2 * COUNT + 1, EVERY)

    run_with_node(body, logs)


def test_all_transactions_are_listed_in_steps_whatever_is_wanted() -> None:
    async def body() -> None:
        bench = Bench()
        transactions(bench.logs, COUNT, open_since(CLOCK_MS))
        async with bench.running() as coordinator:
            for states, found in ([], COUNT), (["Empty"], 0):
                with counted_calls(Filters, "match") as steps:
                    listed = await coordinator.list(ListTransactionsRequest(state_filters=states))
                    await trio.lowlevel.checkpoint()
                assert len(listed.transaction_states) == found
                assert (sum(steps.counts), max(steps.counts)) == (COUNT, transaction_admin.LISTED_AT_ONCE)

    in_trio(body)


@pytest.mark.parametrize("api", ["groups", "transactions"])
def test_what_is_listed_is_committed(api: str) -> None:
    """Also what was changed while the list was made."""

    async def groups(node: MemoryNode) -> None:
        node.logs.held = trio.Event()
        await one_in_steps(node.groups.list_groups(ListGroupsRequest()), node.logs)

    async def all_transactions() -> None:
        bench = Bench()
        transactions(bench.logs, COUNT, open_since(CLOCK_MS))
        async with bench.running() as coordinator:
            bench.logs.held = trio.Event()
            await one_in_steps(coordinator.list(ListTransactionsRequest()), bench.logs)

    async def one_in_steps(listing: Any, logs: MemoryLogs) -> None:
        done = trio.Event()

        async def run() -> None:
            await listing
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await trio.testing.wait_all_tasks_blocked()
            assert not done.is_set()
            assert logs.held is not None
            logs.held.set()

    if api == "transactions":
        in_trio(all_transactions)
        return
    logs = MemoryLogs(1)
    offsets(logs, [(f"g{number}", "t", 0) for number in range(COUNT)])
    run_with_node(groups, logs)


TABLES = {
    "many groups": [(f"g{number}", "t", 0) for number in range(COUNT)],
    "one group": [("g", "t", number) for number in range(COUNT)],
    "some of each": [(f"g{number % 7}", f"t{number % 3}", number) for number in range(COUNT)],
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_groups_are_deleted_in_steps(table: list[Any]) -> None:
    logs = MemoryLogs(1)
    offsets(logs, table)
    names = sorted({group for group, _, _ in table})

    async def body(node: MemoryNode) -> None:
        (state,) = node.groups.runtime.states()
        with counted_calls(GroupShard, "apply") as steps:
            done = await node.groups.delete([*names, "unknown", *names])
        assert [one.group_id for one in done] == [*names, "unknown"]
        assert [one.error_code for one in done] == len(names) * [0] + [ErrorCode.GROUP_ID_NOT_FOUND]
        assert sum(steps.counts) == COUNT + len(names)
        assert max(steps.counts) <= 2 * TOMBSTONES_AT_ONCE
        assert len(steps.counts) == len(set(steps.rounds))
        assert not state.classic_groups
        assert not len(state.offsets)

    run_with_node(body, logs)


def test_groups_with_long_names_are_deleted_in_more_steps() -> None:
    logs, at_once = MemoryLogs(1), 8
    names = [f"{number:02}".ljust(TOMBSTONES_AT_ONCE // at_once * BYTES_PER_ELEMENT, "n") for number in range(40)]
    offsets(logs, [(name, "t", 0) for name in names])

    async def body(node: MemoryNode) -> None:
        with counted_calls(GroupShard, "apply") as steps:
            done = await node.groups.delete(names)
        assert [one.error_code for one in done] == [0] * len(names)
        assert max(steps.counts) <= 2 * at_once
        assert len(steps.counts) == len(set(steps.rounds))

    run_with_node(body, logs)


@pytest.mark.parametrize("step", [1, 2, 4])
@pytest.mark.parametrize("change", ["member", "refusal"])
def test_what_happens_while_a_large_group_is_deleted_counts(
    change: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that others take, or that the log refuses to delete, is not said to be deleted."""
    logs = MemoryLogs(1)
    offsets(logs, TABLES["one group"])

    async def body(node: MemoryNode) -> None:
        (state,) = node.groups.runtime.states()
        apply, applied = GroupShard.apply, []

        def counting(shard: GroupShard, *args: Any) -> None:
            apply(shard, *args)
            applied.append(1)
            if len(applied) == step * TOMBSTONES_AT_ONCE and change == "refusal":
                logs.refusal = NotEnoughReplicasError()
            elif len(applied) == step * TOMBSTONES_AT_ONCE:
                monkeypatch.setattr(ClassicGroup, "is_empty", False)

        monkeypatch.setattr(GroupShard, "apply", counting)
        (done,) = await node.groups.delete(["g"])
        expected = ErrorCode.NON_EMPTY_GROUP if change == "member" else ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert done.error_code == expected
        assert "g" in state.classic_groups
        assert len(state.offsets) == COUNT - step * TOMBSTONES_AT_ONCE

    run_with_node(body, logs)
