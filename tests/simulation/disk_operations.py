"""Operations on a simulated disk that tests try under each fault."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from minikafka.storage.disks.disk import Disk, File
from simulation.world.disk import SimulatedDisk


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
