"""The disk of a simulated machine: its processes, power failures, slow and full disks, and descriptors."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest
import trio
from support.logs import append
from trio.testing import MockClock

from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.logs.log_context import LogContext
from simulation.disk_operations import changes, disk_of, fails, reads, written
from simulation.world.disk_faults import ProcessEnded, path_of
from simulation.world.process_disk import ProcessDisk

# -- processes and power ---------------------------------------------------------------------------------------------


def test_a_killed_process_leaves_its_writes_in_the_page_cache_and_can_do_no_harm() -> None:
    disk = disk_of()
    old = disk.attach()
    file = written(old, "/data/a/one", b"synced")
    file.append(b" and not")
    before = disk.fingerprint()
    disk.process_killed()
    for operation in (*changes(old, file, "/data/a"), *reads(old, file, "/data/a")):
        fails(errno.EIO, operation)
    for method, path in ((old.exists, "/data/a"), (old.remove_tree, "/data/a"), (old.sync_file, "/data/a/one")):
        with pytest.raises(ProcessEnded):
            method(path)
    assert disk.fingerprint() == before
    new = disk.attach()
    assert new.list("/data/a") == ["one"]
    assert new.read_bytes("/data/a/one") == b"synced and not"
    new.sync_file("/data/a/one")
    disk.power_failure()
    assert disk.read_bytes("/data/a/one") == b"synced and not"


def test_a_power_failure_drops_or_tears_what_was_not_synced() -> None:
    left: set[bytes] = set()
    for seed in range(60):
        disk = disk_of(seed)
        file = written(disk.attach(), "/data/a/one", b"synced")
        file.append(b"123")
        disk.power_failure()
        fails(errno.EIO, file.append, b"late")
        data = disk.attach().read_bytes("/data/a/one")
        left.add(data)
        assert disk.effects["power failure with loss"] == (data != b"synced123")
    assert {b"synced", b"synced1", b"synced123", b"synced\0\0\0"} <= left


def test_a_lock_ends_with_its_process_and_with_nothing_else() -> None:
    disk = disk_of()
    first, second = disk.attach(), disk.attach()
    first.lock("/data/a/.lock")
    first.lock("/meta/.lock")
    with pytest.raises(BlockingIOError):
        second.lock("/data/a/.lock")
    second.unlock_all()
    with pytest.raises(BlockingIOError):
        second.lock("/meta/.lock")
    disk.process_killed()
    third = disk.attach()
    third.lock("/data/a/.lock")
    first.unlock_all()
    with pytest.raises(BlockingIOError):
        disk.attach().lock("/data/a/.lock")
    disk.power_failure()
    disk.attach().lock("/data/a/.lock")


def test_one_seed_has_one_outcome() -> None:
    assert len({play("7") for _ in range(3)}) == 1
    assert len({play(str(seed)) for seed in range(20)}) > 5


def play(seed: str) -> tuple[int, tuple[tuple[str, int], ...]]:
    disk, random = disk_of(seed), Random(seed)
    process = disk.attach()
    disk.fail_directory("/data/b", "writes", probability=0.3)
    for number in range(30):
        at = random.choice(["/data/a", "/data/b"])
        try:
            file = process.open(f"{at}/{number % 4}", create=True)
            file.append(random.randbytes(700))
            if number % 5 == 0:
                file.sync()
                process.sync_directory(at)
        except OSError:
            continue
    disk.rot("/data/a", random)
    disk.power_failure()
    return disk.fingerprint(), tuple(sorted(disk.effects.items()))


# -- slow ------------------------------------------------------------------------------------------------------------


class Holder:
    def __init__(self, path: str) -> None:
        self.path = path

    def work(self) -> float:
        return trio.current_time()


def test_a_slow_directory_delays_the_functions_that_work_on_it() -> None:
    disk = disk_of()
    process = disk.attach()
    disk.slow("/data/a", lambda random: random.uniform(4, 5))

    async def main() -> tuple[float, ...]:
        started = trio.current_time()
        inside = await process.run(Holder("/data/a/one").work)
        slow = trio.current_time()
        await process.run(Holder("/data/b/one").work)
        await process.run(process.write_atomically, "/data/b/two", b"x")
        other = trio.current_time()
        await process.run(process.write_atomically, "/data/a/two", b"x")
        again = trio.current_time()
        disk.fast("/data/a")
        await process.run(process.write_atomically, "/data/a/two", b"x")
        return inside - started, slow - started, other - slow, again - other, trio.current_time() - again

    inside, slow, other, again, fast = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert 0 < inside < slow, "the effect is neither at the beginning nor at the end"
    assert 4 <= slow <= 5
    assert 4 <= again <= 5
    assert other == fast == 0
    assert disk.effects == {"slow": 2}


def test_cancellation_waits_for_a_slow_disk_and_a_killed_process_has_no_effect() -> None:
    disk = disk_of()
    process = disk.attach()
    disk.latency(lambda random: 3.0)

    async def main() -> float:
        started = trio.current_time()
        with trio.move_on_after(1):
            await process.run(process.write_atomically, "/data/a/one", b"x")
        ended = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(killed_write)
            await trio.testing.wait_all_tasks_blocked()
            disk.process_killed()
        return ended - started

    async def killed_write() -> None:
        with pytest.raises(ProcessEnded):
            await process.run(process.write_atomically, "/data/a/two", b"x")

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == 3
    assert disk.list("/data/a") == ["one"]
    assert disk.effects == {}


def test_the_path_of_a_function_is_found_in_its_arguments_its_object_or_its_closure() -> None:
    held = Holder("/data/a/x")
    assert path_of(held.work, ()) == "/data/a/x"
    assert path_of(lambda: held.work(), ()) == "/data/a/x"
    assert path_of(len, ("/meta/y",)) == "/meta/y"
    assert path_of(len, (b"z",)) is None


def test_a_flush_of_a_log_and_the_write_of_high_watermarks_are_as_slow_as_their_directory() -> None:
    disk = disk_of()
    key = TopicPartition("flights", 0)
    slow = {"/data/a": 0.0, "/data/b": 0.0}
    for directory in slow:
        disk.slow(directory, lambda random, directory=directory: slow[directory])  # type: ignore[misc]
    manager = LogManager(LogContext(disk.attach(), lambda: 0, Random(1)), ["/data/a"], node_id=1, cluster_id="one")
    manager.load()
    append(manager.create(key, topic_id=bytes(16)), b"x")

    async def main() -> list[float]:
        times: list[float] = []
        for directory, seconds in (("/data/b", 9.0), ("/data/a", 2.0)):
            slow[directory] = seconds
            started = trio.current_time()
            await manager.logs[key].flush_async()
            await manager.upkeep.write_high_watermarks({key: len(times)})
            times.append(trio.current_time() - started)
            append(manager.logs[key], b"y")
        return times

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == [0, 4]


def test_a_hook_sees_each_operation_before_its_effect() -> None:
    disk = disk_of()
    process = disk.attach()
    seen: list[tuple[str, str, bool]] = []
    disk.on_operation(lambda kind, path: seen.append((kind, path, disk.exists("/data/a/one"))))
    process.open("/data/a/one", create=True).append(b"x")
    disk.on_operation(None)
    process.list("/data/a")
    assert seen == [("open", "/data/a/one", False), ("write", "/data/a/one", True)]


def test_a_process_that_is_killed_when_it_syncs_has_not_lost_what_it_wrote() -> None:
    disk = disk_of()
    file = written(disk.attach(), "/data/a/one", b"x", sync=False)

    def kill(kind: str, path: str) -> None:
        disk.process_killed()
        raise ProcessEnded(errno.EIO, "killed", path)

    disk.on_operation(kill)
    fails(errno.EIO, file.sync)
    disk.on_operation(None)
    assert disk.attach().read_bytes("/data/a/one") == b"x"


# -- full ------------------------------------------------------------------------------------------------------------


def test_a_full_directory_takes_a_part_of_a_write_and_others_take_all() -> None:
    disk = disk_of()
    process = disk.attach()
    disk.full("/data/a", 5)
    assert process.free_bytes("/data/a/x" if process.exists("/data/a/x") else "/data/a") == 5
    one, other = process.open("/data/a/one", create=True), process.open("/data/b/one", create=True)
    one.append(b"123")
    fails(errno.ENOSPC, one.append, b"456")
    other.append(b"x" * 100)
    assert process.read_bytes("/data/a/one") == b"12345"
    assert disk.effects == {"full": 1}
    disk.free("/data/a")
    one.append(b"6")
    assert process.read_bytes("/data/a/one") == b"123456"


def test_deleted_truncated_and_replaced_files_give_space_back_and_holes_take_none() -> None:
    disk = disk_of()
    process = disk.attach()
    disk.full("/data", 10)
    file = process.open("/data/a/one", create=True)
    file.truncate(1000)
    file.pwrite(0, b"1234567890")
    fails(errno.ENOSPC, file.pwrite, 10, b"1")
    file.truncate(6)
    process.write_atomically("/data/a/two", b"ABCD")
    process.remove("/data/a/one")
    for _ in range(10):
        process.write_atomically("/data/a/two", b"abcd")
    process.make_directory("/data/b/tree")
    written(process, "/data/b/tree/leaf", b"123456")
    fails(errno.ENOSPC, process.write_atomically, "/data/a/three", b"1")
    process.remove_tree("/data/b/tree")
    process.write_atomically("/data/a/three", b"1")


# -- descriptors -----------------------------------------------------------------------------------------------------


def test_descriptors_run_out_and_connections_take_their_share() -> None:
    disk = disk_of()
    connections = 0
    process = disk.attach(descriptors_max=12, descriptors_used_elsewhere=lambda: connections)
    files = [process.open(f"/data/a/{number}", create=True) for number in range(20)]
    assert process.descriptors is not None
    assert process.descriptors.in_use == 4, "a third of the limit, as RealDisk"
    for file in files * 2:
        file.append(b"x")
    process.lock("/data/a/.lock")
    connections = 7
    refused: list[Callable[[], object]] = [
        lambda: process.list("/data/a"),
        lambda: process.read_bytes("/data/a/1"),
        lambda: process.write_atomically("/data/a/1", b""),
        lambda: process.sync_file("/data/a/1"),
        lambda: process.sync_directory("/data/a"),
        lambda: process.lock("/data/b/.lock"),
        lambda: process.remove_tree("/data/b"),
    ]
    for operation in refused:
        fails(errno.EMFILE, operation)
    assert disk.effects == {"no descriptors": len(refused)}
    assert process.exists("/data/a/1")
    files[-1].append(b"y")
    files[0].append(b"another file is closed for it")
    connections = 9
    files[1].sync()
    assert process.descriptors.in_files == 3, "fewer are kept open since connections took the descriptors"
    connections = 11
    fails(errno.EMFILE, files[2].sync)
    fails(errno.EMFILE, files[2].pread, 0, 1)
    process.unlock_all()
    files[2].sync()


def test_a_held_file_stays_open_and_a_closed_one_is_found_again_by_its_path() -> None:
    disk = disk_of()
    process = disk.attach(descriptors_max=6)
    held = written(process, "/data/a/held", b"1")
    held.hold()
    process.remove("/data/a/held")
    others = [written(process, f"/data/a/{number}", b"x") for number in range(5)]
    assert held.pread(0, 9) == b"1"
    held.close()
    assert held.pread(0, 9) == b"1"
    held.release()
    with pytest.raises(FileNotFoundError):
        held.pread(0, 9)
    for other in others:
        other.close()
    assert process.descriptors is not None
    assert process.descriptors.in_use == 0
    others[0].append(b"y")
    others[0].close()
    disk.process_killed()
    fails(errno.EIO, others[0].append, b"z")


# -- together --------------------------------------------------------------------------------------------------------


def test_healing_ends_all_faults_and_a_machine_without_faults_has_no_effects() -> None:
    disk = disk_of()
    process: ProcessDisk = disk.attach()
    file = written(process, "/data/a/one", b"1")
    for fault in (disk.fail_directory, disk.read_only, disk.full):
        fault("/data/a")
    disk.slow("/meta", lambda random: 1.0)
    disk.unmount("/data/b", missing=True)
    disk.heal()
    for works in (*reads(process, file, "/data/a"), *changes(process, file, "/data/a")):
        works()
    process.write_atomically("/data/b/x", b"")
    assert trio.run(process.run, process.free_bytes, "/meta") > 1000
    assert disk.effects == {}


def test_the_fingerprint_is_that_of_what_is_durable() -> None:
    disk = disk_of()
    process = disk.attach()
    seen = {disk.fingerprint()}
    file = process.open("/data/a/one", create=True)
    file.append(b"x")
    assert disk.fingerprint() in seen
    file.sync()
    assert disk.fingerprint() in seen, "its name is not durable"
    process.sync_directory("/data/a")
    seen.add(disk.fingerprint())
    file.truncate(5)
    file.sync()
    seen.add(disk.fingerprint())
    process.rename("/data/a/one", "/data/a/two")
    process.sync_directory("/data/a")
    seen.add(disk.fingerprint())
    assert len(seen) == 4
    disk.unmount("/data/a")
    assert disk.fingerprint() not in seen
