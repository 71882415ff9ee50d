"""Published bugs of Kafka's log layer, each held by a test (see docs/published-bugs.md)."""

from __future__ import annotations

import errno
from random import Random

import pytest
import trio
from support.batches import encode_batch
from support.logs import (
    DIRECTORY,
    PARTITION,
    SMALL,
    Clock,
    append,
    append_bytes,
    append_marker,
    check_indexes,
    make_batch,
    memory_disk,
    open_log,
    parse,
    read_all,
    read_batches,
)

from minikafka.protocol.errors import KafkaError, KafkaStorageError
from minikafka.protocol.records.control import ControlType
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.checkpoint_files import CLEAN_SHUTDOWN
from minikafka.storage.disks.disk import MemoryDisk
from minikafka.storage.disks.memory_disk import PowerLoss
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogContext, LogOwner
from minikafka.storage.logs.log_results import UnexpectedOffset
from minikafka.storage.logs.producer_state import Duplicate
from minikafka.storage.steps import at_once


def manager_of(disk: MemoryDisk) -> LogManager:
    found = LogManager(LogContext(disk, Clock(), Random(1)), ["/data"], config_of=lambda topic: SMALL)
    found.load()
    return found


def sequenced(number: int, **more: int) -> dict[str, int]:
    return {"producer_id": 7, "producer_epoch": 0, "base_sequence": number, **more}


def test_kafka_9491_a_fully_truncated_log_starts_and_ends_at_its_new_start() -> None:
    """KAFKA-9491, KAFKA-3978: a high watermark from the checkpoint stays within the log."""
    disk = memory_disk()
    manager = manager_of(disk)
    log = manager.create(PARTITION)
    for _ in range(50):
        append(log, b"x" * 200)
    manager.upkeep.write_checkpoints({PARTITION: 50})
    log.truncate_fully_and_start_at(500)
    assert (log.start_offset, log.end_offset, manager.high_watermark(PARTITION)) == (500, 500, 500)
    assert append(log, b"next").first_offset == 500


def test_kafka_5634_retention_stops_at_the_high_watermark() -> None:
    log = open_log(memory_disk(), config=LogConfig(segment_bytes=1024, retention_bytes=0, retention_ms=0))
    for _ in range(30):
        append(log, b"x" * 200, timestamp=1)
    for watermark in (0, 3, 10, 29):
        log.delete_old_segments(watermark)
        assert log.start_offset <= watermark
        assert read_all(log)[0][0] <= watermark
    log.delete_old_segments(30)
    assert (log.start_offset, len(log.segments)) == (30, 1)


def test_kip_360_an_unknown_producer_continues_with_its_sequence() -> None:
    """KIP-360: after its records were deleted and its state expired, the broker accepts any sequence."""
    clock = Clock()
    log = open_log(memory_disk(), now_ms=clock)
    append(log, b"a", **sequenced(0))
    log.advance_start_offset(1)
    assert log.producers.check(parse(make_batch([b"b"], **sequenced(1)))) is None
    clock.ms += 86_400_000
    at_once(log.expire_producers())
    assert log.producers.check(parse(make_batch([b"b"], **sequenced(41)))) is None


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("rolled", [True, False])
def test_a_retry_of_any_of_the_last_five_batches_is_a_duplicate_after_a_restart(clean: bool, rolled: bool) -> None:
    """Snapshots hold one batch of each producer, as in Kafka; the others are read from the log."""
    disk = memory_disk()
    log = open_log(disk)
    for number in range(8):
        append(log, b"%d" % number, **sequenced(number))
        append(log, b"of another", producer_id=9, producer_epoch=3, base_sequence=number)
    if rolled:
        log.roll()
    log.close(clean=clean)
    log = open_log(disk, clean=clean, recovery_point=16 if clean else 0)
    for number in range(3, 8):
        found = log.producers.check(parse(make_batch([b"%d" % number], **sequenced(number))))
        assert found == Duplicate(2 * number, 2 * number, 1_700_000_000_000)
    for number in (2, 9):
        with pytest.raises(KafkaError, match="Out of order sequence number"):
            log.producers.check(parse(make_batch([b"?"], **sequenced(number))))
    assert log.producers.check(parse(make_batch([b"next"], **sequenced(8)))) is None


def test_kafka_5793_gaps_are_refused_sequences_wrap_and_new_epochs_start_at_zero() -> None:
    log = open_log(memory_disk())
    append(log, b"a", b"b", **sequenced((1 << 31) - 2))
    check = log.producers.check
    assert check(parse(make_batch([b"c"], **sequenced(0)))) is None
    for wrong in (1, (1 << 31) - 1, 5):
        with pytest.raises(KafkaError, match="Out of order"):
            check(parse(make_batch([b"c"], **sequenced(wrong))))
    with pytest.raises(KafkaError, match="new epoch"):
        check(parse(make_batch([b"c"], **sequenced(1, producer_epoch=1))))
    assert check(parse(make_batch([b"c"], **sequenced(0, producer_epoch=1)))) is None


