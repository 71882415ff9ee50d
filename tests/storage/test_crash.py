"""Power failures at every operation, and at thousands of seeded ones, on a disk that tears unflushed writes.

After each, the log must open and contain all flushed records unchanged and in order, and no record that was never
written; its indexes must be those of a full scan. A failure is reproduced by its seed.
"""

from __future__ import annotations

from random import Random

import pytest
from support.logs import (
    DIRECTORY,
    PARTITION,
    SMALL,
    Clock,
    append,
    append_marker,
    check_indexes,
    make_batch,
    memory_disk,
    open_log,
    read_all,
    read_batches,
)

from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import batches
from minikafka.protocol.records.control import ControlType
from minikafka.storage.disks.checkpoint_files import RECOVERY_POINTS, read_offsets, write_offsets
from minikafka.storage.disks.disk import MemoryDisk
from minikafka.storage.disks.memory_disk import PowerLoss
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogOwner

CHECKPOINT = f"/data/{RECOVERY_POINTS}"


class Life:
    """A log under a scripted load, and its possible content after a crash.

    Attributes:
        written: every value ever appended at an offset; after a truncation there may be several.
        synced: the values that must survive.
    """

    def __init__(self, disk: MemoryDisk, random: Random) -> None:
        self.disk = disk
        self.random = random
        self.written: dict[int, set[bytes]] = {}
        self.current: dict[int, bytes] = {}
        self.synced: dict[int, bytes] = {}
        self.start_max = 0
        self.log: Log | None = None
        self.clock = Clock()
        self.number = 0

    def open(self, *, clean: bool = False) -> Log:
        point = read_offsets(self.disk, CHECKPOINT).get(PARTITION, 0)
        self.log = open_log(
            self.disk,
            clean=clean,
            recovery_point=point,
            now_ms=self.clock,
            owner=LogOwner(on_truncation=self.write_checkpoint),
        )
        return self.log

    def write_checkpoint(self, key: TopicPartition, recovery_point: int) -> None:
        write_offsets(self.disk, CHECKPOINT, {key: recovery_point})

    def checkpoint(self, log: Log) -> None:
        self.write_checkpoint(PARTITION, log.recovery_point)

    def step(self) -> None:
        log = self.log
        assert log is not None
        what = self.random.choices(
            ["append", "flush", "roll", "truncate", "start_anew", "retention", "checkpoint"], [60, 12, 6, 5, 2, 4, 6]
        )[0]
        getattr(self, what)(log)

    def append(self, log: Log) -> None:
        count = self.random.randint(1, 4)
        values = [f"{self.number}:{index}".encode() * self.random.randint(1, 40) for index in range(count)]
        self.number += 1
        options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": log.end_offset & 0xFFFF}
        for index, value in enumerate(values):
            self.written.setdefault(log.end_offset + index, set()).add(value)
        appended = append(
            log, *values, timestamp=self.clock.ms, leader_epoch=self.number // 20,
            **(options if self.random.random() < 0.5 else {}),
        )  # fmt: skip
        self.clock.ms += self.random.randint(0, 50)
        for index, value in enumerate(values):
            self.current[appended.first_offset + index] = value

    def flush(self, log: Log) -> None:
        log.flush()
        self.synced = {offset: value for offset, value in self.current.items() if offset < log.recovery_point}

    def roll(self, log: Log) -> None:
        log.roll()

    def truncate(self, log: Log) -> None:
        found = read_batches(log)
        offset = self.random.choice(found).base_offset if found else log.end_offset
        self.synced = {one: value for one, value in self.synced.items() if one < offset}
        self.current = {one: value for one, value in self.current.items() if one < offset}
        log.truncate_to(offset)

    def start_anew(self, log: Log) -> None:
        """As a follower whose leader has deleted the records that it lacks."""
        self.synced, self.current = {}, {}
        log.truncate_fully_and_start_at(log.end_offset + self.random.randint(0, 30))

    def retention(self, log: Log) -> None:
        offset = self.random.randint(log.start_offset, log.end_offset)
        self.start_max = max(self.start_max, offset)
        log.advance_start_offset(offset)
        log.delete_old_segments(log.end_offset)

    def verify(self) -> None:
        """Checks a log that was opened after a crash."""
        log = self.log
        assert log is not None
        found = dict(read_all(log))
        for offset, value in found.items():
            assert value in self.written[offset], f"offset {offset} has a value that was never written"
        for offset, value in self.synced.items():
            if offset >= self.start_max:
                assert found.get(offset) == value, f"synced offset {offset} is missing or wrong"
        assert sorted(found) == list(range(log.start_offset, log.end_offset))
        assert not log.report.damage or "was saved in files" in log.report.damage
        check_indexes(log)
        for batch in read_batches(log):
            known = log.epochs.epoch_of(batch.base_offset)
            assert known == batch.leader_epoch
        self.current = found
        self.written = {offset: {value} for offset, value in found.items()}


