"""Each operation on a lone controller's metadata log fails or is the last one: what was acknowledged is kept.

As `tests/storage/test_every_operation.py` for a data directory. The log has snapshots, and the controller starts twice.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import pytest
from structlog.testing import capture_logs
from support.controllers import create, image_of, with_controller

from minikafka.controller.quorum_controller import QuorumController
from minikafka.protocol.errors import KafkaError
from minikafka.storage.disks.memory_disk import MemoryDisk, PowerLoss

KINDS = {errno.ENOSPC: {"open", "write", "mkdir"}, errno.EMFILE: {"open", "list"}}
FEW_BYTES = {"metadata.log.max.record.bytes.between.snapshots": "600"}
TOPICS = 6


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Hundreds of errors are not printed."""
    with capture_logs():
        yield


class FaultyDisk(MemoryDisk):
    """The call of a number fails, among those that can fail so."""

    def __init__(self, number: int, code: int) -> None:
        super().__init__(Random(number))
        self.failed = ""
        self._left, self._code = number, code

    def call(self, kind: str, path: str) -> None:
        super().call(kind, path)
        if kind in KINDS.get(self._code, {kind}):
            self._left -= 1
            if self._left == -1:
                self.failed = f"{kind} {path}"
                raise OSError(self._code, "injected fault", path)


def life(disk: MemoryDisk) -> list[str]:
    """Two starts, each of which creates topics; returns those that were acknowledged."""
    acknowledged: list[str] = []

    async def use(controller: QuorumController) -> None:
        for number in range(TOPICS):
            with suppress(KafkaError):
                if await create(controller, name := f"t{controller.offset}-{number}") == [0]:
                    acknowledged.append(name)

    with suppress(BaseExceptionGroup, OSError, KafkaError, PowerLoss):
        with_controller(disk, use, **FEW_BYTES)
        with_controller(disk, use, **FEW_BYTES)
    return acknowledged


def check(disk: MemoryDisk, acknowledged: list[str], what: str) -> None:
    topics = image_of(disk, **FEW_BYTES).topics
    assert [name for name in acknowledged if name not in topics] == [], what


def lives(disk_of: Callable[[int], MemoryDisk], *, power_fails: bool) -> int:
    """A life for each operation, until all topics of one are acknowledged; returns the number of lives."""
    number = 0
    while True:
        disk = disk_of(number)
        acknowledged = life(disk)
        failed = getattr(disk, "failed", "the end")
        if not failed or (failed == "the end" and len(acknowledged) == 2 * TOPICS):
            return number
        disk.lose_power_after(-1)
        if power_fails:
            disk.crash()
        check(disk, acknowledged, f"operation {number}: {failed}")
        number += 1


@pytest.mark.sweep
@pytest.mark.parametrize("power_fails", [False, True])
@pytest.mark.parametrize(("code", "least"), [(errno.EIO, 200), (errno.ENOSPC, 50), (errno.EMFILE, 30)])
def test_an_operation_fails(code: int, least: int, power_fails: bool) -> None:
    assert lives(lambda number: FaultyDisk(number, code), power_fails=power_fails) > least


@pytest.mark.sweep
@pytest.mark.parametrize("power_fails", [False, True])
def test_the_process_or_the_power_ends_at_an_operation(power_fails: bool) -> None:
    def ending(number: int) -> MemoryDisk:
        disk = MemoryDisk(Random(number))
        disk.lose_power_after(number)
        return disk

    assert lives(ending, power_fails=power_fails) > 50
