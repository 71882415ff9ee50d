"""Directories of a simulated disk that fail, are read-only, missing, wiped, old or rotten."""

from __future__ import annotations

import errno
from random import Random

import pytest

from simulation.disk_operations import changes, disk_of, fails, reads, written
from simulation.world import rot

# -- failing and read only -------------------------------------------------------------------------------------------


def test_a_failed_directory_fails_in_everything_until_it_is_repaired() -> None:
    disk = disk_of()
    process = disk.attach()
    file, other = written(process, "/data/a/one", b"1"), written(process, "/data/b/one", b"1")
    disk.fail_directory("/data/a")
    operations = [*changes(process, file, "/data/a"), *reads(process, file, "/data/a")]
    for operation in operations:
        fails(errno.EIO, operation)
    fails(errno.EIO, process.exists, "/data/a/one")
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


def test_a_file_system_that_is_mounted_again_has_no_lost_pages_and_no_errors_to_report() -> None:
    disk = disk_of()
    file = written(disk.attach(), "/data/a/one", b"synced")
    file.append(b"lost")
    disk.fail_directory("/data/a", evict=0.0)
    disk.repair_directory("/data/a")
    with pytest.raises(RuntimeError):
        disk.mount_again("/data/a")
    disk.process_killed()
    disk.mount_again("/data/a")
    process = disk.attach()
    assert process.read_bytes("/data/a/one") == b"synced\0\0\0\0"
    process.sync_file("/data/a/one")
    process.sync_directory("/data/a")


def test_a_file_system_that_is_mounted_again_shows_the_names_that_are_durable() -> None:
    disk = disk_of()
    process = disk.attach()
    written(process, "/data/a/old", b"synced")
    process.open("/data/a/new", create=True)
    process.rename("/data/a/old", "/data/a/renamed")
    process.make_directory("/data/a/made")
    process.open("/data/a/made/in", create=True)
    disk.fail_directory("/data/a", "writes", evict=0.0)
    disk.repair_directory("/data/a")
    disk.process_killed()
    assert disk.list("/data/a") == ["made", "new", "renamed"], "as long as the page cache is that of the failed disk"
    disk.mount_again("/data/a")
    assert disk.list("/data/a") == ["old"]
    with pytest.raises(FileNotFoundError):
        disk.attach().open("/data/a/made/in")


@pytest.mark.parametrize("evict", [0.0, 1.0])
def test_the_next_process_may_read_pages_that_are_not_durable(evict: float) -> None:
    disk = disk_of()
    disk.evict_lost = evict
    file = written(disk.attach(), "/data/a/one", b"synced")
    file.append(b"lost")
    disk.fail_directory("/data/a", "syncs", times=1)
    fails(errno.EIO, file.sync)
    disk.process_killed()
    process = disk.attach()
    process.sync_file("/data/a/one")
    assert process.read_bytes("/data/a/one") == (b"synced\0\0\0\0" if evict else b"syncedlost")
    disk.power_failure()
    assert disk.read_bytes("/data/a/one") == b"synced"


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
        disk.attach().kill()
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
