"""The log cleaner keeps the last record of each key, offsets, sequences and transactions, as Kafka's does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from support.compaction import COMPACTED, KEY, Cleaned, finish
from support.logs import Clock, append_bytes, append_marker, check_indexes, memory_disk, read_batches

from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.control import ControlType
from minikafka.protocol.records.record import Record
from minikafka.storage.compaction import cleaning, compaction, keyed_records
from minikafka.storage.compaction.cleaning import begin_cleaning
from minikafka.storage.compaction.numpy_offset_map import ENTRY_SIZE_BYTES
from minikafka.storage.compaction.offset_map import PlainOffsetMap
from minikafka.storage.disks.checkpoint_files import read_offsets
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.disks.memory_disk import PowerLoss
from minikafka.storage.disks.worker import ThreadLane, WorkerLost
from minikafka.storage.disks.worker_process import ProcessLane
from minikafka.storage.steps import at_once


@pytest.fixture
def cleaned() -> Cleaned:
    return Cleaned(memory_disk(), clock=Clock())


@pytest.fixture(params=["numpy", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with numpy for any number of records, and without numpy."""
    if request.param == "numpy":
        pytest.importorskip("numpy")
        monkeypatch.setattr(keyed_records, "_VECTORISED_MIN", 1)
    else:
        monkeypatch.setattr(keyed_records, "load_numpy_codec", lambda: None)
        monkeypatch.setattr(cleaning, "load_numpy_codec", lambda: None)
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("codec", list(Codec))
def test_the_last_record_of_each_key_is_left_at_its_offset(cleaned: Cleaned, codec: Codec) -> None:
    for number in range(40):
        cleaned.put(*((b"k%d" % (one % 7), b"v%d" % (number * 3 + one)) for one in range(3)), codec=codec)
    expected = {row.key: row for row in cleaned.rows()}
    end = cleaned.log.end_offset
    assert cleaned.roll_and_clean() == 1
    assert cleaned.rows() == sorted(expected.values())
    assert cleaned.log.end_offset == end
    check_indexes(cleaned.log)
    cleaned.restart(clean=False)
    assert cleaned.rows() == sorted(expected.values())
    assert cleaned.log.end_offset == end
    assert cleaned.log.report.damage == ""


def test_the_checkpoint_is_in_kafkas_format(cleaned: Cleaned) -> None:
    cleaned.put((b"a", b"1"))
    cleaned.roll_and_clean()
    assert cleaned.disk.read_bytes("/data/cleaner-offset-checkpoint") == b"0\n1\nsettings 0 1\n"
    assert read_offsets(cleaned.disk, "/data/cleaner-offset-checkpoint") == {KEY: 1}
    cleaned.restart()
    assert cleaned.clean_offset == 1
    assert cleaned.clean() == 0


def test_a_tombstone_goes_after_its_retention(cleaned: Cleaned) -> None:
    clock = cleaned.clock
    assert isinstance(clock, Clock)
    cleaned.put((b"a", b"1"))
    cleaned.put((b"a", None), (b"b", b"2"))
    cleaned.roll_and_clean()
    (batch,) = read_batches(cleaned.log)
    assert batch.has_delete_horizon
    assert batch.base_timestamp == clock.ms + 10_000
    assert [(row.offset, row.value, row.timestamp) for row in cleaned.rows()] == [
        (1, None, clock.ms), (2, b"2", clock.ms),
    ]  # fmt: skip
    clock.ms += 9_999
    cleaned.put((b"c", b"3"))
    cleaned.roll_and_clean()
    assert [row.key for row in cleaned.rows()] == [b"a", b"b", b"c"]
    clock.ms += 1
    cleaned.put((b"d", b"3"))
    cleaned.roll_and_clean()
    assert [row.key for row in cleaned.rows()] == [b"b", b"c", b"d"]
    assert read_batches(cleaned.log)[0].base_offset == 1


def test_a_horizon_beyond_the_end_of_time_is_never_set(cleaned: Cleaned) -> None:
    cleaned.config = replace(COMPACTED, delete_retention_ms=(1 << 63) - 1)
    cleaned.log.update_config(cleaned.config)
    cleaned.put((b"a", None))
    cleaned.roll_and_clean()
    (batch,) = read_batches(cleaned.log)
    assert not batch.has_delete_horizon


