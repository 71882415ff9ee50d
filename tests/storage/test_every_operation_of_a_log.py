"""Each operation of the disk fails in the life of one log: what is acknowledged is there, what was truncated is not.

The life has rolls with producer snapshots and aborted transactions, truncations across segments and below the recovery
point, DeleteRecords and retention; that of a compacted log has two rounds of cleaning. After each fault, or the power
failure that follows it, the log is opened anew and compared.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
import trio
from support.compaction import KEY as CLEANED
from support.compaction import Cleaned, finish
from support.faulty_disk import FaultyDisk
from support.logs import PARTITION, SMALL, Clock, append, append_marker, check_indexes, read_all

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.records.control import ControlType
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.memory_disk import MemoryDisk
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.steps import at_once

TOPIC_ID = bytes(range(16))
FAULTS = [
    (errno.EIO, 1, False), (errno.EIO, 1, True), (errno.ENOSPC, 1, False), (errno.ENOSPC, 40, True),
    (errno.EMFILE, 5, False), (errno.EMFILE, 1, True),
]  # fmt: skip
"""Error code, how many calls fail, and whether the power fails afterwards."""
Record = tuple[int, bytes]

pytestmark = pytest.mark.usefixtures("quiet")


class Life:
    """A log and what its callers were told.

    Attributes:
        rows: the records that were acknowledged and not truncated, by offset.
        unsure: those whose append or truncation has failed: they may be there or not.
        truncated: those that were truncated: after a power failure they may be back, unless their offset was flushed.
        flushed: the offset up to which a power failure must leave everything.
        start_max: how far the log start offset may have advanced.
    """

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk, self.clock, self.random = disk, Clock(), Random(1)
        self.rows: dict[int, bytes] = {}
        self.unsure, self.truncated = set[Record](), set[Record]()
        self.flushed = self.start_max = 0
        self.sequences: dict[int, int] = {}
        self.is_made = False

    def start(self, *, power_failed: bool = False) -> None:
        context = LogContext(self.disk, self.clock, self.random)
        self.manager = LogManager(context, ["/a"], node_id=1, cluster_id="c", config_of=lambda topic: SMALL)
        self.manager.load()
        assert power_failed or not any(log.report.damage for log in self.manager.logs.values())

    def log(self) -> Log:
        is_new, self.is_made = not self.is_made, True
        return self.manager.create(PARTITION, topic_id=TOPIC_ID, is_new=is_new)

    def all(self) -> None:
        """Everything; after a failed step the next one follows, as on a node."""
        with suppress(KafkaError):
            self.start()
            for _ in range(2):
                self.serve()
                self._try(self.manager.close, {})
                self.start()

    def serve(self) -> None:
        checkpoint, high_watermarks = self.manager.upkeep.write_checkpoints, {PARTITION: 0}
        self._try(self.write, 12, 5)
        self._try(self.write, 3, 6)
        self._try(self.write, 10)
        self._try(append_marker, self.log(), ControlType.ABORT, producer_id=6)
        self._try(self.flush)
        self._try(checkpoint, high_watermarks)
        self._try(self.write, 20, 5)
        self._try(self.truncate, 30)
        self._try(self.write, 15, 7)
        self._try(self.flush)
        self._try(self.retain, 6000)
        self._try(self.write, 10)
        self._try(self.delete_records)
        self._try(checkpoint, high_watermarks)
        self._try(self.truncate, 5)
        self._try(self.retain, 3000)
        self._try(self.write, 5, 8)
        self._try(self.flush)
        self._try(self.retain, 0)
        self._try(self.write, 3, 8)

    def _try(self, step: Callable[..., object], *args: object, **named: object) -> None:
        with suppress(KafkaError):
            step(*args, **named)

    def write(self, count: int, producer_id: int = -1) -> None:
        """Those of producer 6 are in a transaction."""
        log = self.log()
        for _ in range(count):
            sequence = self.sequences.get(producer_id, 0)
            record = (log.end_offset, b"%d-%d " % (log.end_offset, len(self.rows)) * 20)
            producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            self.unsure.add(record)
            append(log, record[1], transactional=producer_id == 6, **producer if producer_id >= 0 else {})
            self.unsure.discard(record)
            self.rows[record[0]] = record[1]
            self.sequences[producer_id] = sequence + 1

    def flush(self) -> None:
        log = self.log()
        log.flush()
        self.flushed = log.end_offset

    def truncate(self, count: int) -> None:
        log = self.log()
        offset = max(log.start_offset, log.end_offset - count)
        cut = {one for one in self.rows.items() if one[0] >= offset}
        self.unsure |= cut
        self.rows = {at: value for at, value in self.rows.items() if at < offset}
        self.flushed = min(self.flushed, offset)
        log.truncate_to(offset)
        self.unsure -= cut
        self.truncated |= cut

    def retain(self, size_bytes: int) -> None:
        log = self.log()
        log.update_config(replace(SMALL, retention_bytes=size_bytes))
        self.start_max = max(self.start_max, log.end_offset)
        log.delete_old_segments(log.end_offset)
        self.clock.ms += 100_000
        trio.run(self.manager.upkeep.flush_due)
        trio.run(self.manager.upkeep.remove_deleted)

    def delete_records(self) -> None:
        log = self.log()
        offset = (log.start_offset + log.end_offset) // 2
        self.start_max = max(self.start_max, offset)
        log.advance_start_offset(offset)

    def check(self, *, power_failed: bool) -> None:
        """After the next start."""
        self.start(power_failed=power_failed)
        assert not self.manager.failures.corrupt
        log = self.log()
        assert log.start_offset <= self.start_max
        found = dict(read_all(log))
        for offset, value in found.items():
            is_back = power_failed and offset >= self.flushed and (offset, value) in self.truncated
            assert self.rows.get(offset) == value or (offset, value) in self.unsure or is_back, offset
        lost = {offset for offset in self.rows.keys() - found.keys() if offset >= log.start_offset}
        assert not lost if not power_failed else all(offset >= self.flushed for offset in lost)
        check_indexes(log)
        append(log, b"goes on")


@pytest.mark.sweep
@pytest.mark.parametrize(("code", "times", "power_fails"), FAULTS)
def test_a_log_is_what_was_acknowledged_whichever_operation_fails(code: int, times: int, power_fails: bool) -> None:
    first = 0
    while True:
        # A process that starts after a failed sync trusts the page cache: see the caveats of `storage`.
        disk = FaultyDisk(f"{code} {first}", syncs_fail=not power_fails)
        life = Life(disk)
        disk.fail_from(first, times, code)
        life.all()
        if not disk.failed:
            break
        disk.heal()
        if power_fails:
            disk.crash()
        try:
            life.check(power_failed=power_fails)
        except BaseException:
            print(f"operation {first} of the life: {disk.failed[0]}")
            raise
        first += 1
    assert first > 100


def table_of(cleaned: Cleaned) -> dict[bytes, bytes]:
    """Without tombstones and the aborted record, which cleaning removes."""
    return {key: value for key, value in cleaned.table().items() if value and key != b"aborted"}


def fill(cleaned: Cleaned) -> None:
    for number in range(40):
        cleaned.put((b"k%d" % (number % 5), b"%d" % number * 60))
    cleaned.put((b"aborted", b"x"), producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    append_marker(cleaned.log, ControlType.ABORT, producer_id=5)
    for number in range(50):
        cleaned.put((b"k%d" % (number % 7), None if number % 6 == 3 else b"%d" % number * 60))
    cleaned.log.roll()
    cleaned.log.flush()


def clean_twice(cleaned: Cleaned) -> None:
    """As a node does: after a failed cleaning, or a delay, there is another one."""
    upkeep = cleaned.manager.upkeep
    for _ in range(2):
        with suppress(KafkaError):
            due = at_once(cleaned.compaction.choose())
            if due is not None:
                finish(cleaned.compaction.clean(due))
            assert isinstance(cleaned.clock, Clock)
            cleaned.clock.ms += 100_000
            trio.run(upkeep.flush_due)
            trio.run(upkeep.remove_deleted)
            upkeep.write_checkpoints({CLEANED: cleaned.log.end_offset})


@pytest.mark.sweep
@pytest.mark.parametrize(("code", "times", "power_fails"), FAULTS)
def test_a_compacted_log_has_its_last_values_whichever_operation_fails(
    code: int, times: int, power_fails: bool
) -> None:
    first = 0
    while True:
        disk = FaultyDisk(f"{code} {first}", syncs_fail=not power_fails)
        disk.make_directory("/data")
        disk.sync_directory("/")
        cleaned = Cleaned(disk, clock=Clock())
        fill(cleaned)
        expected, end = table_of(cleaned), cleaned.log.end_offset
        disk.fail_from(first, times, code)
        clean_twice(cleaned)
        if not disk.failed:
            break
        disk.heal()
        if power_fails:
            disk.crash()
        cleaned.open()
        assert not cleaned.manager.failures.corrupt
        assert (cleaned.log.end_offset, cleaned.log.report.damage) == (end, "")
        assert table_of(cleaned) == expected, f"operation {first}: {disk.failed[0]}"
        check_indexes(cleaned.log)
        cleaned.log.high_watermark_advanced(end)
        cleaned.clean()
        assert table_of(cleaned) == expected, f"operation {first}: {disk.failed[0]}"
        first += 1
    assert first > 20
