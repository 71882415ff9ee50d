"""A disk that is full at any operation of a start: the node ends with words that name the directory, or starts."""

from __future__ import annotations

import errno
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from support.memory_node import MemoryListeners, config, system

from minikafka.broker.node.full_disk import full_disk_behind
from minikafka.broker.node.main import CannotStart, make_node, serve, why_ended
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import error_for
from minikafka.storage.disks.memory_disk import MemoryDisk

WRITES = {"open", "write", "mkdir"}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


class FullDisk(MemoryDisk):
    """Full from the operation of a number on, among those that need room; as from a real disk, errors name no file."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.left: float = float("inf")

    def call(self, kind: str, path: str) -> None:
        super().call(kind, path)
        if kind in WRITES:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")


def starts(disk: FullDisk, directory: Path) -> bool:
    """Whether a node starts, and stops at its first signal; otherwise its error must be one for users."""

    async def at_once() -> AsyncIterator[int]:
        await ready.wait()
        disk.left = float("inf")
        yield signal.SIGTERM

    class Ready:
        def started(self, value: str = "") -> None:
            ready.set()

    async def main() -> None:
        await serve(make_node(settings, system(disk, MemoryListeners())), at_once(), task_status=Ready())

    ready, settings = trio.Event(), config(1, log_dirs=str(directory))
    try:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseException as error:
        ended = why_ended(error, settings)
        if not isinstance(ended, CannotStart):
            raise
        said = f"data directory {directory} (log.dirs) cannot be used: the disk of {directory} is full, "
        assert str(ended).startswith(said), ended
        assert str(ended).endswith(" free; make room, nothing is lost"), ended
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("is_new", [True, False])
def test_a_disk_is_full_at_an_operation_of_the_start(is_new: bool, tmp_path: Path) -> None:
    for number in range(1000):
        disk = FullDisk()
        if not is_new:
            assert starts(disk, tmp_path)
        disk.left = number
        if starts(disk, tmp_path) and disk.left > 0:
            break
        disk.left = float("inf")
        assert starts(disk, tmp_path), "nothing is lost"
    assert number > 3, "the sweep has met operations of the start"


def test_a_full_disk_is_found_behind_the_errors_that_it_caused() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    for said in (error_for(ErrorCode.KAFKA_STORAGE_ERROR, "offline"), OSError(errno.EIO, "interrupted half-way")):
        said.__cause__ = ExceptionGroup("", [full])
        assert full_disk_behind(ExceptionGroup("", [said])) is full
    assert full_disk_behind(ZeroDivisionError()) is None
