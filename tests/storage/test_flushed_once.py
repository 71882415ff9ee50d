"""What a clean stop flushes: each file and directory at most once, and of logs without records next to nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from support.logs import SMALL, Clock, append, memory_disk, open_log, read_all

from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.memory_disk import MemoryDisk, PowerLoss
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogContext

TOPIC_ID = bytes(range(16))
MANY = 40


class CountingDisk(MemoryDisk):
    """Counts the calls of each kind on each path."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.by_path: Counter[tuple[str, str]] = Counter()
        self.make_directory("/data")

    def call(self, kind: str, path: str) -> None:
        super().call(kind, path)
        self.by_path[kind, path] += 1

    def calls_of(self, kind: str) -> dict[str, int]:
        return {path: count for (known, path), count in self.by_path.items() if known == kind}


def manager_of(disk: MemoryDisk) -> LogManager:
    made = LogManager(
        LogContext(disk, Clock(), Random(1)), ["/data"], node_id=1, cluster_id="c", config_of=lambda topic: SMALL
    )
    made.load()
    return made


def blank(log: Log) -> None:
    log.epochs.assign(5, 0)


def with_records(log: Log) -> None:
    append(log, b"a")


def rolled(log: Log) -> None:
    for _ in range(60):
        append(log, b"a" * 200)


def rolled_just_now(log: Log) -> None:
    append(log, b"a")
    log.roll()


def truncated(log: Log) -> None:
    rolled(log)
    log.flush()
    log.truncate_to(3)


def truncated_to_nothing(log: Log) -> None:
    append(log, b"a")
    log.flush()
    log.truncate_to(0)


def restarted_elsewhere(log: Log) -> None:
    append(log, b"a")
    log.truncate_fully_and_start_at(70)


def with_an_aborted_transaction(log: Log) -> None:
    append(log, b"a", producer_id=3, producer_epoch=0, base_sequence=0, transactional=True)


KINDS = [
    blank, with_records, rolled, rolled_just_now, truncated, truncated_to_nothing, restarted_elsewhere,
    with_an_aborted_transaction,
]  # fmt: skip


def prepared(disk: MemoryDisk, prepare: Callable[[Log], None], count: int) -> None:
    manager = manager_of(disk)
    for number in range(count):
        prepare(manager.create(TopicPartition("t", number), topic_id=TOPIC_ID))


@pytest.mark.parametrize("was_killed", [False, True])
@pytest.mark.parametrize("prepare", KINDS)
def test_a_clean_stop_syncs_nothing_twice(prepare: Callable[[Log], None], was_killed: bool) -> None:
    disk = CountingDisk()
    prepared(disk, prepare, MANY)
    manager = manager_of(disk)
    if not was_killed:
        for log in manager.logs.values():
            prepare(log)
    disk.by_path.clear()
    manager.close({})
    twice = {path: count for path, count in disk.calls_of("sync").items() if count > 1}
    assert set(twice) <= {"/data"}, "the data directory, as each checkpoint is renamed"
    assert twice.get("/data", 0) <= 5


def test_a_start_after_a_crash_and_a_clean_stop_of_logs_without_records_write_next_to_nothing() -> None:
    disk = CountingDisk()
    prepared(disk, blank, MANY)
    disk.by_path.clear()
    manager = manager_of(disk)
    for log in manager.logs.values():
        log.epochs.assign(5, 0)
        log.epochs.assign(6, 0)
    manager.close({})
    assert sum(disk.calls_of("rename").values()) < 5, "no file of a log is written anew"
    assert sum(disk.calls_of("sync").values()) <= 3 * MANY + 10, "batches, topic id and directory of each log"


def test_a_clean_start_and_stop_of_logs_without_records_sync_none_of_them() -> None:
    disk = CountingDisk()
    prepared(disk, blank, MANY)
    manager_of(disk).close({})
    disk.by_path.clear()
    manager = manager_of(disk)
    for log in manager.logs.values():
        log.epochs.assign(7, 0)
    manager.close({})
    assert not [path for path in disk.calls_of("sync") if path.startswith("/data/t-")]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("prepare", KINDS)
def test_what_was_closed_cleanly_survives_a_power_failure(prepare: Callable[[Log], None], seed: int) -> None:
    """Also what the process before had done, which was killed before it flushed."""
    disk = memory_disk(seed)
    prepared(disk, prepare, 2)
    manager = manager_of(disk)
    if seed % 2:
        for log in manager.logs.values():
            prepare(log)
    expected = {key: (read_all(log), log.start_offset, log.end_offset) for key, log in manager.logs.items()}
    epochs = {key: epochs_with_records(log) for key, log in manager.logs.items()}
    manager.close({})
    disk.crash()
    again = manager_of(disk)
    assert again.failures.clean
    for key, found in expected.items():
        log = again.logs.get(key) or again.create(key, topic_id=TOPIC_ID)
        assert (read_all(log), log.start_offset, log.end_offset) == found
        assert epochs_with_records(log) == epochs[key]
        if log.end_offset == log.segments.bases[-1]:
            assert (log.segments.active.offsets.count, log.segments.active.times.count) == (0, 0), "of an empty segment"
        if log.end_offset > 0:
            assert log.topic_id == TOPIC_ID


def epochs_with_records(log: Log) -> list[tuple[int, int]]:
    return [one for one in log.epochs.entries if one[1] < log.end_offset]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_entries_that_come_back_for_an_empty_segment_are_not_used(suffix: str) -> None:
    """A flush leaves out the indexes of an empty segment, so that a power failure may bring back what they had."""
    disk = memory_disk()
    log = open_log(disk)
    rolled(log)
    first = log.segments[0]
    kept = disk.read_bytes(first.prefix + suffix)
    assert kept
    log.truncate_fully_and_start_at(0)
    log.close()
    disk.write_atomically(first.prefix + suffix, kept)
    again = open_log(disk, clean=True)
    assert again.report.clean
    assert (again.segments.active.offsets.count, again.segments.active.times.count) == (0, 0)
    assert again.segments.active.latest.timestamp == -1


@pytest.mark.slow
@pytest.mark.parametrize("prepare", KINDS)
def test_a_power_failure_at_any_operation_of_a_stop_leaves_what_its_files_say(prepare: Callable[[Log], None]) -> None:
    """A recovery point or a clean-shutdown file never survives without the records that it speaks of."""
    for seed in range(3):
        operation = 0
        while not survived_the_stop(prepare, f"{seed} {operation}", operation):
            operation += 1


def survived_the_stop(prepare: Callable[[Log], None], seed: str, operation: int) -> bool:
    """Returns whether the logs were closed before the power failed."""
    disk = memory_disk(seed)
    manager = manager_of(disk)
    keys = [TopicPartition("t", number) for number in range(2)]
    for key in keys:
        prepare(manager.create(key, topic_id=TOPIC_ID))
    expected = {key: read_all(log) for key, log in manager.logs.items()}
    disk.lose_power_after(operation)
    stopped = False
    with suppress(PowerLoss):
        manager.close({})
        stopped = True
    disk.crash()
    again = manager_of(disk)
    assert again.failures.clean or not stopped
    points = {key: again.directories[0].checkpoints.recovery_points.offsets.get(key, 0) for key in keys}
    logs = {key: again.create(key, topic_id=TOPIC_ID) for key in keys}
    for key, log in logs.items():
        assert points[key] <= log.end_offset
        assert not again.failures.clean or read_all(log) == expected[key]
    return stopped
