"""Completions: a decided transaction is completed without a task where nothing has to be waited for."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from support.transaction_bench import ID, PARTITIONS, V1, Bench, in_trio

from minikafka.broker.coordinator.transactions.transaction import TransactionState
from minikafka.protocol.errors import ErrorCode, NotEnoughReplicasError
from minikafka.storage.waits import Rest, begin, completed


def test_markers_that_need_no_waiting_need_no_task() -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.at_once = True
        async with bench.running():
            producer = await bench.init()
            for _ in range(3):
                await bench.add(producer)
                producer = await bench.end(producer)
                assert bench.now.state is TransactionState.PREPARE_COMMIT, "the answer comes first"
                tasks = trio.lowlevel.current_statistics().tasks_living
                while bench.now.is_prepared:
                    await trio.lowlevel.checkpoint()
                    assert trio.lowlevel.current_statistics().tasks_living == tasks
            assert bench.now.state is TransactionState.COMPLETE_COMMIT
        assert [names for _, names in bench.markers.written] == [PARTITIONS] * 3

    in_trio(body)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_final_state_that_cannot_be_written_is_written_later(at_once: bool) -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.at_once = at_once
        async with bench.running():
            producer = await bench.init()
            await bench.add(producer)
            await bench.end(producer)
            bench.logs.refusal = NotEnoughReplicasError("for a moment")
            await trio.sleep(1)
            assert bench.logs.refusal is None
            assert bench.now.state is TransactionState.COMPLETE_COMMIT
        assert len(bench.markers.written) == 1, "the markers are not written again"

    in_trio(body)


def test_a_final_state_that_is_not_committed_yet_is_written_once() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            producer = await bench.init()
            await bench.add(producer)
            bench.markers.held = trio.Event()
            await bench.end(producer)
            await trio.testing.wait_all_tasks_blocked()
            bench.logs.held = trio.Event()
            bench.markers.held.set()
            await trio.testing.wait_all_tasks_blocked()
            assert bench.now.state is TransactionState.COMPLETE_COMMIT
            written = len(bench.logs.records())
            bench.logs.held.set()
            await trio.sleep(1)
            assert len(bench.logs.records()) == written

    in_trio(body)


def test_a_coordinator_that_resigns_before_it_comes_to_the_markers_writes_none() -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.at_once = True
        async with bench.running() as coordinator:
            producer = await bench.init()
            await bench.add(producer)
            await bench.end(producer)
            coordinator.runtime.resigned(0)
            await trio.testing.wait_all_tasks_blocked()
        assert bench.markers.asked == 0

    in_trio(body)


def test_a_partition_is_verified_at_once_if_its_addition_is_committed() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running() as coordinator:
            producer = await bench.init()
            bench.logs.held = trio.Event()
            added = begin(bench.coordinator.add_partitions(ID, producer, PARTITIONS, client_version=V1))
            assert isinstance(added, Rest)
            verified = begin(coordinator.verify_partitions(ID, producer, PARTITIONS))
            assert isinstance(verified, Rest), "another leader may not know the partitions"
            bench.logs.held.set()
            assert await completed(added) is ErrorCode.NONE
            assert await completed(verified) == dict.fromkeys(PARTITIONS, ErrorCode.NONE)
            verified = begin(coordinator.verify_partitions(ID, producer, PARTITIONS))
            assert verified == dict.fromkeys(PARTITIONS, ErrorCode.NONE)

    in_trio(body)