def run(seed: object, *, steps: int = 40, crash_after: int | None = None) -> int:
    """Runs one history with crashes; returns the number of operations before the first."""
    random = Random(str(seed))
    disk = memory_disk(seed)
    life = Life(disk, random)
    life.open()
    before = sum(disk.calls.values())
    disk.lose_power_after(random.randint(0, 300) if crash_after is None else crash_after)
    try:
        for _ in range(steps):
            life.step()
    except PowerLoss:
        pass
    operations = sum(disk.calls.values()) - before
    for _ in range(2):  # The power may fail during recovery, too.
        disk.crash()
        disk.lose_power_after(random.randint(0, 60) if random.random() < 0.3 else 10**9)
        try:
            life.open()
            break
        except PowerLoss:
            continue
    else:
        disk.crash()
        life.open()
    disk.lose_power_after(10**9)
    life.verify()
    for _ in range(5):
        life.step()
    assert life.log is not None
    life.log.close()
    life.checkpoint(life.log)
    life.open(clean=True)
    assert life.log.report.clean
    assert dict(read_all(life.log)) == {
        offset: value for offset, value in life.current.items() if offset >= life.log.start_offset
    }
    check_indexes(life.log)
    return operations


@pytest.mark.slow
@pytest.mark.parametrize("block", range(25))
def test_seeded_histories_with_power_failures(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        try:
            run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("seed", ["rolls", "flushes", "truncations"])
def test_a_power_failure_at_every_operation(seed: str) -> None:
    for crash_after in range(120):
        try:
            run(seed, crash_after=crash_after)
        except Exception as error:
            raise AssertionError(f"{seed}, cut after {crash_after} operations: {error}") from error


@pytest.mark.parametrize("seed", range(60))
def test_with_flush_messages_1_no_acknowledged_record_is_lost(seed: int) -> None:
    """Records that were acknowledged after their flush survive any crash."""
    random = Random(seed)
    disk = memory_disk(f"acks {seed}")
    log = open_log(disk)
    acknowledged: list[tuple[int, bytes]] = []
    disk.lose_power_after(random.randint(0, 150))
    try:
        for number in range(60):
            appended = append(log, f"record {number}".encode() * random.randint(1, 60))
            log.flush()
            write_offsets(disk, CHECKPOINT, {PARTITION: log.recovery_point})
            acknowledged.append((appended.first_offset, b""))
    except PowerLoss:
        pass
    disk.crash()
    log = open_log(disk, recovery_point=read_offsets(disk, CHECKPOINT).get(PARTITION, 0))
    assert log.end_offset >= len(acknowledged)
    assert not log.report.damage
    check_indexes(log)


@pytest.mark.parametrize("seed", range(30))
def test_a_log_that_was_flushed_and_closed_keeps_its_timestamps(seed: int) -> None:
    """The last entry of the time index is added when the log is closed; zeros instead of it are a timestamp of 1970."""
    disk = memory_disk(f"closed {seed}")
    log = open_log(disk)
    for number in range(1 + seed % 3):
        append(log, f"record {number}".encode())
        log.flush()
    log.close()
    disk.crash()
    log = open_log(disk, clean=True, recovery_point=log.end_offset)
    assert log.report.clean
    check_indexes(log)
    assert log.delete_old_segments(log.end_offset) == 0


@pytest.mark.parametrize("seed", [346, 8304])
def test_histories_that_failed_once(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", range(100))
def test_a_truncation_to_the_recovery_point_is_completed_after_power_failures(seed: int) -> None:
    """The next segment starts where the truncated one ends. What a power failure restores behind that, whole or torn,
    is removed, and comes back with no later one."""
    disk = memory_disk(f"truncated {seed}")
    log = open_log(disk)
    append(log, b"kept" * 20)
    log.flush()
    point = log.recovery_point
    for _ in range(1 + seed % 3):
        append(log, b"truncated" * 100)
    log.truncate_to(point)
    log.roll()
    append(log, b"behind")
    for _ in range(3):
        disk.crash()
        log = open_log(disk, recovery_point=point)
        check_indexes(log)
        assert read_all(log)[0] == (0, b"kept" * 20)
        if log.end_offset == point:
            append(log, b"behind again")
        log.flush()
        point = log.recovery_point


@pytest.mark.parametrize("seed", range(40))
def test_a_flushed_entry_of_the_transaction_index_survives_recovery_and_another_power_failure(seed: int) -> None:
    disk = memory_disk(f"aborted {seed}")
    log = open_log(disk)
    append(log, b"aborted", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    append_marker(log, ControlType.ABORT, producer_id=1)
    log.flush()
    point = log.recovery_point
    disk.crash()
    open_log(disk, recovery_point=point).roll()
    disk.crash()
    log = open_log(disk, recovery_point=point)
    assert log.aborted_transactions(0, log.end_offset) == [(1, 0)]


@pytest.mark.parametrize("size", range(1, 62))
def test_a_batch_torn_at_any_byte_of_its_header_is_truncated(size: int) -> None:
    """A crash leaves part of the last write, from one byte to a header without records."""
    disk = memory_disk()
    log = open_log(disk)
    for number in range(5):
        append(log, b"%d" % number * 30)
    log.close(clean=False)
    torn = make_batch([b"torn" * 20])
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    file.append(bytes(torn[:size]))
    log = open_log(disk)
    assert [offset for offset, _ in read_all(log)] == [0, 1, 2, 3, 4]
    assert (log.report.truncated_bytes, log.report.damage) == (size, "")
    assert append(log, b"next").first_offset == 5


def test_zeros_and_garbage_at_the_end_are_truncated() -> None:
    for tail in (bytes(5000), b"\xff" * 5000, Random(1).randbytes(5000)):
        disk = memory_disk()
        log = open_log(disk)
        append(log, b"kept")
        log.close(clean=False)
        disk.open(f"{DIRECTORY}/{0:020d}.log").append(tail)
        log = open_log(disk)
        assert read_all(log) == [(0, b"kept")]
        assert log.report.truncated_bytes == 5000
        assert list(batches(log.read(0, max_bytes=9999).read()))  # type: ignore[union-attr]


def test_only_data_beyond_the_recovery_point_is_scanned() -> None:
    disk = memory_disk()
    log = open_log(disk, config=SMALL)
    for number in range(200):
        append(log, b"%d" % number * 20)
    log.flush()
    point, size = log.recovery_point, log.size_bytes
    for number in range(3):
        append(log, b"%d" % number * 20)
    log.close(clean=False)
    log = open_log(disk, recovery_point=point)
    assert 0 < log.report.scanned_bytes < log.size_bytes - size + 2 * SMALL.index_interval_bytes
    assert log.end_offset == 203
    check_indexes(log)
