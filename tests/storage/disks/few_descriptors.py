"""A program: logs are appended to while threads write checkpoints and take all descriptors; prints what is wrong."""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from minikafka.storage.disks.disk import RealDisk

APPENDS = 60_000


def main(directory: str) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
    disk, ended = RealDisk(), threading.Event()
    files = [disk.open(f"{directory}/{number}.log", create=True) for number in range(30)]

    def checkpoint() -> None:
        while not ended.is_set():
            with suppress(OSError):
                disk.write_atomically(f"{directory}/checkpoint", b"C" * 4096, sync=False)

    def strangers() -> None:
        held: list[int] = []
        while not ended.is_set():
            with suppress(OSError):
                while not ended.is_set():
                    held.append(os.dup(0))
            for descriptor in held[-25:]:
                os.close(descriptor)
            del held[-25:]

    functions: tuple[Callable[[], None], ...] = (checkpoint, strangers)
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    expected = [0] * len(files)
    for number in range(APPENDS):
        index = number % len(files)
        try:
            files[index].append(bytes([index]) * 500)
        except OSError as error:
            print(f"append {number}: {error!r}")
            break
        expected[index] += 500
    ended.set()
    for thread in threads:
        thread.join()
    for index, size_bytes in enumerate(expected):
        if disk.read_bytes(files[index].path) != bytes([index]) * size_bytes:
            print(f"{files[index].path} is not what was appended")


main(sys.argv[1])