def test_the_last_batch_of_a_producer_stays_when_it_is_empty(cleaned: Cleaned) -> None:
    cleaned.put((b"a", b"1"), producer_id=7, producer_epoch=3, base_sequence=0)
    cleaned.put((b"a", b"2"), (b"b", b"2"), producer_id=7, producer_epoch=3, base_sequence=1)
    cleaned.put((b"a", b"3"), (b"b", b"3"))
    cleaned.roll_and_clean()
    first, second = read_batches(cleaned.log)
    assert (first.base_offset, first.last_offset, first.record_count, first.last_sequence) == (1, 2, 0, 2)
    assert (second.base_offset, second.record_count) == (3, 2)
    for clean in (True, False):
        log = cleaned.restart(clean=clean)
        producer = log.producers.get(7)
        assert producer is not None
        assert (producer.last_sequence, producer.epoch) == (2, 3)
    assert [batch.base_offset for batch in read_batches(cleaned.log, 2)] == [1, 3]


def test_the_end_of_the_cleaned_range_stays(cleaned: Cleaned) -> None:
    """Otherwise a reader behind it would wait, and a follower would not know where it is."""
    cleaned.put((b"a", b"1"))
    cleaned.put((None, b"such a record is refused now"), (None, b""))
    cleaned.roll_and_clean()
    assert [(one.base_offset, one.last_offset, one.record_count) for one in read_batches(cleaned.log)] == [
        (0, 0, 1), (1, 2, 0),
    ]  # fmt: skip
    cleaned.put((b"b", b"1"))
    cleaned.roll_and_clean()
    assert [one.base_offset for one in read_batches(cleaned.log)] == [0, 3]


def test_aborted_data_goes_at_once_and_its_marker_later(cleaned: Cleaned) -> None:
    clock = cleaned.clock
    assert isinstance(clock, Clock)
    options = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    cleaned.put((b"a", b"1"), base_sequence=0, **options)
    append_marker(cleaned.log, ControlType.COMMIT, producer_id=5)
    cleaned.put((b"a", b"2"), base_sequence=1, **options)
    append_marker(cleaned.log, ControlType.ABORT, producer_id=5)
    cleaned.put((b"x", b"2"), base_sequence=2, **options)
    append_marker(cleaned.log, ControlType.COMMIT, producer_id=5)
    cleaned.log.high_watermark_advanced(cleaned.log.end_offset)
    cleaned.roll_and_clean()
    assert shown(cleaned) == ["0", "1 marker", "3 marker", "4", "5 marker"]
    assert cleaned.log.aborted_transactions(0, 10) == [(5, 2)]
    clock.ms += 20_000
    cleaned.put((b"a", b"4"))
    cleaned.roll_and_clean()
    assert shown(cleaned) == ["1 marker", "3 marker, horizon", "4", "5 marker", "6"]
    assert cleaned.log.aborted_transactions(0, 10) == []
    clock.ms += 20_000
    cleaned.put((b"a", b"5"))
    cleaned.roll_and_clean()
    assert shown(cleaned) == ["1 marker, horizon", "4", "5 marker", "7"]
    clock.ms += 20_000
    cleaned.put((b"a", b"6"))
    cleaned.roll_and_clean()
    assert shown(cleaned) == ["4", "5 marker", "8"]


def shown(cleaned: Cleaned) -> list[str]:
    """Every batch in words."""
    return [
        f"{one.base_offset}{' marker' if one.is_control else ''}{', horizon' if one.has_delete_horizon else ''}"
        for one in read_batches(cleaned.log)
    ]


def test_an_empty_aborted_batch_keeps_its_marker_and_index(cleaned: Cleaned) -> None:
    """The last batch of its producer: consumers must not wait for, or believe, what follows."""
    cleaned.put((b"a", b"2"), producer_id=5, producer_epoch=0, transactional=True, base_sequence=0)
    append_marker(cleaned.log, ControlType.ABORT, producer_id=5)
    cleaned.put((b"b", b"2"))
    cleaned.log.high_watermark_advanced(cleaned.log.end_offset)
    cleaned.roll_and_clean()
    assert [(one.base_offset, one.record_count) for one in read_batches(cleaned.log)] == [(0, 0), (1, 1), (2, 1)]
    assert cleaned.log.aborted_transactions(0, 10) == [(5, 0)]
    clock = cleaned.clock
    assert isinstance(clock, Clock)
    for key in (b"c", b"d"):
        clock.ms += 20_000
        cleaned.put((key, b"1"))
        cleaned.roll_and_clean()
    assert [one.base_offset for one in read_batches(cleaned.log)][:2] == [0, 1]
    cleaned.restart(clean=False)
    assert cleaned.log.aborted_transactions(0, 10) == [(5, 0)]


