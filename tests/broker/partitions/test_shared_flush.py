"""`SharedFlush`: tasks that wait for a flush while the log is replaced by its copy, or deleted."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from support.logs import append, memory_disk, open_log

from minikafka.broker.partitions.request_waiters import SharedFlush
from minikafka.protocol.errors import KafkaStorageError


@pytest.mark.parametrize("is_replaced", [True, False])
def test_tasks_that_wait_when_the_log_is_closed_wait_for_its_copy_if_it_has_one(is_replaced: bool) -> None:
    disk, has_turn = memory_disk(), trio.Event()
    log, copy = open_log(disk), open_log(disk, directory="/data/copy-0")
    for one in (log, copy):
        append(one, b"a")
    shared, outcomes = SharedFlush(log), list[str]()

    async def hold_turn() -> None:
        async with disk.flush_turns.turn(log):
            await has_turn.wait()

    async def wait() -> None:
        try:
            await shared.until(1)
            outcomes.append("flushed")
        except KafkaStorageError:
            outcomes.append("closed")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for task in (hold_turn, wait, wait, wait):
                nursery.start_soon(task)
                await trio.testing.wait_all_tasks_blocked()
            log.close(clean=False)
            if is_replaced:
                shared.switch(copy)
            has_turn.set()

    trio.run(main)
    assert outcomes == ["flushed" if is_replaced else "closed"] * 3
    assert copy.recovery_point == (1 if is_replaced else 0)
