"""A worker that is lost at any step of a cleaning, or a full disk, costs neither the log nor its disk: the log is
cleaned later, and others before it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.compaction import Cleaned, finish
from support.logs import Clock, memory_disk

from minikafka.storage.compaction import compaction
from minikafka.storage.disks.worker import ThreadLane, WorkerLost
from minikafka.storage.steps import at_once


class LostLane:
    """Loses its worker at a step of a cleaning."""

    def __init__(self, disk: Any, at: int, error: Exception) -> None:
        self._lane = ThreadLane(disk)
        self._left, self._error = at, error

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        self._left -= 1
        if self._left < 0:
            raise self._error
        return await self._lane.run(function, *args)

    def close(self) -> None:
        self._lane.close()


def clean_with_loss(cleaned: Cleaned, at: int, error: Exception) -> bool:
    """Cleans the log in small steps, at one of which the worker is lost; returns whether there were fewer steps."""
    cleaned.log.roll()
    cleaned.log.flush()
    due = at_once(cleaned.compaction.choose())
    assert due is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "STEP_BYTES_MAX", 2000)
        patch.setattr(cleaned.disk, "lane", lambda size_bytes: LostLane(cleaned.disk, at, error))
        return finish(cleaned.compaction.clean(due))


@pytest.mark.parametrize("error", [WorkerLost("the process ended with signal 9"), MemoryError()])
def test_a_log_whose_worker_is_lost_is_cleaned_later(error: Exception) -> None:
    """At whatever step: nothing of the worker is left, other logs are cleaned first, and one warning says why."""
    lost_at, is_cleaned = 0, False
    while not is_cleaned:
        cleaned = Cleaned(memory_disk(), clock=Clock())
        for number in range(60):
            cleaned.put((b"k%d" % number, bytes(300)), (b"k%d" % (number % 3), b"%d" % number))
        expected = cleaned.table()
        with capture_logs() as lines:
            for at in (lost_at, 0):
                is_cleaned = clean_with_loss(cleaned, at, error)
                assert not [name for name in cleaned.disk.list(cleaned.log.directory) if name.endswith(".cleaned")]
                assert cleaned.log.failure is None
                cleaned.now_s += compaction.RETRY_S - 1
                assert at_once(cleaned.compaction.choose()) is None
                cleaned.now_s += 1
                if is_cleaned:
                    break
        reasons = [line["error"] for line in lines if line["event"] == "log cleaning interrupted"]
        assert reasons == ([] if is_cleaned else [str(error) or "MemoryError"])
        cleaned.clean()
        assert cleaned.table() == expected
        lost_at += 1
    assert lost_at > 10


def test_what_happened_to_a_worker_is_logged_again_after_one_that_worked() -> None:
    cleaned, reasons = Cleaned(memory_disk(), clock=Clock()), []
    for reason in ("no process", "no process", "no memory"):
        cleaned.put((b"a", b"1"))
        with capture_logs() as lines:
            assert not clean_with_loss(cleaned, 0, WorkerLost(reason))
        reasons += [line["error"] for line in lines]
        cleaned.now_s += compaction.RETRY_S
        if reason == "no process":
            assert cleaned.clean() == 1
    assert reasons == ["no process", "no process", "no memory"]


def test_a_full_disk_only_ends_the_cleaning() -> None:
    """Other logs are cleaned before the log is tried again, which may need less room."""
    cleaned = Cleaned(memory_disk(), clock=Clock())
    for number in range(60):
        cleaned.put((b"k%d" % (number % 5), bytes(100)))
    cleaned.log.roll()
    cleaned.log.flush()
    due = at_once(cleaned.compaction.choose())
    assert due is not None
    cleaned.disk.fail("write", path=".cleaned", code=errno.ENOSPC)
    assert not finish(cleaned.compaction.clean(due))
    assert cleaned.log.failure is None
    assert not [name for name in cleaned.disk.list(cleaned.log.directory) if name.endswith(".cleaned")]
    cleaned.now_s += compaction.RETRY_S - 1
    assert at_once(cleaned.compaction.choose()) is None
    cleaned.now_s += 1
    assert cleaned.clean() == 1
