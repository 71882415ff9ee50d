"""Which files are closed when too many are open: each opening looks at few, however many are held."""

from __future__ import annotations

import gc
import os
from random import Random

import pytest

from minikafka.storage.open_files import OpenFiles

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


def test_a_disk_that_is_no_longer_used_keeps_no_descriptors() -> None:
    def lowest_free() -> int:
        fd = os.open(os.devnull, os.O_RDONLY)
        os.close(fd)
        return fd

    before = lowest_free()
    files = [OpenFiles(MAX) for _ in range(3)]
    assert lowest_free() > before
    del files
    gc.collect()
    assert lowest_free() == before
