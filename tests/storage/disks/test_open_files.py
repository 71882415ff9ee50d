"""Which files are closed when too many are open: each opening looks at few, however many are held."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from minikafka.storage.disks.open_files import OpenFiles

MAX = 100


class CountedFile:
    """Counts how often a sweep looks at it."""

    path = os.devnull
    looks = 0

    def __init__(self, files: OpenFiles) -> None:
        self._files = files
        self._is_used = True
        self.is_held = False
        self.fd = -1

    @property
    def used(self) -> bool:
        CountedFile.looks += 1
        return self._is_used

    @used.setter
    def used(self, used: bool) -> None:
        self._is_used = used

    def use(self) -> None:
        self._is_used = True
        if self.fd < 0:
            self.fd = self._files.descriptor(self, os.O_RDONLY)

    def hold(self) -> None:
        self.use()
        if not self.is_held:
            self.is_held = True
            self._files.held(self)

    def release(self) -> None:
        if self.is_held:
            self.is_held = False
            self._files.released(self)

    def try_close(self) -> bool:
        if not self.is_held and self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self._files.closed(self)
        return not self.is_held


@pytest.fixture(autouse=True)
def _none_looked_at() -> None:
    CountedFile.looks = 0


@pytest.mark.parametrize("held", [0, MAX // 2, MAX - 1, MAX, 4 * MAX])
def test_an_opening_looks_at_few_files_whether_or_not_many_are_held(held: int) -> None:
    files = OpenFiles(MAX)
    holders = [CountedFile(files) for _ in range(held)]
    for file in holders:
        file.hold()
    others = [CountedFile(files) for _ in range(5 * MAX)]
    for file in others:
        file.use()
    assert CountedFile.looks <= 2 * (held + len(others))
    assert files.count <= max(MAX, held + 1)
    for file in holders:
        file.release()
    assert files.count <= MAX, "what is no longer held makes room"
    for file in [*holders, *others]:
        file.try_close()
    assert files.count == 0


@pytest.mark.parametrize("seed", range(20))
def test_in_the_long_run_no_more_files_are_looked_at_than_are_used(seed: int) -> None:
    random, files = Random(seed), OpenFiles(MAX)
    all_files, operations = [CountedFile(files) for _ in range(3 * MAX)], 0
    for _ in range(3000):
        file = random.choice(all_files)
        operations += 1
        random.choice([file.use, file.use, file.hold, file.release, file.try_close])()
        held = sum(one.is_held for one in all_files)
        assert files.count == sum(one.fd >= 0 for one in all_files)
        assert files.count <= max(MAX, held + 1)
        assert all(one.fd >= 0 for one in all_files if one.is_held)
    assert CountedFile.looks <= 2 * operations
    for file in all_files:
        file.release()
        file.try_close()
    assert files.count == 0


@pytest.mark.slow
def test_a_disk_that_is_no_longer_used_keeps_no_descriptors() -> None:
    def lowest_free() -> int:
        fd = os.open(os.devnull, os.O_RDONLY)
        os.close(fd)
        return fd

    gc.collect()  # What other tests left open.
    before = lowest_free()
    files = [OpenFiles(MAX) for _ in range(3)]
    assert lowest_free() > before
    del files
    gc.collect()
    assert lowest_free() == before


def in_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


OPERATIONS: dict[str, Callable[[OpenFiles, CountedFile], object]] = {
    "opened": lambda files, file: files.close(files.opened(os.devnull, os.O_RDONLY)),
    "descriptor": lambda files, file: file.use(),
    "hold and release": lambda files, file: (file.hold(), file.release()),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_another_thread_closes_no_file_for_want_of_descriptors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop may be writing into it, and its descriptor would soon be that of another file."""
    files = OpenFiles(MAX)
    before = [CountedFile(files) for _ in range(MAX)]
    for file in before:
        file.use()
    open_of_system, refused = os.open, iter([OSError(errno.EMFILE, "Too many open files")] * 3)

    def opening(*args: Any, **options: Any) -> int:
        error = next(refused, None)
        if error is not None:
            raise error
        return open_of_system(*args, **options)

    monkeypatch.setattr(os, "open", opening)
    of_thread = CountedFile(files)
    in_thread(lambda: OPERATIONS[name](files, of_thread))
    monkeypatch.undo()
    assert all(file.fd >= 0 for file in before)
    last = CountedFile(files)
    last.use()
    kept = sum(file.fd >= 0 for file in (*before, last))
    assert kept < MAX, "descriptors ran out, so fewer are kept from now on"
    if name != "opened":
        assert of_thread.fd >= 0, "the thread may be using it"
    for file in (of_thread, last, *before):
        file.try_close()
    assert files.count == 0


@pytest.mark.slow
def test_writers_and_checkpoints_where_descriptors_run_out(tmp_path: Path) -> None:
    """Real files and threads: what an append has written is in its file, and in no other."""
    program = Path(__file__).with_name("few_descriptors.py")
    ran = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