def test_nothing_beyond_the_stable_offset_is_cleaned(cleaned: Cleaned) -> None:
    cleaned.put((b"a", b"1"))
    cleaned.log.roll()
    cleaned.put((b"a", b"2"))
    cleaned.log.roll()
    cleaned.stable = 1
    assert cleaned.clean() == 1
    assert cleaned.clean_offset == 1
    assert len(cleaned.rows()) == 2
    cleaned.stable = 2
    assert cleaned.clean() == 1
    assert [row.value for row in cleaned.rows()] == [b"2"]


def test_segments_are_joined_up_to_segment_bytes(cleaned: Cleaned) -> None:
    for number in range(200):
        cleaned.put((b"key %d" % (number % 10), bytes(100)))
    assert len(cleaned.log.segments) > 10
    for _ in range(3):
        cleaned.put((b"key 1", bytes(100)))
        cleaned.roll_and_clean()
    assert len(cleaned.log.segments) == 2
    check_indexes(cleaned.log)


def test_a_small_map_takes_several_cleanings(cleaned: Cleaned, way: str) -> None:
    entry_size_bytes = ENTRY_SIZE_BYTES if way == "numpy" else PlainOffsetMap.ENTRY_SIZE_BYTES
    cleaned.settings = replace(cleaned.settings, map_size_bytes=entry_size_bytes * 10, load_factor=1.0)
    for number in range(120):
        cleaned.put((b"k%d" % (number % 35), b"%d" % number), (b"other", b"%d" % number))
    expected = {row.key: row for row in cleaned.rows()}
    assert cleaned.roll_and_clean() > 3
    assert cleaned.rows() == sorted(expected.values())


@pytest.mark.usefixtures("way")
def test_clean_and_dirty_records_meet_in_one_chunk(cleaned: Cleaned) -> None:
    cleaned.put(*((b"k%d" % number, b"1") for number in range(9)))
    cleaned.manager.directories[0].checkpoints.write_cleaner_offset(KEY, cleaned.log.end_offset)
    cleaned.put((b"k3", b"2"), (b"new", b"2"), (b"k4", b"2"))
    cleaned.put((b"new", b"3"), (b"k5", None))
    expected = {row.key: row for row in cleaned.rows()}
    assert cleaned.roll_and_clean() == 1
    assert cleaned.rows() == sorted(expected.values())


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("clean_batches", [0, 2])
def test_records_without_a_key_go(cleaned: Cleaned, clean_batches: int) -> None:
    """A topic that became compacted later has them; with a checkpoint of another cleaner, also in the clean part."""
    for number in range(3):
        batch = [Record(-1, 1000, key, b"%d" % number, ()) for key in (b"a", None, b"", None)]
        append_bytes(cleaned.log, bytearray(encode_batch(batch)))
    cleaned.put((b"b", b""))
    cleaned.manager.directories[0].checkpoints.write_cleaner_offset(KEY, 4 * clean_batches)
    cleaned.roll_and_clean()
    assert [(row.key, row.value) for row in cleaned.rows()] == [(b"a", b"2"), (b"", b"2"), (b"b", b"")]


def test_truncation_makes_dirty_what_is_appended_anew(cleaned: Cleaned) -> None:
    cleaned.put(*((b"k%d" % number, b"") for number in range(5)))
    for number in range(10):
        cleaned.put((b"a", b"%d" % number), (b"b", b"%d" % number))
    cleaned.roll_and_clean()
    cleaned.put((b"a", b"x"))
    cleaned.log.truncate_to(5)
    assert cleaned.clean_offset == cleaned.log.end_offset == 5
    cleaned.restart(clean=False)
    assert cleaned.clean_offset == 5
    for number in range(10):
        cleaned.put((b"c", b"%d" % number), (b"d", b"%d" % number))
    cleaned.roll_and_clean()
    assert [row.key for row in cleaned.rows()][5:] == [b"c", b"d"]


def test_a_truncation_during_a_cleaning_ends_it(cleaned: Cleaned) -> None:
    for number in range(100):
        cleaned.put((b"a", b"%d" % number))
    cleaned.log.roll()
    cleaned.log.flush()
    due = at_once(cleaned.compaction.choose())
    assert due is not None
    cleaned.log.truncate_to(50)
    work = cleaned.compaction.clean(due)
    with pytest.raises(StopIteration) as end:
        work.send(None)
    assert end.value.value is False
    assert [row.offset for row in cleaned.rows()] == list(range(50))
    assert not [name for name in cleaned.disk.list(cleaned.log.directory) if name.endswith(".cleaned")]


