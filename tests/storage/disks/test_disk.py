"""`RealDisk` and `MemoryDisk` behave alike; fault injection of `MemoryDisk`."""

from __future__ import annotations

import errno
import gc
import os
import threading
import weakref
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from support.logs import memory_disk

from minikafka.storage.disks.disk import Disk, FileSlice, MemoryDisk, RealDisk
from minikafka.storage.disks.memory_disk import PowerLoss


@pytest.fixture(params=["real", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "real":
        return RealDisk(), str(tmp_path)
    return memory_disk(), "/data"


def test_files_are_appended_to_and_read_at_any_position(place: tuple[Disk, str]) -> None:
    disk, at = place
    file = disk.open(f"{at}/a", create=True)
    assert file.append(b"one") == 0
    assert file.append(b"two", bytearray(b"three"), memoryview(b"four")) == 3
    assert file.size_bytes == disk.file_size(f"{at}/a") == 15
    assert file.pread(3, 8) == b"twothree"
    assert file.pread(13, 100) == b"ur"
    assert file.pread(99, 1) == b""
    file.pwrite(1, b"NE")
    file.truncate(6)
    file.sync()
    assert disk.read_bytes(f"{at}/a") == b"oNEtwo"
    file.truncate(8)
    file.append(b"!")
    assert disk.open(f"{at}/a").pread(0, 99) == b"oNEtwo\0\0!"


def test_a_closed_file_reopens_on_use(place: tuple[Disk, str]) -> None:
    disk, at = place
    file = disk.open(f"{at}/a", create=True)
    file.append(b"x")
    file.close()
    file.close()
    file.append(b"y")
    disk.rename(f"{at}/a", f"{at}/b")
    file.path = f"{at}/b"
    file.close()
    assert file.pread(0, 9) == b"xy"


def test_directory_operations(place: tuple[Disk, str]) -> None:
    disk, at = place
    disk.make_directory(f"{at}/one/two")
    disk.make_directory(f"{at}/one/two")
    disk.write_atomically(f"{at}/one/file", b"1")
    disk.write_atomically(f"{at}/one/file", b"2", sync=False)
    assert disk.list(f"{at}/one") == ["file", "two"]
    assert disk.read_bytes(f"{at}/one/file") == b"2"
    assert disk.is_directory(f"{at}/one/two")
    assert not disk.is_directory(f"{at}/one/file")
    disk.rename(f"{at}/one", f"{at}/uno")
    assert disk.exists(f"{at}/uno/file")
    assert not disk.exists(f"{at}/one")
    disk.sync_file(f"{at}/uno/file")
    disk.sync_directory(f"{at}/uno")
    disk.remove(f"{at}/uno/file")
    disk.remove_tree(f"{at}/uno")
    assert disk.list(at) == []
    assert disk.free_bytes(at) <= disk.total_bytes(at)
    assert disk.modified_ms(at) > 0 if isinstance(disk, RealDisk) else True


def test_missing_files_raise_oserror(place: tuple[Disk, str]) -> None:
    disk, at = place
    for attempt in (
        lambda: disk.open(f"{at}/none"),
        lambda: disk.file_size(f"{at}/none"),
        lambda: disk.list(f"{at}/none"),
        lambda: disk.remove(f"{at}/none"),
        lambda: disk.rename(f"{at}/none", f"{at}/other"),
        lambda: disk.read_bytes(f"{at}/none"),
        lambda: disk.open(f"{at}/none/file", create=True),
        lambda: disk.sync_directory(f"{at}/none"),
    ):
        with pytest.raises(FileNotFoundError):
            attempt()


def test_a_slice_of_a_truncated_file_raises_oserror(place: tuple[Disk, str]) -> None:
    disk, at = place
    file = disk.open(f"{at}/a", create=True)
    file.append(b"0123456789")
    part = FileSlice(file, 3, 4)
    assert (len(part), part.read()) == (4, b"3456")
    file.truncate(5)
    with pytest.raises(OSError, match="2 bytes are missing"):
        part.read()


def test_run_calls_functions_in_a_worker_thread(place: tuple[Disk, str]) -> None:
    disk, _ = place
    assert trio.run(disk.run, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        trio.run(disk.run, divmod, 7, 0)


def test_few_descriptors_serve_many_files(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=8)
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(50)]
    held = files[5]
    held.hold()
    descriptor = held.fileno()
    for turn in range(3):
        for number, file in enumerate(files):
            file.append(b"%d," % number)
            assert disk.open_files.count <= 9
        assert held.fileno() == descriptor, turn
    held.close()
    assert held.fileno() == descriptor, "held after close"
    held.release()
    for number, file in enumerate(files):
        assert file.pread(0, 99) == b"%d," % number * 3
        file.close()
    assert disk.open_files.count == 0


def test_files_make_way_for_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk(open_files_max=8)
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(8)]
    allowed, opening = 7, os.open

    def limited(path: str, flags: int, mode: int = 0o777) -> int:
        if disk.open_files.count >= allowed:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return opening(path, flags, mode)

    monkeypatch.setattr(os, "open", limited)
    for allowed in (7, 4):
        for file in files:
            file.close()
        for file in [*files, disk.open(f"{tmp_path}/{allowed}", create=True)]:
            file.append(b"x")
    assert disk.open_files.count < 4, "fewer are kept open from now on"
    files[0].hold()
    allowed = 1
    for file in files[1:]:
        file.close()
    with pytest.raises(OSError, match="Too many open files"):
        disk.open(f"{tmp_path}/none", create=True)


def test_what_cannot_be_looked_at_does_not_count_as_missing(tmp_path: Path) -> None:
    disk = RealDisk()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").touch()
    for look in (disk.exists, disk.is_directory):
        assert look(str(tmp_path))
        assert not look(f"{tmp_path}/none")
        assert not look(f"{tmp_path}/file/none")
        with pytest.raises(OSError, match="symbolic links"):
            look(f"{tmp_path}/loop")
    assert disk.exists(f"{tmp_path}/file")
    assert not disk.is_directory(f"{tmp_path}/file")


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caused by a signal, or by more bytes than the kernel writes at once."""
    whole, several = os.pwrite, os.pwritev
    file = RealDisk().open(f"{tmp_path}/a", create=True)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", lambda fd, data, position: whole(fd, data[:3], position))
        patched.setattr(os, "pwritev", lambda fd, buffers, position: whole(fd, buffers[0][:2], position))
        assert file.append(b"0123456789") == 0
        assert file.append(b"abcd", b"efgh") == 10
        with pytest.raises(OSError, match="only 3 of 4"):
            file.pwrite(0, b"wxyz")
        patched.setattr(os, "pwrite", lambda fd, data, position: 0)
        with pytest.raises(OSError, match="no bytes could be written"):
            file.append(b"x")
    assert file.pread(0, 99) == b"wxy3456789abcdefgh"
    assert several is os.pwritev


def test_a_lock_excludes_other_processes(tmp_path: Path) -> None:
    first, second = RealDisk(), RealDisk()
    first.lock(f"{tmp_path}/.lock")
    with pytest.raises(BlockingIOError):
        second.lock(f"{tmp_path}/.lock")
    first.unlock_all()
    second.lock(f"{tmp_path}/.lock")
    second.unlock_all()


def test_flushed_bytes_and_names_survive_a_crash() -> None:
    for seed in range(200):
        disk = MemoryDisk(Random(seed))
        disk.make_directory("/d")
        disk.sync_directory("/")
        file = disk.open("/d/a", create=True)
        file.append(b"x" * 1000)
        file.sync()
        disk.sync_directory("/d")
        file.append(b"y" * 3000)
        disk.open("/d/b", create=True).append(b"z")
        disk.crash()
        data = disk.read_bytes("/d/a")
        assert data[:1000] == b"x" * 1000
        assert set(data[1000:]) <= {0, ord("y")}
        with pytest.raises(OSError, match="power"):
            file.append(b"late")


def test_a_crash_may_lose_tear_zero_and_reorder_unflushed_writes() -> None:
    seen: set[str] = set()
    for seed in range(300):
        disk = MemoryDisk(Random(seed))
        disk.make_directory("/d")
        disk.sync_directory("/")
        file = disk.open("/d/a", create=True)
        disk.sync_directory("/d")
        for letter in (b"1", b"2", b"3"):
            file.append(letter * 700)
        disk.crash()
        data = disk.read_bytes("/d/a")
        kinds = "".join(sorted({chr(byte) for byte in data})).replace("\0", "0")
        seen.add(kinds if len(data) % 700 == 0 else f"torn {kinds}")
    assert {"", "12", "123", "0123", "023", "013", "torn 1", "torn 12"} <= seen


def test_a_failed_sync_marks_pages_clean_that_are_lost_at_the_next_crash() -> None:
    disk = MemoryDisk(Random(4))
    disk.make_directory("/d")
    disk.sync_directory("/")
    file = disk.open("/d/a", create=True)
    disk.sync_directory("/d")
    file.append(b"lost")
    disk.fail("sync", code=errno.EIO)
    with pytest.raises(OSError, match="injected fault"):
        file.sync()
    file.append(b"kept")
    file.sync()
    assert file.pread(0, 9) == b"lostkept"
    disk.crash()
    assert disk.read_bytes("/d/a") == b"\0\0\0\0kept"


def test_faults_are_injected_by_kind_path_and_count() -> None:
    disk = memory_disk()
    disk.fail("write", skip=1, times=2, path="/data/a", code=errno.ENOSPC)
    other, file = disk.open("/data/b", create=True), disk.open("/data/a", create=True)
    file.append(b"1")
    other.append(b"1")
    for _ in range(2):
        with pytest.raises(OSError, match="injected"):
            file.append(b"2")
    file.append(b"3")
    disk.remaining_bytes = 2
    with pytest.raises(OSError, match="No space"):
        file.append(b"456")
    assert file.pread(0, 9) == b"1345"


def test_power_fails_after_the_given_number_of_operations() -> None:
    disk = memory_disk()
    file = disk.open("/data/a", create=True)
    disk.lose_power_after(2)
    file.append(b"1")
    file.append(b"2")
    with pytest.raises(PowerLoss):
        file.append(b"3")


def test_without_descriptors_and_without_an_open_file_the_error_is_that_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections have all descriptors, and each file was closed: nothing is left that could give way."""
    disk = RealDisk()
    for name in ("a", "b"):
        disk.open(str(tmp_path / name), create=True).close()

    def no_descriptors(*_: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_descriptors)
        with pytest.raises(OSError, match="Too many open files"):
            disk.open(str(tmp_path / "a"))
    disk.open(str(tmp_path / "a")).close()
    disk.unlock_all()


def test_what_must_be_opened_without_descriptors_takes_one_of_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, path = RealDisk(), str(tmp_path / "checkpoint")
    free = 0
    really_open, really_close = os.open, os.close

    def scarce_open(*arguments: Any) -> int:
        nonlocal free
        if not free:
            raise OSError(errno.EMFILE, "Too many open files")
        free -= 1
        return really_open(*arguments)

    def counting_close(fd: int) -> None:
        nonlocal free
        really_close(fd)
        free += 1

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", scarce_open)
        patch.setattr(os, "close", counting_close)
        for number in range(20):
            disk.write_atomically(path, b"%d" % number)
            assert disk.read_bytes(path) == b"%d" % number
    disk.unlock_all()


def test_what_a_failed_call_was_given_is_freed_with_its_exception() -> None:
    """Whoever keeps neither keeps no cycle of them."""

    class Buffer:
        def fail(self) -> None:
            raise ZeroDivisionError

    async def call() -> weakref.ref[Buffer]:
        buffer = Buffer()
        with pytest.raises(ZeroDivisionError):
            await RealDisk().run(Buffer.fail, buffer)
        return weakref.ref(buffer)

    gc.disable()
    try:
        assert trio.run(call)() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("startable", [0, 1, 5, 100])
def test_what_needs_threads_is_done_without_them(monkeypatch: pytest.MonkeyPatch, startable: int) -> None:
    """As under TasksMax of systemd, or `ulimit -u`."""
    left, begin = [None] * startable, threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        begin(thread)

    def fail(number: int) -> None:
        called.append(number)
        if number % 2:
            raise OSError(number, "odd")

    async def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    called: list[int] = []
    monkeypatch.setattr(threading.Thread, "start", start)
    outcomes = RealDisk().run_all([partial(fail, number) for number in range(20)])
    assert sorted(called) == list(range(20))
    assert [None if error is None else error.errno for error in outcomes] == [
        number if number % 2 else None for number in range(20)
    ]
    monkeypatch.setattr(trio.to_thread, "run_sync", refused)
    assert trio.run(RealDisk().run, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        trio.run(RealDisk().run, divmod, 7, 0)


def test_a_function_that_fails_otherwise_counts_as_failed() -> None:
    def fail() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        RealDisk().run_all([fail])


CALLS: dict[str, tuple[str, Any, str]] = {
    "append": ("pwrite", lambda disk, file: file.append(b"x"), ""),
    "append several": ("pwritev", lambda disk, file: file.append(b"x", b"y"), ""),
    "read at a position": ("pread", lambda disk, file: file.pread(0, 1), ""),
    "write at a position": ("pwrite", lambda disk, file: file.pwrite(0, b"x"), ""),
    "truncate": ("ftruncate", lambda disk, file: file.truncate(0), ""),
    "sync": ("fdatasync", lambda disk, file: file.sync(), ""),
    "read a file": ("read", lambda disk, file: disk.read_bytes(file.path), ""),
    "write a file": ("write", lambda disk, file: disk.write_atomically(file.path, b"x"), ".tmp"),
    "sync a new file": ("fsync", lambda disk, file: disk.write_atomically(file.path, b"x"), ".tmp"),
    "sync a file": ("fsync", lambda disk, file: disk.sync_file(file.path), ""),
}
"""Calls of the operating system that have only a descriptor, a use of each, and what follows the path in the error."""


@pytest.mark.parametrize(("call", "use", "suffix"), CALLS.values(), ids=CALLS)
def test_the_error_of_a_call_that_has_only_a_descriptor_names_the_file(
    call: str, use: Any, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    disk = RealDisk()
    file = disk.open(f"{tmp_path}/a", create=True)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails)
        with pytest.raises(OSError, match="Input/output error") as failed:
            use(disk, file)
    assert failed.value.filename == f"{tmp_path}/a{suffix}"


def test_a_directory_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as failed:
        RealDisk().read_bytes(str(tmp_path))
    assert failed.value.filename == str(tmp_path)


@pytest.mark.timeout(10)
def test_neither_pipes_nor_devices_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), "/dev/zero", "/dev/ptmx"):
        with pytest.raises(OSError, match="a pipe or device") as failed:
            RealDisk().read_bytes(path)
        assert failed.value.filename == path


def test_a_listing_that_fails_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int) -> list[str]:
        raise OSError(errno.EIO, "Input/output error", descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", fails)
        with pytest.raises(OSError, match="Input/output error") as failed:
            RealDisk().list(str(tmp_path))
    assert failed.value.filename == str(tmp_path)