def test_kafka_5490_an_empty_batch_preserves_the_last_sequence() -> None:
    """KAFKA-5490: the cleaner leaves a batch without records; recovery takes the sequence from its header."""
    disk = memory_disk()
    log = open_log(disk)
    empty = encode_batch(
        [], last_offset_delta=4, base_offset=10, base_timestamp=5, max_timestamp=9, deltas=(), **sequenced(20)
    )  # fmt: skip
    append_bytes(log, bytearray(empty), assign_offsets=False)
    log.close(clean=False)
    log = open_log(disk, config=LogConfig(cleanup_policy=("compact",)))
    assert log.end_offset == 15
    assert log.producers.check(parse(make_batch([b"next"], **sequenced(25)))) is None
    assert log.producers.check(parse(make_batch([b"x"] * 5, **sequenced(20)))) == Duplicate(10, 14, 9)


def test_kafka_10471_a_crash_during_loading_leads_to_recovery_again() -> None:
    """KAFKA-10471: the clean-shutdown file is deleted before any log is opened."""
    disk = memory_disk()
    manager = manager_of(disk)
    append(manager.create(PARTITION), b"a")
    manager.close({})
    assert disk.exists(f"/data/{CLEAN_SHUTDOWN}")
    disk.fail("open", path=".log", times=100)
    with pytest.raises(KafkaStorageError):
        manager_of(disk).create(PARTITION)
    disk.heal()
    disk.crash()
    assert not disk.exists(f"/data/{CLEAN_SHUTDOWN}")
    manager = manager_of(disk)
    assert not manager.failures.clean
    assert not manager.logs[PARTITION].report.clean


def test_kafka_3968_a_flush_includes_directory_entries() -> None:
    """KAFKA-3968: after a flush, no crash removes a segment or its directory."""
    for seed in range(100):
        disk = memory_disk(seed)
        log = open_log(disk)
        for number in range(10):
            append(log, b"%d" % number * 200)
            log.roll()
        log.flush()
        disk.crash()
        assert len(read_all(open_log(disk, recovery_point=10))) == 10