def test_a_reader_that_holds_an_old_segment_reads_on(cleaned: Cleaned) -> None:
    """Also after a second cleaning, whose replaced segment has the same name."""
    for number in range(5):
        cleaned.put((b"a", b"%d" % number))
    held = []
    for _ in range(3):
        part = cleaned.log.read(cleaned.log.start_offset, max_bytes=1 << 20)
        assert part is not None
        held.append((part, part.read()))
        cleaned.put((b"a", b"x"))
        cleaned.roll_and_clean()
    for part, data in held:
        again = cleaned.disk.open(part.file.path)
        assert again.pread(part.position, part.size_bytes) == data
    clock = cleaned.clock
    assert isinstance(clock, Clock)
    clock.ms += 60_000
    trio.run(cleaned.manager.upkeep.remove_deleted)
    assert not [name for name in cleaned.disk.list(cleaned.log.directory) if name.endswith(".deleted")]


@pytest.mark.parametrize("operations", range(0, 45, 2))
def test_a_power_failure_at_each_step_leaves_all_latest_values(operations: int) -> None:
    for seed in range(3):
        cleaned = Cleaned(memory_disk(seed), clock=Clock())
        for number in range(60):
            cleaned.put((b"k%d" % (number % 5), bytes(100)), (b"k%d" % (number % 3), b"%d" % number))
        cleaned.put((b"a", b"2"), producer_id=5, producer_epoch=0, transactional=True, base_sequence=0)
        append_marker(cleaned.log, ControlType.ABORT, producer_id=5)
        expected, end = values(cleaned), cleaned.log.end_offset
        cleaned.log.roll()
        cleaned.log.flush()
        cleaned.disk.lose_power_after(operations)
        with pytest.raises(PowerLoss):
            cleaned.clean()
        cleaned.disk.crash()
        cleaned.open()
        assert values(cleaned) == expected
        assert cleaned.log.end_offset == end
        assert cleaned.log.report.damage == ""
        assert cleaned.log.aborted_transactions(0, end) == [(5, 120)]
        check_indexes(cleaned.log)
        cleaned.log.high_watermark_advanced(end)
        cleaned.clean()
        assert values(cleaned) == expected


def values(cleaned: Cleaned) -> dict[bytes, bytes]:
    """Without the aborted record."""
    return {key: value for key, value in cleaned.table().items() if key != b"a"}


@pytest.mark.parametrize("kind", ["write", "sync", "rename", "open", "read"])
def test_a_failing_disk_takes_the_log_offline_and_loses_nothing(kind: str) -> None:
    for skip in range(12):
        cleaned = Cleaned(memory_disk(), clock=Clock())
        for number in range(60):
            cleaned.put((b"k%d" % (number % 5), bytes(100)))
        expected = cleaned.table()
        cleaned.log.roll()
        cleaned.log.flush()
        due = at_once(cleaned.compaction.choose())
        assert due is not None
        cleaned.disk.fail(kind, skip=skip)
        finish(cleaned.compaction.clean(due))
        cleaned.disk.heal()
        cleaned.open()
        assert cleaned.table() == expected
        cleaned.clean()
        assert cleaned.table() == expected


def test_a_corrupt_batch_is_not_given_a_new_checksum(cleaned: Cleaned) -> None:
    """The log is left as it is, and not cleaned again before it is opened anew."""
    for number in range(30):
        cleaned.put((b"k%d" % (number % 5), bytes(100)), (b"x", bytes(100)))
    cleaned.log.roll()
    cleaned.log.flush()
    due = at_once(cleaned.compaction.choose())
    assert due is not None
    before = [segment.size for segment in due.segments]
    cleaned.disk.open(due.segments[0].path).pwrite(100, b"\xff")
    assert not finish(cleaned.compaction.clean(due))
    assert [segment.size for segment in due.segments] == before
    assert cleaned.log.failure is None
    assert at_once(cleaned.compaction.choose()) is None


def test_min_and_max_compaction_lag(cleaned: Cleaned) -> None:
    clock = cleaned.clock
    assert isinstance(clock, Clock)
    config = replace(COMPACTED, min_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1.0)
    cleaned.log.update_config(config)
    cleaned.put((b"a", b"1"))
    cleaned.put((b"a", b"2"))
    assert cleaned.roll_and_clean() == 0
    cleaned.log.update_config(replace(config, max_compaction_lag_ms=5000))
    clock.ms += 5000
    assert cleaned.clean() == 0
    clock.ms += 1
    assert cleaned.clean() == 1
    cleaned.put((b"a", b"3"))
    clock.ms += 5001
    cleaned.put((b"b", b"3"))
    assert len(cleaned.log.segments) == 3, "segment.ms is at most max.compaction.lag.ms"


