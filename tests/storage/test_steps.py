"""Nobody waits for a disk that syncs slowly: what is flushed, closed, checkpointed and removed blocks threads only."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
from support.logs import SMALL, Clock, append, make_batch

from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import batches
from minikafka.storage.directories import offset_checkpoint
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.directories.offset_checkpoint import Prepared
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.checkpoint_files import read_offsets
from minikafka.storage.disks.disk import MemoryDisk, RealDisk
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.steps import Steps, at_once, in_steps

KEYS = [TopicPartition("t", index) for index in range(70)]
RECOVERY_POINTS = "/data/recovery-point-offset-checkpoint"
SYNC_S = 5.0


class SlowDisk(MemoryDisk):
    """Each `run` takes five seconds, in which the loop goes on. A sync outside of it fails the test, once armed."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.armed = False
        self._in_thread = False
        self.make_directory("/data")
        self.sync_directory("/")

    def call(self, kind: str, path: str) -> None:
        super().call(kind, path)
        assert not self.armed or self._in_thread or kind not in {"sync", "remove"}, f"{kind} of {path} on the loop"

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        await trio.sleep(SYNC_S)
        self._in_thread = True
        try:
            return function(*args)
        finally:
            self._in_thread = False


def manage(disk: MemoryDisk, clock: Clock) -> LogManager:
    manager = LogManager(
        LogContext(disk, clock, Random(1)), ["/data"], config_of=lambda topic: SMALL, node_id=1, cluster_id="c"
    )
    manager.load()
    return manager


def filled(disk: SlowDisk, clock: Clock) -> LogManager:
    """A manager of logs of which one has more segments than one flush takes."""
    manager = manage(disk, clock)
    for key in KEYS:
        append(manager.create(key, topic_id=bytes(16)), b"x")
    log = manager.logs[KEYS[0]]
    while len(log.segments) < 40:
        data = make_batch([bytes(1500)] * 2)
        log.append(data, list(batches(data)), leader_epoch=0)
    disk.armed = True
    return manager


def beats_during(work: Callable[[], Awaitable[object]]) -> tuple[int, float]:
    """How often a heartbeat of 0.1 s beats while `work` runs on virtual time, and how long that takes in seconds."""
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await trio.sleep(0.1)
            beats += 1

    async def main() -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat)
            began = trio.current_time()
            await work()
            nursery.cancel_scope.cancel()
            return trio.current_time() - began

    seconds = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return beats, seconds


@pytest.mark.slow
def test_the_loop_goes_on_while_many_logs_are_closed_on_a_slow_disk() -> None:
    disk, clock = SlowDisk(), Clock()
    manager = filled(disk, clock)
    end = manager.logs[KEYS[0]].end_offset
    beats, seconds = beats_during(partial(manager.close_async, dict.fromkeys(KEYS, 1), broker_epoch=3))
    assert seconds >= 5 * SYNC_S
    assert beats > seconds * 9
    disk.armed = False
    disk.crash()
    again = manage(disk, clock)
    assert (again.failures.clean, again.failures.previous_broker_epoch) == (True, 3)
    assert again.logs[KEYS[0]].end_offset == end
    assert [again.high_watermark(key) for key in KEYS] == [1] * len(KEYS)


def test_the_loop_goes_on_while_checkpoints_are_written_and_logs_are_removed_on_a_slow_disk() -> None:
    disk, clock = SlowDisk(), Clock()
    manager = filled(disk, clock)

    async def upkeep() -> None:
        await manager.upkeep.flush_due()
        await manager.upkeep.write_checkpoints_async()
        await manager.upkeep.write_high_watermarks(dict.fromkeys(KEYS, 1))
        manager.logs[KEYS[0]].advance_start_offset(30)
        manager.logs[KEYS[0]].delete_old_segments(30)
        manager.delete(KEYS[1])
        clock.ms += 1 << 30
        await manager.upkeep.remove_deleted()
        manager.create(KEYS[1], topic_id=bytes(16))  # What was known of the earlier log is forgotten already.

    beats, seconds = beats_during(upkeep)
    assert seconds >= 7 * SYNC_S
    assert beats > seconds * 9
    assert KEYS[1] not in read_offsets(disk, RECOVERY_POINTS)
    assert not [name for name in disk.list(f"/data/{KEYS[0]}") if name.endswith(".deleted")]


def test_no_thread_is_called_for_checkpoints_that_have_not_changed() -> None:
    disk, clock = SlowDisk(), Clock()
    manager = filled(disk, clock)

    async def checkpoint() -> None:
        await manager.upkeep.write_checkpoints_async()
        await manager.upkeep.write_high_watermarks(dict.fromkeys(KEYS, 1))

    assert beats_during(checkpoint)[1] >= 2 * SYNC_S
    assert beats_during(checkpoint)[1] == 0
    disk.armed = False
    append(manager.logs[KEYS[0]], b"x")
    manager.logs[KEYS[0]].flush()
    assert beats_during(checkpoint)[1] == SYNC_S
    assert read_offsets(disk, RECOVERY_POINTS)[KEYS[0]] == manager.logs[KEYS[0]].end_offset


def test_a_checkpoint_that_could_not_be_written_is_written_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, clock = SlowDisk(), Clock()
    manager = filled(disk, clock)
    disk.armed = False
    directory, found = manager.directories[0], dict.fromkeys(KEYS, 1)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files, "write_offsets", _raise_full)
        write = at_once(directory.checkpoints.prepare_high_watermarks(found))
        with pytest.raises(OSError, match="full"):
            write()
    at_once(directory.checkpoints.prepare_high_watermarks(found))()
    assert read_offsets(disk, "/data/replication-offset-checkpoint") == dict.fromkeys(KEYS, 1)


