"""`Log`: rolling, reads, limits, lookups, flushes, retention, the cost of opening."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing
from support.logs import (
    DIRECTORY,
    Clock,
    append,
    append_bytes,
    check_indexes,
    make_batch,
    memory_disk,
    open_log,
    read_all,
    read_batches,
)

from minikafka.protocol.errors import KafkaStorageError, RecordListTooLargeError
from minikafka.protocol.records.batch import batches, stamp_log_append_time
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint, read_epochs, read_topic_id
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.flush import Flush
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_results import Appended, OffsetOutOfRange
from minikafka.storage.steps import at_once, in_steps

START_MS = 1_700_000_000_000


def filled(count: int = 40, **options: object) -> Log:
    log = open_log(memory_disk(), **options)  # type: ignore[arg-type]
    for number in range(count):
        append(log, b"%d" % number * 50, timestamp=START_MS + number)
    return log


def test_an_append_assigns_only_offsets_and_epoch() -> None:
    log = open_log(memory_disk())
    data = make_batch([b"a", b"b", b"c"]) + make_batch([b"d"], timestamp=5)
    assert append_bytes(log, data, leader_epoch=7) == Appended(0, 3, START_MS + 2, flush_due=False)
    assert append(log, b"e", leader_epoch=8).first_offset == 4
    found = read_batches(log)
    assert [(one.base_offset, one.last_offset, one.leader_epoch) for one in found] == [
        (0, 2, 7), (3, 3, 7), (4, 4, 8),
    ]  # fmt: skip
    assert read_all(log) == list(enumerate([b"a", b"b", b"c", b"d", b"e"]))
    assert log.epochs.entries == [(7, 0), (8, 4)]


def test_appends_above_segment_bytes_are_rejected() -> None:
    log = open_log(memory_disk(), config=LogConfig(segment_bytes=1000))
    with pytest.raises(RecordListTooLargeError):
        append(log, b"x" * 1000)
    assert log.end_offset == 0
    append(log, b"x" * 900)


def test_a_flush_that_succeeds_after_another_one_failed_does_not_count() -> None:
    """The kernel reports lost pages once: to the first of two flushes of the same file."""
    disk = memory_disk()
    log = open_log(disk)
    append(log, b"x")
    disk.fail("sync", path="0.log")
    errors: list[str] = []

    async def flush() -> None:
        try:
            await log.flush_async()
        except KafkaStorageError as error:
            errors.append(str(error))

    async def flush_twice() -> None:
        async with trio.open_nursery() as nursery:
            disk.pause = trio.lowlevel.checkpoint
            nursery.start_soon(flush)
            nursery.start_soon(flush)

    trio.run(flush_twice)
    assert len(errors) == 2


def test_a_log_that_is_offline_does_not_roll() -> None:
    """A segment at the end offset would hide what a failed append has left beyond it."""
    disk = memory_disk()
    log = open_log(disk)
    append(log, b"x")
    disk.fail("sync", path=log.directory)
    with pytest.raises(KafkaStorageError):
        log.flush()
    with pytest.raises(KafkaStorageError):
        log.roll()
    assert len(log.segments.bases) == 1


def test_segments_roll_by_size() -> None:
    log = filled(100)
    sizes = [log.segments[index].size_bytes for index in range(len(log.segments))]
    assert len(sizes) > 3
    assert all(3800 < size <= 4096 for size in sizes[:-1])
    assert log.size_bytes == sum(sizes)


@pytest.mark.parametrize(("later_ms", "segments"), [(59_999, 1), (60_000, 1), (60_001, 2)])
def test_segments_roll_by_record_timestamps(later_ms: int, segments: int) -> None:
    log = open_log(memory_disk(), config=LogConfig(segment_ms=60_000))
    append(log, b"first", timestamp=START_MS)
    append(log, b"early", timestamp=START_MS - 10**9)
    append(log, b"later", timestamp=START_MS + later_ms)
    assert len(log.segments) == segments


def test_records_without_timestamps_roll_by_the_clock() -> None:
    clock = Clock()
    log = open_log(memory_disk(), config=LogConfig(segment_ms=60_000), now_ms=clock)
    append(log, b"x", timestamp=-1)
    clock.ms += 60_001
    append(log, b"x", timestamp=-1)
    assert len(log.segments) == 2


def test_jitter_makes_segments_roll_earlier_never_later() -> None:
    ages = set()
    for seed in range(20):
        config = LogConfig(segment_ms=1000, segment_jitter_ms=500)
        log = open_log(memory_disk(), config=config, random=Random(seed))
        age = 0
        while len(log.segments) == 1:
            append(log, b"x", timestamp=START_MS + age)
            age += 20
        ages.add(age)
    assert 500 <= min(ages) < 700
    assert 900 < max(ages) <= 1050


def test_segments_roll_when_an_index_is_full() -> None:
    log = open_log(memory_disk(), config=LogConfig(index_interval_bytes=0, segment_index_bytes=60))
    for number in range(20):
        append(log, b"x", timestamp=START_MS + number)
    counts = [log.segments[index].times.count for index in range(len(log.segments))]
    assert max(counts) <= 5
    assert len(log.segments) >= 4
    check_indexes(log)


def test_reads_end_before_the_limit_and_within_max_bytes() -> None:
    log = open_log(memory_disk())
    for number in range(10):
        append(log, b"%d" % number * 30, b"more")
    size = len(make_batch([b"0" * 30, b"more"]))
    whole = log.read(0, max_bytes=1 << 20)
    assert whole is not None
    assert len(whole) == 10 * size
    for limit in range(0, 20, 2):
        part = log.read(4, max_bytes=1 << 20, limit_offset=limit)
        assert (len(part) if part else 0) == max(0, limit - 4) // 2 * size
    assert len(log.read(5, max_bytes=2 * size + 3) or b"") == 2 * size + 3
    assert len(log.read(5, max_bytes=1) or b"") == size, "at least one batch"
    assert log.read(5, max_bytes=size - 1, min_one_batch=False) is None
    assert log.read(20, max_bytes=1) is None
    for offset in (-1, 21):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, max_bytes=1)


def test_a_read_stops_at_the_end_of_its_segment() -> None:
    log = filled(100)
    offset, ends = 0, []
    while (part := log.read(offset, max_bytes=1 << 20)) is not None:
        last = [one for one in read_batches(log, offset) if one.base_offset < log.end_offset]
        index = log.segments.floor(offset)
        assert part.file is log.segments[index].log
        offset = [*log.segments.bases, log.end_offset][index + 1]
        ends.append(offset)
        assert last
    assert ends == [*log.segments.bases[1:], 100]


def test_reads_continue_after_compacted_offsets() -> None:
    log = open_log(memory_disk(), config=LogConfig(cleanup_policy=("compact",)))
    for base in (5, 20):
        append_bytes(log, make_batch([b"x"], base_offset=base), assign_offsets=False)
    log.roll()
    append_bytes(log, make_batch([b"y"], base_offset=40), assign_offsets=False)
    assert [read_all(log, offset)[0][0] for offset in (0, 5, 6, 20)] == [5, 5, 20, 20]
    log.truncate_to(40)
    append_bytes(log, make_batch([b"z"], base_offset=60), assign_offsets=False)
    for offset in (21, 39, 40, 60):
        assert read_all(log, offset)[0][0] == 60


def test_timestamp_lookups_respect_the_log_start() -> None:
    log = filled(100)
    assert at_once(log.offset_for_timestamp(START_MS + 40)) == (START_MS + 40, 40, 0)
    assert at_once(log.offset_for_timestamp(0)) == (START_MS, 0, 0)
    assert at_once(log.offset_for_timestamp(START_MS + 100)) is None
    log.advance_start_offset(50)
    assert at_once(log.offset_for_timestamp(0)) == (START_MS + 50, 50, 0)


def test_the_record_with_the_largest_timestamp_is_found() -> None:
    log = open_log(memory_disk())
    assert at_once(log.offset_of_max_timestamp()) is None
    for number in range(60):
        append(log, b"x" * 100, b"y", timestamp=START_MS + (10_000 if number == 20 else number))
    assert at_once(log.offset_of_max_timestamp()) == (START_MS + 10_001, 41, 0)


def test_with_log_append_time_the_first_record_of_a_batch_is_found() -> None:
    log = open_log(memory_disk())
    data = make_batch([b"a", b"b", b"c"])
    stamp_log_append_time(data, 0, START_MS + 7)
    append_bytes(log, data)
    assert at_once(log.offset_for_timestamp(START_MS + 1)) == (START_MS + 7, 0, 0)
    assert at_once(log.offset_of_max_timestamp()) == (START_MS + 7, 0, 0)


def test_the_upper_bound_is_beyond_the_records_of_a_read() -> None:
    """The bound for aborted transactions: the offset of an index entry, the next segment, or the log end offset."""
    log = filled(100)
    for offset in range(0, 100, 7):
        for size in (1, 500, 2000, 1 << 20):
            bound = log.upper_bound_offset(offset, size)
            part = log.read(offset, max_bytes=size)
            assert part is not None
            last = [batch.last_offset for batch in batches(part.read())][-1]
            index = log.segments.floor(offset)
            assert last <= bound <= [*log.segments.bases, log.end_offset][index + 1]
    assert log.upper_bound_offset(100, 1) == 100


@pytest.mark.parametrize("which", [0, 3, 7])
@pytest.mark.parametrize("field", ["offset", "position", "both"])
@pytest.mark.parametrize("active", [True, False])
def test_a_wrong_index_entry_is_detected_on_use(which: int, field: str, active: bool) -> None:
    log = filled(35)
    if not active:
        log.roll()
        append(log, b"x")
    segment = log.segments[0]
    offset, position = segment.offsets.entries[which]
    wrong = (offset + (field != "position"), position + 9 * (field != "offset"))
    segment.offsets.file.pwrite(8 * which, b"".join(one.to_bytes(4, "big") for one in wrong))
    segment.offsets._window = b""
    segment._recent.clear()
    for number in range(35):
        assert read_all(log, number)[0][0] == number
    check_indexes(log)


@pytest.mark.parametrize("which", [0, 3, 7])
def test_a_wrong_time_index_entry_is_ignored(which: int) -> None:
    log = filled(35)
    times = log.segments[0].times
    timestamp, offset = times.entries[which]
    times.file.pwrite(12 * which, timestamp.to_bytes(8, "big") + (offset + 2).to_bytes(4, "big"))
    times._window = b""
    for number in range(35):
        assert at_once(log.offset_for_timestamp(START_MS + number)) == (START_MS + number, number, 0)


def test_flushes_are_due_by_messages_and_by_time() -> None:
    clock = Clock()
    log = open_log(memory_disk(), config=LogConfig(flush_messages=3, flush_ms=1000), now_ms=clock)
    assert [append(log, b"x").flush_due for _ in range(4)] == [False, False, True, True]
    log.flush()
    assert log.recovery_point == 4
    assert not append(log, b"x").flush_due
    assert not log.flush_wanted
    clock.ms += 1000
    assert log.flush_wanted
    trio.run(log.flush_async)
    assert log.recovery_point == 5
    assert not log.flush_wanted


def test_a_cancelled_flush_is_completed(tmp_path: Path) -> None:
    """It has taken the lists of what is to be synced: nobody else would sync it."""
    log = open_log(RealDisk(), directory=str(tmp_path / "flights-0"))
    append(log, b"x", leader_epoch=3)

    async def flush() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await log.flush_async()

    trio.run(flush)
    assert log.recovery_point == 1
    assert not log.epochs.unsynced


def test_rolled_segments_are_flushed_during_appends() -> None:
    log = filled(100)
    assert log.flush_wanted

    async def flush_and_append() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: log.flush_async(all_segments=False))
            append(log, b"meanwhile")

    trio.run(flush_and_append)
    assert log.recovery_point == log.segments.active.base_offset
    assert not log.flush_wanted


@pytest.mark.slow
def test_many_unflushed_segments_are_flushed_a_few_at_a_time(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=20)
    for flush in (Log.flush, lambda log: trio.run(log.flush_async), Log.close):
        log = open_log(disk, directory=str(tmp_path / flush.__name__.strip("<>")))
        for number in range(150):
            append(log, b"%d" % number)
            log.roll()
        flush(log)
        assert log.recovery_point == 150
        log.close()
        assert disk.open_files.count <= 20 + 3


@pytest.mark.parametrize("real", [True, False])
def test_a_segment_that_was_truncated_and_rolled_is_not_flushed_once_it_is_deleted(real: bool, tmp_path: Path) -> None:
    """Its file is removed later: the flush would open it, and take the data directory for failed."""
    clock = Clock()
    disk = RealDisk() if real else memory_disk()
    log = open_log(disk, directory=str(tmp_path / "flights-0"), now_ms=clock)
    append(log, b"kept")
    append(log, b"truncated")
    log.flush()
    log.truncate_to(1)
    log.roll()
    append(log, b"new")
    log.advance_start_offset(1)
    assert log.delete_old_segments(1) == 1
    clock.ms += log.config.file_delete_delay_ms
    trio.run(in_steps, log.removing_deleted(), log.disk)
    log.flush()
    assert log.recovery_point == 2


def test_a_flush_that_is_given_back_leaves_out_what_was_deleted_meanwhile() -> None:
    log = filled(30)
    log.roll()
    flush = Flush(log.state, log.end_offset)
    log.advance_start_offset(30)
    log.delete_old_segments(30)
    flush.release()
    flush.give_back(log.state)
    assert not any(segment.is_deleted for segment in log.state.unflushed.touched)


def test_a_flush_during_a_truncation_keeps_the_recovery_point() -> None:
    log = filled(30)
    log.disk.pause = lambda: trio.sleep(0.001)  # type: ignore[attr-defined]

    async def flush_and_truncate() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.flush_async)
            await trio.testing.wait_all_tasks_blocked()
            log.truncate_to(10)
            append(log, b"new")

    trio.run(flush_and_truncate)
    assert log.recovery_point <= 10


def test_retention_by_time_uses_record_timestamps() -> None:
    clock = Clock(START_MS + 10_000)
    log = filled(100, now_ms=clock, config=LogConfig(segment_bytes=4096, retention_ms=9_950))
    log.delete_old_segments(100)
    kept = log.start_offset
    assert kept == max(base for base in log.segments.bases if base <= 50)
    clock.ms += 1000
    log.delete_old_segments(100)
    assert (log.start_offset, log.end_offset, len(log.segments)) == (100, 100, 1)


def test_retention_by_size_keeps_at_least_retention_bytes() -> None:
    config = LogConfig(segment_bytes=4096, retention_bytes=10_000, retention_ms=-1)
    log = filled(200, config=config)
    log.delete_old_segments(200)
    assert 10_000 <= log.size_bytes < 10_000 + 4096


def test_compacted_logs_delete_only_below_the_log_start() -> None:
    config = LogConfig(segment_bytes=4096, retention_bytes=0, retention_ms=0, cleanup_policy=("compact",))
    log = filled(100, config=config)
    assert log.delete_old_segments(100) == 0
    log.advance_start_offset(60)
    log.delete_old_segments(100)
    assert log.segments.bases[0] <= 60 < log.segments.bases[1]


def test_deleted_files_are_removed_after_their_delay() -> None:
    clock = Clock()
    log = filled(100, now_ms=clock)
    slice_of_old = log.read(0, max_bytes=100)
    assert slice_of_old is not None
    log.advance_start_offset(60)
    log.delete_old_segments(100)
    names = log.disk.list(DIRECTORY)
    assert any(name.endswith(".log.deleted") for name in names)
    assert len(slice_of_old.read()) == len(slice_of_old), "an open slice can still be read"
    clock.ms += log.config.file_delete_delay_ms - 1
    at_once(log.removing_deleted())
    assert log.disk.list(DIRECTORY) == names
    clock.ms += 1
    at_once(log.removing_deleted())
    assert not any(name.endswith(".deleted") for name in log.disk.list(DIRECTORY))
    with pytest.raises(OSError, match="No such"):
        log.disk.open(slice_of_old.file.path)


def test_the_topic_id_is_stored_in_kafkas_format() -> None:
    disk = memory_disk()
    open_log(disk, topic_id=bytes(range(16))).close()
    path = f"{DIRECTORY}/partition.metadata"
    assert disk.read_bytes(path) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert open_log(disk, clean=True, topic_id=bytes(16)).topic_id == bytes(range(16))
    disk.write_atomically(path, b"torn")
    with pytest.raises(BrokenCheckpoint):
        read_topic_id(disk, path)
    assert open_log(disk, clean=True).topic_id is None


@pytest.mark.parametrize("clean", [False, True])
def test_names_and_small_files_are_flushed_with_the_first_records_of_a_later_process(clean: bool) -> None:
    """A clean shutdown does not flush a log without records (seed 3900)."""
    disk = memory_disk()
    log = open_log(disk, topic_id=bytes(range(16)))
    if clean:
        log.close()
    log = open_log(disk, clean=clean)
    append(log, b"acknowledged", leader_epoch=3)
    log.flush()
    disk.crash()
    again = open_log(disk)
    assert again.topic_id == bytes(range(16))
    assert read_epochs(disk, f"{DIRECTORY}/leader-epoch-checkpoint") == [(3, 0)]


def test_changed_settings_take_effect() -> None:
    log = filled(20)
    log.update_config(LogConfig(segment_bytes=1 << 20))
    append(log, b"x" * 3000)
    append(log, b"x" * 3000)
    assert log.segments.active.size_bytes > 6000


def calls_to_open(segments: int, *, clean: bool) -> dict[str, int]:
    disk = memory_disk()
    log = open_log(disk)
    for number in range(segments * 3):
        append(log, b"x" * 900, producer_id=5, producer_epoch=0, base_sequence=number)
        if number % 3 == 2 and number < segments * 3 - 1:
            log.roll()
    assert len(log.segments) == segments
    log.flush()
    point = log.recovery_point
    append(log, b"last", producer_id=5, producer_epoch=0, base_sequence=segments * 3)
    log.close(clean=clean)
    disk.calls.clear()
    log = open_log(disk, clean=clean, recovery_point=log.recovery_point if clean else point)
    assert log.end_offset == segments * 3 + 1
    producer = log.producers.get(5)
    assert producer is not None
    assert producer.last_sequence == segments * 3
    calls = dict(disk.calls)
    disk.calls.clear()
    log.close()
    if clean:
        assert not disk.calls, "closing an unchanged log needs no disk calls"
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False])
def test_opening_cost_does_not_depend_on_the_number_of_segments(clean: bool) -> None:
    """Counted in disk calls, for logs beyond their first segment, which has no snapshot before it."""
    few, many = calls_to_open(3, clean=clean), calls_to_open(1000, clean=clean)
    assert few == many
    assert few["list"] <= 2
    assert sum(many.values()) < (60 if clean else 120)


def test_reads_open_only_the_segments_they_need() -> None:
    log = filled(200)
    log.close()
    log = open_log(log.disk, clean=True)
    log.disk.calls.clear()  # type: ignore[attr-defined]
    read = log.read(100, max_bytes=1000)
    assert read is not None
    assert len(log.segments.opened()) == 2, "the active segment and the segment that was read"