@pytest.mark.parametrize("content", [b"", b"\0" * 20, b"0\n1\n", b"0\n1\n7 99999\n", b"0\n2\n9 0\n3 1\n"])
@pytest.mark.parametrize("clean", [True, False])
def test_kafka_16541_a_damaged_epoch_checkpoint_costs_no_record(content: bytes, clean: bool) -> None:
    disk = memory_disk()
    log = open_log(disk)
    for number in range(40):
        append(log, b"%d" % number * 100, leader_epoch=number // 10)
    entries = log.epochs.entries
    log.close(clean=clean)
    disk.write_atomically(f"{DIRECTORY}/leader-epoch-checkpoint", content)
    log = open_log(disk, clean=clean)
    assert len(read_all(log)) == 40
    assert log.end_offset == 40
    if b"9" not in content:
        assert log.epochs.entries == entries


def test_a_torn_batch_adds_no_epoch_to_a_rebuilt_epoch_checkpoint() -> None:
    disk = memory_disk()
    log = open_log(disk)
    log.truncate_fully_and_start_at(31)
    append(log, b"kept", leader_epoch=0)
    log.close(clean=False)
    torn = make_batch([b"torn" * 20])
    torn[12:16] = (1).to_bytes(4, "big")  # Its offset was not written; its leader epoch was.
    disk.open(f"{DIRECTORY}/{31:020d}.log").append(bytes(torn))
    disk.write_atomically(f"{DIRECTORY}/leader-epoch-checkpoint", b"0")
    log = open_log(disk)
    assert (log.end_offset, log.epochs.entries) == (32, [(0, 31)])


def fill_until_it_fails(log: Log) -> None:
    for number in range(100):
        append(log, b"x" * 900, leader_epoch=number)
        log.flush()


@pytest.mark.parametrize("kind", ["write", "sync", "truncate", "rename", "open"])
def test_kafka_10778_after_an_io_error_nothing_is_appended(kind: str) -> None:
    """KAFKA-10778; fsync is never retried (Rebello et al., USENIX ATC 2020)."""
    disk = memory_disk()
    log = open_log(disk)
    append(log, b"before")
    disk.fail(kind, code=errno.EIO)
    with pytest.raises(KafkaStorageError):
        fill_until_it_fails(log)
    disk.heal()
    assert isinstance(log.failure, OSError)
    for attempt in (
        lambda: append(log, b"after"),
        lambda: log.read(0, max_bytes=100),
        log.flush,
        lambda: log.truncate_to(0),
        lambda: log.delete_old_segments(1),
    ):
        with pytest.raises(KafkaStorageError, match="offline"):
            attempt()
    log.close()
    disk.crash()
    assert open_log(disk).failure is None


def test_kafka_10778_a_failed_background_flush_takes_the_log_offline() -> None:
    disk = memory_disk()
    reported: list[str] = []
    log = open_log(disk, owner=LogOwner(on_failure=lambda error: reported.append(str(error))))
    append(log, b"a")
    disk.fail("sync")
    with pytest.raises(KafkaStorageError):
        trio.run(log.flush_async)
    assert log.recovery_point == 0
    assert len(reported) == 1
    with pytest.raises(KafkaStorageError):
        append(log, b"b")


def test_a_log_on_a_full_disk_can_be_opened_again() -> None:
    disk = memory_disk()
    log = open_log(disk)
    append(log, b"a" * 100)
    disk.remaining_bytes = 150
    with pytest.raises(KafkaStorageError, match="No space left"):
        append(log, b"b" * 500)
    assert disk.remaining_bytes == 150, "what was written of it is removed"
    disk.remaining_bytes = 1 << 30
    log = open_log(disk)
    assert [offset for offset, _ in read_all(log)] == [0]
    assert append(log, b"c").first_offset == 1


def test_kafka_10706_truncation_removes_epochs_beyond_the_log_end() -> None:
    """KAFKA-10706, KAFKA-10432: epoch 0 is recovered as well."""
    disk = memory_disk()
    log = open_log(disk)
    for number in range(9):
        append(log, b"x", leader_epoch=number // 3)
    log.epochs.assign(5, 9)
    log.truncate_to(9)
    assert log.epochs.entries == [(0, 0), (1, 3), (2, 6)], "an epoch without records is removed"
    log.truncate_to(4)
    assert log.epochs.entries == [(0, 0), (1, 3)]
    log.truncate_to(3)
    log.flush()
    log.close(clean=False)
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    for recovery_point in (0, 3):
        assert open_log(disk, recovery_point=recovery_point).epochs.entries == [(0, 0)]


def test_kafka_12153_truncation_truncates_producer_state() -> None:
    """KAFKA-12153: to the state at the new end, whether or not there is a snapshot at that offset."""
    log = open_log(memory_disk())
    for number in range(30):
        append(log, b"x" * 150, **sequenced(number))
    log.truncate_to(17)
    assert log.producers.end_offset == 17
    assert log.producers.check(parse(make_batch([b"y"], **sequenced(17)))) is None
    assert log.producers.check(parse(make_batch([b"y"], **sequenced(14)))) is not None
    assert all(offset <= 17 for offset in log.state.snapshots.offsets)


def test_kafka_12520_interrupted_swaps_are_completed_or_undone() -> None:
    """KAFKA-12520: `.swap` replaces the segments it covers; a remaining `.cleaned` means an interrupted cleaning."""
    disk = memory_disk()
    log = open_log(disk, config=LogConfig(segment_bytes=1024, cleanup_policy=("compact",)))
    for number in range(20):
        append(log, b"%d" % number * 100)
    bases = list(log.segments.bases)
    log.close()
    cleaned = make_batch([b"compacted"], base_offset=3)
    name = f"{DIRECTORY}/{0:020d}.log"
    disk.write_atomically(name + ".swap", bytes(cleaned))
    disk.write_atomically(f"{name}.cleaned", b"rubbish")
    log = open_log(disk, clean=True, config=log.config)
    assert len(read_all(log)) == 20, "both are dropped"
    assert not [entry for entry in disk.list(DIRECTORY) if "swap" in entry or "cleaned" in entry]
    log.close()
    disk.write_atomically(name + ".swap", bytes(cleaned))
    log = open_log(disk, clean=True, config=log.config)
    assert read_all(log)[:2] == [(3, b"compacted"), (bases[1], b"%d" % bases[1] * 100)]


def test_kafka_6264_offsets_may_skip_more_than_a_segment_holds() -> None:
    """KAFKA-6264: more than 2^31 offsets between two batches, with and without records before."""
    far = (1 << 31) + 5
    for start in ([], [0]):
        disk = memory_disk()
        config = LogConfig(cleanup_policy=("compact",))
        log = open_log(disk, config=config)
        for offset in [*start, far, 3 * far]:
            append_bytes(log, make_batch([b"x"], base_offset=offset), assign_offsets=False)
        assert [offset for offset, _ in read_all(log)] == [*start, far, 3 * far]
        log.close(clean=False)
        log = open_log(disk, config=config)
        assert [offset for offset, _ in read_all(log)] == [*start, far, 3 * far]
        with pytest.raises(UnexpectedOffset):
            append_bytes(log, make_batch([b"x"], base_offset=5), assign_offsets=False)


def test_kafka_6388_rolling_an_empty_segment_does_nothing() -> None:
    log = open_log(memory_disk())
    for _ in range(3):
        log.roll()
    append(log, b"a")
    for _ in range(3):
        log.roll()
    assert log.segments.bases == [0, 1]
    tiny = open_log(memory_disk(), config=LogConfig(segment_index_bytes=4))
    for number in range(5):
        append(tiny, b"%d" % number)
    assert len(read_all(tiny)) == 5


def test_kafka_9133_the_log_start_may_lie_within_the_active_segment() -> None:
    disk = memory_disk()
    log = open_log(disk)
    append(log, b"a", b"b", b"c")
    log.advance_start_offset(2)
    log.delete_old_segments(3)
    assert (len(log.segments), read_all(log)) == (1, [(2, b"c")])
    log.close()
    log = open_log(disk, clean=True, start_offset=2)
    assert read_all(log) == [(2, b"c")]
    log.delete_old_segments(3)
    log.close()
    assert open_log(disk, clean=True, start_offset=9).start_offset == 9, "a start beyond the end empties the log"


def test_kafka_6492_truncation_may_empty_a_segment() -> None:
    for offset in (0, 5):
        disk = memory_disk()
        log = open_log(disk)
        for _ in range(5):
            append(log, b"x" * 100)
        log.roll()
        for _ in range(5):
            append(log, b"y" * 100)
        log.truncate_to(offset)
        assert append(log, b"z").first_offset == offset
        assert len(read_all(log)) == offset + 1
        check_indexes(log)
        log.close()
        assert len(read_all(open_log(disk, clean=True))) == offset + 1


def test_kafka_3919_repeated_offsets_at_the_end_are_truncated() -> None:
    """KAFKA-3919: valid batches with offsets that the log already has."""
    disk = memory_disk()
    log = open_log(disk)
    for number in range(10):
        append(log, b"%d" % number * 30)
    data = log.read(5, max_bytes=10_000)
    assert data is not None
    repeated = data.read()
    log.close(clean=False)
    disk.open(f"{DIRECTORY}/{0:020d}.log").append(repeated)
    log = open_log(disk)
    assert [offset for offset, _ in read_all(log)] == list(range(10))
    check_indexes(log)


def test_a_crash_during_recovery_is_recovered_from() -> None:
    disk = memory_disk()
    log = open_log(disk)
    for number in range(60):
        append(log, b"%d" % number * 100, **sequenced(number))
    log.close(clean=False)
    for file in disk.list(DIRECTORY):
        disk.sync_file(f"{DIRECTORY}/{file}")
    disk.sync_directory(DIRECTORY)
    disk.sync_directory("/data")
    for operations in range(0, 120, 3):
        disk.lose_power_after(operations)
        try:
            open_log(disk)
        except PowerLoss:
            pass
        disk.crash()
    log = open_log(disk)
    assert len(read_all(log)) == 60
    check_indexes(log)


def test_kafka_4384_a_refused_batch_affects_one_log_only() -> None:
    """KAFKA-4384: a batch is refused before anything is written; other logs are unaffected."""
    disk = memory_disk()
    manager = manager_of(disk)
    logs = [manager.create(PARTITION._replace(partition=index)) for index in range(2)]
    with pytest.raises(UnexpectedOffset):
        append_bytes(logs[0], make_batch([b"x"], base_offset=-5), assign_offsets=False)
    for log in logs:
        append(log, b"fine")
        assert len(read_batches(log)) == 1


def test_aborted_transactions_of_a_range_are_listed_once_and_in_order() -> None:
    log = open_log(memory_disk())
    for number in range(12):
        producer = 20 + number % 3
        append(log, b"x" * 400, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
        kind = ControlType.COMMIT if number % 4 == 0 else ControlType.ABORT
        append_marker(log, kind, producer_id=producer)
    everything = log.aborted_transactions(0, log.end_offset)
    assert [first for _, first in everything] == [2 * number for number in range(12) if number % 4 != 0]
    assert len(log.segments) > 1
    for start in range(0, 24):
        for end in range(start + 1, 25):
            expected = [one for one in everything if one[1] + 1 >= start and one[1] < end]
            assert log.aborted_transactions(start, end) == expected