def _raise_full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "full")


def test_a_checkpoint_that_a_thread_writes_late_does_not_replace_a_newer_one() -> None:
    disk, clock = SlowDisk(), Clock()
    manager = manage(disk, clock)
    log, directory = manager.create(KEYS[0]), manager.directories[0]
    for value in (b"a", b"b", b"c"):
        append(log, value)
    log.flush()
    late = at_once(directory.checkpoints.prepare_recovery_points())
    log.truncate_to(1)
    assert read_offsets(disk, RECOVERY_POINTS) == {KEYS[0]: 1}
    late()
    assert read_offsets(disk, RECOVERY_POINTS) == {KEYS[0]: 1}, "recovery would miss what was truncated"


@pytest.mark.parametrize("name", ["recovery points", "start offsets", "high watermarks", "cleaner offsets"])
@pytest.mark.parametrize("meanwhile", ["nothing", "made anew", "prepared again"])
@pytest.mark.parametrize("pause", [1, 2])
def test_a_checkpoint_that_is_prepared_in_steps_knows_what_happens_meanwhile(
    monkeypatch: pytest.MonkeyPatch, name: str, meanwhile: str, pause: int
) -> None:
    """As one that is prepared before, or after. A log that is made anew has nothing of the former one."""
    monkeypatch.setattr(offset_checkpoint, "LOGS_AT_ONCE", 1)
    disk, clock = SlowDisk(), Clock()
    manager, directory, file, prepare = _with_offsets(disk, clock, name)
    preparing = prepare(2)
    for _ in range(pause):
        next(preparing)
    if meanwhile == "made anew":
        manager.delete(KEYS[0])
        manager.create(KEYS[0])
    if meanwhile == "prepared again":
        if name == "recovery points":
            manager.logs[KEYS[0]].truncate_to(1)
        else:
            at_once(prepare(1))()
    at_once(preparing)()
    found = read_offsets(disk, f"/data/{file}")
    expected = {"nothing": (2,), "prepared again": (1,)}.get(meanwhile, (None, 0))
    assert found.get(KEYS[0]) in expected
    assert found[KEYS[1]] == (1 if meanwhile == "prepared again" and name != "recovery points" else 2)
    for checkpoint in directory.checkpoints._all():
        assert not checkpoint._collections


def _with_offsets(
    disk: SlowDisk, clock: Clock, name: str
) -> tuple[LogManager, DataDirectory, str, Callable[[int], Prepared]]:
    """Logs with two records, the name of a checkpoint, and what prepares it, with a given offset if it has one."""
    manager = manage(disk, clock)
    directory = manager.directories[0]
    checkpoints = directory.checkpoints
    for key in KEYS[:2]:
        log = manager.create(key)
        for value in (b"a", b"b"):
            append(log, value)
        log.flush()
    disk.armed = False

    def cleaner_offsets(offset: int) -> Prepared:
        checkpoints.cleaner_offsets.offsets.update(dict.fromkeys(KEYS[:2], offset))
        return checkpoints.prepare_cleaner_offset(KEYS[1], offset)

    def start_offsets(offset: int) -> Prepared:
        for key in KEYS[:2]:
            manager.logs[key].state.start_offset = offset
        return checkpoints.prepare_start_offsets()

    file, prepare = {
        "recovery points": ("recovery-point-offset-checkpoint", lambda _: checkpoints.prepare_recovery_points()),
        "start offsets": ("log-start-offset-checkpoint", start_offsets),
        "high watermarks": (
            "replication-offset-checkpoint",
            lambda offset: checkpoints.prepare_high_watermarks(dict.fromkeys(KEYS[:2], offset)),
        ),
        "cleaner offsets": ("cleaner-offset-checkpoint", cleaner_offsets),
    }[name]
    return manager, directory, file, prepare


def test_a_log_that_is_made_anew_is_forgotten_also_by_a_checkpoint_that_waits_for_its_thread() -> None:
    disk, clock = SlowDisk(), Clock()
    manager = manage(disk, clock)
    log, directory = manager.create(KEYS[0]), manager.directories[0]
    append(log, b"a", b"b")
    log.flush()
    late = at_once(directory.checkpoints.prepare_recovery_points())
    manager.delete(KEYS[0])
    manager.create(KEYS[0])
    late()
    assert read_offsets(disk, RECOVERY_POINTS).get(KEYS[0], 0) == 0


def answers(fail: bool) -> Steps[str]:
    first = yield lambda: 1
    try:
        second = yield partial(_raise if fail else int, OSError("full") if fail else 2)
    except OSError as error:
        return f"{first} {error}"
    return f"{first} {second}"


def _raise(error: OSError) -> None:
    raise error


@pytest.mark.parametrize(("fail", "result"), [(False, "1 2"), (True, "1 full")])
def test_a_generator_gets_the_results_and_the_errors_of_what_it_yields(fail: bool, result: str) -> None:
    assert at_once(answers(fail)) == result

    async def main() -> str:
        return await in_steps(answers(fail), RealDisk())

    assert trio.run(main) == result


def test_what_ends_a_call_ends_the_generator() -> None:
    ended = []

    def work() -> Generator[Callable[[], Any], Any, None]:
        try:
            yield lambda: 1 // 0
        finally:
            ended.append(True)

    with pytest.raises(ZeroDivisionError):
        at_once(work())
    assert ended == [True]
