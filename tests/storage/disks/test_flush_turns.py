"""Flushes of a log do not overlap, and those of all hold few files open, however many segments are rolled meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
from support.logs import append, check_indexes, memory_disk, open_log, read_all

from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.disks.flush_turns import FlushTurns
from minikafka.storage.logs.log import Log


async def flush_often(log: Log, random: Random) -> None:
    while True:
        await trio.sleep(random.random())
        await log.flush_async(all_segments=random.random() < 0.5)


async def change(log: Log, random: Random) -> None:
    """Appends, rolls, and seldom truncates."""
    for number in range(40):
        await trio.sleep(random.random() / 4)
        append(log, b"%d" % number, leader_epoch=number // 7)
        if random.random() < 0.2:
            log.roll()
        if random.random() < 0.05:
            log.truncate_to(random.randrange(log.end_offset))


@pytest.mark.parametrize("seed", range(60))
def test_a_recovery_point_stands_for_what_is_on_the_device_whatever_overlaps(seed: int) -> None:
    """A truncation while a flush waited for its turn made it reach beyond the log end."""
    disk, random = memory_disk(seed), Random(seed)
    disk.pause = lambda: trio.sleep(random.random())
    log = open_log(disk)
    expected: list[tuple[int, bytes]] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(flush_often, log, random)
            await change(log, random)
            flushed = trio.Event()
            log.on_flushed = flushed.set
            await flushed.wait()
            expected.extend(one for one in read_all(log) if one[0] < log.recovery_point)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    disk.crash()
    again = open_log(disk, recovery_point=log.recovery_point)
    assert [one for one in read_all(again) if one[0] < log.recovery_point] == expected
    assert again.end_offset >= log.recovery_point
    check_indexes(again)


@pytest.mark.parametrize("seed", range(20))
def test_a_flush_does_not_overtake_another_one_that_has_taken_the_names_of_new_files(seed: int) -> None:
    disk = memory_disk(seed)
    log = open_log(disk)
    log.flush()
    append(log, b"rolled")
    log.roll()
    append(log, b"acknowledged once it is flushed")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            disk.pause = trio.sleep_forever
            nursery.start_soon(log.flush_async)
            await trio.testing.wait_all_tasks_blocked()
            disk.pause = None
            nursery.start_soon(log.flush_async)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(main)
    disk.crash()
    again = open_log(disk, recovery_point=log.recovery_point)
    assert again.end_offset >= log.recovery_point


class RollingDisk(RealDisk):
    """Each call that waits for the device takes so long that `meanwhile` happens; counts the files that are held."""

    def __init__(self, open_files_max: int) -> None:
        super().__init__(open_files_max=open_files_max)
        self.meanwhile: Callable[[], None] = lambda: None
        self.held: list[int] = []

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        self.held.append(self.open_files.count - len(self.open_files._sweepable))
        self.meanwhile()
        await trio.lowlevel.checkpoint()
        return function(*args)


@pytest.mark.slow
@pytest.mark.parametrize("open_files_max", [20, 256, 1024, 4096])
def test_a_flush_holds_few_segments_however_many_are_rolled_meanwhile(tmp_path: Path, open_files_max: int) -> None:
    disk = RollingDisk(open_files_max)
    log = open_log(disk, directory=str(tmp_path / "flights-0"))

    def roll(count: int) -> None:
        for number in range(count):
            append(log, b"%d" % number)
            log.roll()

    def roll_at_first() -> None:
        roll(300 if len(disk.held) < 3 else 0)

    disk.meanwhile = roll_at_first
    roll(1)

    async def main() -> None:
        while log.recovery_point < log.end_offset:
            await log.flush_async()

    trio.run(main)
    assert log.recovery_point == 601
    assert max(disk.held) <= 4 * (disk.flush_turns.segments_max + 1)
    assert not log.state.unflushed.touched
    assert not log.state.snapshots.unsynced
    log.close()


@pytest.mark.parametrize(("files_max", "at_once"), [(1, 1), (16, 4), (128, 32), (4096, 32)])
def test_so_many_logs_are_flushed_at_a_time_that_their_files_fit(tmp_path: Path, files_max: int, at_once: int) -> None:
    disk = RollingDisk(files_max)
    logs = [open_log(disk, directory=str(tmp_path / f"flights-{number}")) for number in range(50)]
    for log in logs:
        append(log, b"a")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for log in logs:
                nursery.start_soon(log.flush_async)

    trio.run(main)
    assert [log.recovery_point for log in logs] == [1] * 50
    assert max(disk.held) <= 3 * at_once
    for log in logs:
        log.close()


@pytest.mark.parametrize("files_max", [1, 100, 128, 300, 1024, 1365, 4096, 100_000])
def test_all_flushes_together_hold_no_more_files_than_are_allowed(files_max: int) -> None:
    turns = FlushTurns(files_max)
    assert turns.at_once * turns.segments_max * 4 <= max(4, files_max)
    assert 1 <= turns.segments_max <= 32


def test_a_flush_that_is_cancelled_while_it_waits_leaves_its_turn_to_others() -> None:
    turns, order = FlushTurns(4), list[str]()

    async def flush(name: str, log: str, scope: trio.CancelScope) -> None:
        with scope:
            async with turns.turn(log):
                order.append(name)
                await trio.sleep(5)

    async def main() -> None:
        scopes = {name: trio.CancelScope() for name in ("first", "same log", "other log", "last")}
        async with trio.open_nursery() as nursery:
            for name, scope in scopes.items():
                nursery.start_soon(flush, name, "b" if name == "other log" else "a", scope)
                await trio.testing.wait_all_tasks_blocked()
            scopes["same log"].cancel()
            scopes["other log"].cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert order == ["first", "last"]
