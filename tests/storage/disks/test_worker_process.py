"""A worker process that does not start, ends, does not understand or does not answer fails its caller, and only it."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from minikafka.storage.disks import worker_process
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.disks.worker import Worker, WorkerLost
from minikafka.storage.disks.worker_process import ProcessLane

TIMEOUT_S = 20


def doubled(worker: Worker, number: int) -> int:
    return 2 * number


def fails(worker: Worker) -> None:
    raise AttributeError("of other code")


def hangs(worker: Worker) -> None:
    time.sleep(TIMEOUT_S)


class Unreadable:
    """What the process cannot read, as an object of a class that the installed code no longer has."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return int, ("no number",)


class EndsWhoReadsIt:
    """What ends the thread that reads it, as code that cannot be imported."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return sys.exit, (3,)


def in_lane(main: Callable[[ProcessLane], Awaitable[None]]) -> None:
    async def run() -> None:
        lane = ProcessLane(RealDisk().run)
        try:
            with trio.fail_after(TIMEOUT_S):
                await main(lane)
        finally:
            lane.close()

    trio.run(run)


def test_results_and_errors_of_functions_are_those_of_the_caller() -> None:
    async def main(lane: ProcessLane) -> None:
        with pytest.raises(AttributeError, match="of other code"):
            await lane.run(fails)
        assert await lane.run(doubled, 21) == 42

    in_lane(main)


@pytest.mark.parametrize("what", [Unreadable(), EndsWhoReadsIt()])
def test_a_process_that_cannot_read_a_request_ends(what: object) -> None:
    async def main(lane: ProcessLane) -> None:
        for _ in range(2):
            with pytest.raises(WorkerLost):
                await lane.run(doubled, what)

    in_lane(main)


NOT_STARTED = [FileNotFoundError(2, "No such file or directory"), BlockingIOError(11, "temporarily unavailable")]


@pytest.mark.parametrize("error", NOT_STARTED)
def test_a_process_that_cannot_be_started_is_no_error_of_a_disk(
    monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def start() -> None:
        raise error

    async def main(lane: ProcessLane) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(worker_process, "_start", start)
            with pytest.raises(WorkerLost, match=str(error.strerror)):
                await lane.run(doubled, 1)
        assert await lane.run(doubled, 1) == 2, "it starts later"

    in_lane(main)


def test_a_process_with_other_code_than_its_node_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an upgrade in place: the request could mean something else there."""

    async def main(lane: ProcessLane) -> None:
        with pytest.raises(WorkerLost, match=r"other code .* restart the node"):
            await lane.run(doubled, 1)

    monkeypatch.setattr(worker_process, "CODE", "of before")
    in_lane(main)


def test_each_change_of_the_code_of_workers_changes_its_checksum(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = [tmp_path / one for one in ("storage/disks/worker_process.py", "storage/log.py", "protocol/codec/a.py")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("MAX = 1")
    monkeypatch.setattr(worker_process, "__file__", str(paths[0]))
    found = [worker_process._code()]
    for path in paths:
        path.write_text("MAX = 2")
        found.append(worker_process._code())
    assert len({*found}) == len(paths) + 1


def test_a_process_that_does_not_answer_ends_with_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "LATE_S", 0.1)

    async def main(lane: ProcessLane) -> None:
        assert await lane.run(doubled, 1) == 2
        began_s = trio.current_time()
        with trio.move_on_after(0.1) as scope:
            await lane.run(hangs)
        assert scope.cancelled_caught
        assert trio.current_time() - began_s < TIMEOUT_S / 2

    in_lane(main)


def test_a_process_that_does_not_answer_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(lane: ProcessLane) -> None:
        with pytest.raises(WorkerLost, match="ended with -9"):
            await lane.run(hangs)

    monkeypatch.setattr(worker_process, "ANSWER_S", 0.1)
    in_lane(main)
