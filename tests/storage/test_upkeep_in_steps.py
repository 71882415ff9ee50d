"""What looks at all logs from time to time pauses: a step looks at some hundreds, however many there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
import trio
from support.logs import SMALL, Clock, memory_disk

from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.directories.log_upkeep import LOGS_AT_ONCE, LogUpkeep
from minikafka.storage.directories.offset_checkpoint import OffsetCheckpoint
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogContext

KEYS = [TopicPartition("t", index) for index in range(3 * LOGS_AT_ONCE + 1)]


class Steps(trio.abc.Instrument):
    """Counts the logs that each step looks at."""

    def __init__(self) -> None:
        self.looks: list[int] = [0]

    def before_task_step(self, task: Any) -> None:
        self.looks.append(0)


@pytest.fixture(scope="module")
def manager() -> LogManager:
    made = LogManager(LogContext(memory_disk(), Clock(), Random(1)), ["/data"], config_of=lambda topic: SMALL)
    made.load()
    for key in KEYS:
        made.create(key, topic_id=bytes(16)).state.delete_later(["/data/none"])
    return made


@pytest.mark.parametrize(
    ("looked_at", "work"),
    [
        ("flush_wanted", LogUpkeep.flush_due),
        ("expire_producers", LogUpkeep.expire_producers),
        ("removing_deleted", LogUpkeep.remove_deleted),
    ],
)
def test_no_step_looks_at_all_logs(
    manager: LogManager,
    monkeypatch: pytest.MonkeyPatch,
    looked_at: str,
    work: Callable[[LogUpkeep], Awaitable[object]],
) -> None:
    steps = Steps()
    original = getattr(Log, looked_at)

    def counted(log: Log) -> object:
        steps.looks[-1] += 1
        return original.fget(log) if isinstance(original, property) else original(log)

    monkeypatch.setattr(Log, looked_at, property(counted) if isinstance(original, property) else counted)
    trio.run(lambda: work(manager.upkeep), instruments=[steps])
    assert sum(steps.looks) == len(KEYS)
    assert max(steps.looks) <= LOGS_AT_ONCE


def test_each_checkpoint_is_gathered_in_a_step_of_its_own(manager: LogManager, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if nothing has changed, and no thread writes it."""
    steps = Steps()
    gather = OffsetCheckpoint.prepare

    def counted(checkpoint: OffsetCheckpoint, *args: Any) -> object:
        steps.looks[-1] += 1
        return gather(checkpoint, *args)

    monkeypatch.setattr(OffsetCheckpoint, "prepare", counted)
    for _ in range(2):
        trio.run(manager.upkeep.write_checkpoints_async, instruments=[steps])
    assert (sum(steps.looks), max(steps.looks)) == (4, 1)