def test_a_policy_that_deletes_as_well(cleaned: Cleaned) -> None:
    clock = cleaned.clock
    assert isinstance(clock, Clock)
    cleaned.log.update_config(replace(COMPACTED, cleanup_policy=("compact", "delete"), retention_ms=10_000))
    cleaned.put((b"a", b"1"), (b"b", b"1"))
    cleaned.put((b"a", b"2"))
    cleaned.roll_and_clean()
    assert [row.offset for row in cleaned.rows()] == [1, 2]
    clock.ms += 10_001
    cleaned.put((b"c", b"1"))
    at_once(cleaned.manager.upkeep.run_retention(lambda key: cleaned.log.end_offset))
    assert [row.key for row in cleaned.rows()] == [b"c"]
    cleaned.log.roll()
    assert cleaned.clean() == 1


@pytest.mark.slow
def test_a_worker_in_a_process_does_the_same(tmp_path: Path) -> None:
    async def clean(cleaned: Cleaned, *, lose_at: int) -> bool:
        lane = ProcessLane(RealDisk().run)
        cleaned.disk.lane = lambda size_bytes: lane
        due = at_once(cleaned.compaction.choose())
        assert due is not None
        if lose_at:
            await lane.run(begin_cleaning, due.directory, cleaned.compaction._plan(due))
            assert lane._process is not None
            lane._process.kill()
        return await cleaned.compaction.clean(due)

    cleaned = Cleaned(RealDisk(), clock=Clock(), path=str(tmp_path))
    for number in range(100):
        cleaned.put((b"k%d" % (number % 7), b"%d" % number))
    expected = cleaned.table()
    cleaned.log.roll()
    cleaned.log.flush()
    assert not trio.run(partial(clean, cleaned, lose_at=1)), "the process is lost"
    assert cleaned.log.failure is None
    cleaned.now_s += compaction.RETRY_S
    assert trio.run(partial(clean, cleaned, lose_at=0))
    assert cleaned.table() == expected
    assert len(cleaned.rows()) == 7


UNEXPECTED = {AttributeError("of other code"): False, MemoryError(): True, WorkerLost(): True}


@pytest.mark.parametrize(("error", "again"), UNEXPECTED.items(), ids=str)
def test_an_unexpected_error_only_ends_the_cleaning(cleaned: Cleaned, error: Exception, again: bool) -> None:
    class Failing(ThreadLane):
        async def run(self, *_: object) -> Any:
            raise error

    cleaned.put((b"a", b"1"))
    cleaned.log.roll()
    cleaned.log.flush()
    lane, cleaned.disk.lane = cleaned.disk.lane, lambda size_bytes: Failing(cleaned.disk)
    due = at_once(cleaned.compaction.choose())
    assert due is not None
    assert not finish(cleaned.compaction.clean(due))
    cleaned.disk.lane = lane
    assert cleaned.log.failure is None
    cleaned.now_s += compaction.RETRY_S
    assert cleaned.clean() == again, "the log is left out where the error would come again"


def test_recovery_removes_all_files_of_a_replaced_segment(cleaned: Cleaned) -> None:
    """A transaction index that is left would make consumers skip what was committed since."""
    cleaned.put((b"a", b"1"), producer_id=5, producer_epoch=0, transactional=True, base_sequence=0)
    append_marker(cleaned.log, ControlType.ABORT, producer_id=5)
    cleaned.log.roll()
    cleaned.put((b"b", b"1"))
    cleaned.log.close()
    cleaned.manager.upkeep.write_checkpoints()
    prefix = cleaned.log.segments[0].prefix
    assert cleaned.disk.exists(f"{prefix}.txnindex")
    for suffix in (".log", ".index", ".timeindex"):
        cleaned.disk.open(f"{prefix}{suffix}.swap", create=True)
    log = cleaned.open()
    assert log.aborted_transactions(0, log.end_offset) == []
    assert [row.offset for row in cleaned.rows()] == [2]


def test_logs_are_looked_at_in_steps_and_two_cleaners_choose_different_ones(
    monkeypatch: pytest.MonkeyPatch, cleaned: Cleaned
) -> None:
    """With 100,000 logs one step took 105 ms."""
    monkeypatch.setattr(compaction, "LOGS_AT_ONCE", 1)
    cleaned.put((b"k", b"1"), (b"k", b"2"))
    cleaned.log.roll()
    cleaned.log.flush()
    first = cleaned.compaction.choose()
    next(first)
    assert at_once(cleaned.compaction.choose()) is not None
    assert at_once(first) is None
