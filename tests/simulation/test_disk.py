"""The disk of a simulated machine: its faults one by one, and what is left after a crash."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest
import trio
from trio.testing import MockClock

from minikafka.storage.disk import Disk, File
from simulation.world import rot
from simulation.world.disk import SimulatedDisk
from simulation.world.disk_faults import ProcessEnded, path_of
from simulation.world.process_disk import ProcessDisk


def disk_of(seed: object = 0) -> SimulatedDisk:
    return SimulatedDisk(Random(str(seed)), directories=["/data/a", "/data/b", "/meta"])


def fails(code: int, function: Callable[..., object], *args: object, **options: object) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 the code is checked
        function(*args, **options)
    assert caught.value.errno == code, caught.value


def changes(disk: Disk, file: File, at: str) -> list[Callable[[], object]]:
    """Every operation that changes something in a directory with a file `one`; they can be called in this order."""
    return [
        lambda: file.append(b"x"),
        lambda: file.pwrite(0, b"x"),
        lambda: file.truncate(1),
        lambda: file.sync(),
        lambda: disk.open(f"{at}/new", create=True),
        lambda: disk.make_directory(f"{at}/directory"),
        lambda: disk.rename(f"{at}/one", f"{at}/two"),
        lambda: disk.remove(f"{at}/two"),
        lambda: disk.write_atomically(f"{at}/three", b"x"),
        lambda: disk.sync_directory(at),
        lambda: disk.lock(f"{at}/.lock"),
    ]


def reads(disk: Disk, file: File, at: str) -> list[Callable[[], object]]:
    return [lambda: file.pread(0, 1), lambda: disk.read_bytes(f"{at}/one"), lambda: disk.list(at)]


def written(disk: Disk, path: str, data: bytes, *, sync: bool = True) -> File:
    file = disk.open(path, create=True)
    file.append(data)
    if sync:
        file.sync()
        disk.sync_directory(path.rpartition("/")[0])
    return file


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


def test_a_hook_sees_each_operation_before_its_effect() -> None:
    disk = disk_of()
    process = disk.attach()
    seen: list[tuple[str, str, bool]] = []
    disk.on_operation(lambda kind, path: seen.append((kind, path, disk.exists("/data/a/one"))))
    process.open("/data/a/one", create=True).append(b"x")
    disk.on_operation(None)
    process.list("/data/a")
    assert seen == [("open", "/data/a/one", False), ("write", "/data/a/one", True)]


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


# -- failing and read only -------------------------------------------------------------------------------------------


def test_a_failed_directory_fails_in_everything_until_it_is_repaired() -> None:
    disk = disk_of()
    process = disk.attach()
    file, other = written(process, "/data/a/one", b"1"), written(process, "/data/b/one", b"1")
    disk.fail_directory("/data/a")
    operations = [*changes(process, file, "/data/a"), *reads(process, file, "/data/a")]
    for operation in operations:
        fails(errno.EIO, operation)
    assert not process.exists("/data/a/one"), "as os.path.exists"
    assert disk.effects == {"failing directory": len(operations) + 1}
    for works in (*reads(process, other, "/data/b"), *changes(process, other, "/data/b")):
        works()
    disk.repair_directory("/data/a")
    for works in (*reads(process, file, "/data/a"), *changes(process, file, "/data/a")):
        works()


@pytest.mark.parametrize("what", ["writes", "reads", "syncs"])
def test_only_some_operations_of_a_directory_fail(what: str) -> None:
    disk = disk_of()
    process = disk.attach()
    file = written(process, "/data/a/one", b"1")
    disk.fail_directory("/data/a", what)
    failing = {
        "writes": changes(process, file, "/data/a")[:3],
        "reads": reads(process, file, "/data/a"),
        "syncs": [file.sync, lambda: process.sync_directory("/data/a")],
    }
    for name, operations in failing.items():
        for operation in operations:
            if name == what or (name, what) == ("syncs", "writes"):
                fails(errno.EIO, operation)
            else:
                operation()
    assert set(disk.effects) == {f"failing {what}"}


def test_the_loss_of_unsynced_pages_is_reported_by_one_sync_and_shows_after_the_power_fails() -> None:
    seen: set[bytes] = set()
    for seed in range(20):
        disk = disk_of(seed)
        process = disk.attach()
        file = written(process, "/data/a/one", b"synced")
        file.append(b"lost")
        process.open("/data/a/new", create=True)
        disk.fail_directory("/data/a")
        disk.repair_directory("/data/a")
        seen.add(process.read_bytes("/data/a/one"))
        fails(errno.EIO, file.sync)
        fails(errno.EIO, process.sync_directory, "/data/a")
        file.append(b"!")
        file.sync()
        process.sync_directory("/data/a")
        assert disk.effects == {"lost pages": 2}
        disk.power_failure()
        assert disk.read_bytes("/data/a/one") == b"synced\0\0\0\0!"
        assert disk.list("/data/a") == ["one"]
    assert seen == {b"syncedlost", b"synced\0\0\0\0"}, "the old or the new content"


def test_operations_fail_by_chance_or_a_number_of_times() -> None:
    disk = disk_of()
    process = disk.attach()
    file = process.open("/data/a/one", create=True)
    disk.fail_directory("/data/a", "writes", probability=0.3)
    failed = 0
    for _ in range(200):
        try:
            file.append(b"x")
        except OSError:
            failed += 1
    assert 30 < failed < 90
    assert disk.effects == {"failing writes": failed}
    disk.repair_directory("/data/a")
    disk.fail_directory("/data/a", "syncs", times=1)
    file.append(b"y")
    fails(errno.EIO, file.sync)
    file.sync()
    process.sync_directory("/data/a")
    disk.power_failure()
    assert b"y" not in disk.read_bytes("/data/a/one"), "the second sync does not bring it back"


def test_a_read_only_directory_can_only_be_read() -> None:
    disk = disk_of()
    process = disk.attach()
    file = written(process, "/data/a/one", b"1")
    disk.read_only("/data/a")
    for operation in changes(process, file, "/data/a"):
        fails(errno.EROFS, operation)
    fails(errno.EROFS, process.open, "/data/a/one")
    for works in reads(process, file, "/data/a"):
        works()
    process.make_directory("/data/a")
    assert process.exists("/data/a/one")
    disk.power_failure()
    fails(errno.EROFS, disk.attach().open, "/data/a/one")
    disk.writable("/data/a")
    for works in changes(again := disk.attach(), again.open("/data/a/one"), "/data/a"):
        works()


# -- missing, wiped, old, rotten -------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
def test_an_unmounted_directory_is_empty_or_missing_until_it_is_mounted(missing: bool) -> None:
    disk = disk_of()
    written(disk.attach(), "/data/a/one", b"1", sync=False)
    disk.process_killed()
    disk.unmount("/data/a", missing=missing)
    process = disk.attach()
    assert process.exists("/data/a") is not missing
    process.make_directory("/data/a")
    assert process.list("/data/a") == []
    written(process, "/data/a/two", b"2")
    process.sync_directory("/data")
    disk.power_failure()
    assert disk.effects["missing directory"] >= 3
    disk.mount("/data/a")
    process = disk.attach()
    assert process.list("/data/a") == ["one"]
    assert process.read_bytes("/data/a/one") == b"1", "written back when it was unmounted"
    disk.unmount("/data/a")
    assert disk.list("/data/a") == ["two"]
    disk.mount("/data/a")
    disk.mount("/data/a")
    assert disk.list("/data/a") == ["one"]


def test_a_wiped_directory_is_empty_for_good() -> None:
    disk = disk_of()
    file = written(disk.attach(), "/data/a/one", b"1")
    disk.wipe("/data/a")
    file.append(b"2")
    file.sync()
    disk.power_failure()
    assert disk.effects == {"wiped directory": 1}
    assert disk.list("/data/a") == []
    assert disk.list("/data") == ["a", "b"]


def test_a_directory_is_put_back_to_what_was_durable_when_it_was_copied() -> None:
    disk = disk_of()
    file = written(disk.attach(), "/data/a/one", b"1")
    file.append(b"2")
    old = disk.copy("/data")
    file.sync()
    written(disk.attach(), "/data/b/two", b"2")
    with pytest.raises(RuntimeError, match="down"):
        disk.restore(old)
    for _ in range(2):
        disk.power_failure()
        disk.restore(old)
        process = disk.attach()
        assert process.read_bytes("/data/a/one") == b"1"
        assert process.list("/data/b") == []
        process.open("/data/a/one").append(b"3")
    assert disk.effects["restored directory"] == 2


BATCH = b"\0" * 8 + (20).to_bytes(4, "big") + b"r" * 20
NAMES = {
    "00000000000000000000.log": BATCH * 3,
    "00000000000000000007.log": BATCH * 2,
    "00000000000000000007.index": b"i" * 16,
    "00000000000000000007.timeindex": b"t" * 24,
    "00000000000000000007.txnindex": b"x" * 34,
    "00000000000000000007.snapshot": b"s" * 50,
    "00000000000000000007-0000000001.checkpoint": b"m" * 50,
    "leader-epoch-checkpoint": b"0\n0\n",
    "quorum-state": b"{}",
    "meta.properties": b"version=1",
    "partition.metadata": b"version: 0",
    ".kafka_cleanshutdown": b"{}",
}


@pytest.mark.parametrize("kind", rot.KINDS)
def test_rot_damages_durable_bytes_of_one_kind_of_file(kind: str) -> None:
    paths: set[str] = set()
    for seed in range(20):
        disk = disk_of(seed)
        process = disk.attach()
        process.make_directory("/data/a/t-0")
        for name, data in NAMES.items():
            process.write_atomically(f"/data/a/t-0/{name}", data)
        process.sync_directory("/data/a")
        damage = disk.rot("/data/a", Random(seed), kinds=[kind])
        assert damage is not None
        assert damage.kind == kind
        for path in (damage.path, damage.path):
            data, old = process.read_bytes(path), NAMES[path.rpartition("/")[2]]
            wrong = [position for position in range(len(old)) if data[position] != old[position]]
            assert wrong
            assert damage.position <= wrong[0] <= wrong[-1] < damage.position + damage.size_bytes
            if kind.startswith("segment"):
                tail = path.endswith("7.log") and wrong[0] >= len(BATCH)
                assert kind == (rot.SEGMENT_TAIL if tail else rot.SEGMENT_MIDDLE)
        assert disk.effects == {f"rot: {kind}": 1}
        damaged = process.read_bytes(damage.path)
        disk.power_failure()
        assert disk.read_bytes(damage.path) == damaged
        paths.add(damage.path)
    assert len(paths) == (2 if kind == rot.SEGMENT_MIDDLE else 1)
    assert disk.rot("/meta", Random(1)) is None


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
    fails(errno.EMFILE, files[1].sync)
    fails(errno.EMFILE, files[1].pread, 0, 1)
    process.unlock_all()
    connections = 8
    files[1].sync()


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
