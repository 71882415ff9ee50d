"""Files corrupted between stop and start: acknowledged records are present or their loss is reported.

Faults: a bit flipped in the first, a middle and the last batch, and in each index, snapshot and checkpoint; files
truncated by 1 to 61 bytes; deleted files; two swapped segments; stale checkpoints.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from support.logs import PARTITION, SMALL, Clock, append, append_marker, check_indexes, read_all

from minikafka.protocol.errors import CorruptMessageError
from minikafka.protocol.records.control import ControlType
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.checkpoint_files import CLEAN_SHUTDOWN, RECOVERY_POINTS
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.logs.recovery import CorruptLog
from minikafka.storage.steps import at_once

COUNT = 60
Rows = list[tuple[int, bytes]]


class Node:
    """A node's storage, stopped and started over one directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log_path = path / str(PARTITION)
        self.clock = Clock()
        self.manager = self.start()

    def start(self) -> LogManager:
        self.manager = LogManager(
            LogContext(RealDisk(), self.clock, Random(1)),
            [str(self.path)],
            config_of=lambda topic: SMALL,
            node_id=1,
            cluster_id="c",
        )
        self.manager.load()
        return self.manager

    def stop(self, *, clean: bool) -> None:
        if clean:
            self.manager.close({})
        else:
            for log in self.manager.logs.values():
                log.close(clean=False)
            self.manager.context.disk.unlock_all()

    def fill(self) -> Rows:
        """Appends idempotent, transactional and plain records to several segments; returns all records."""
        log = self.manager.create(PARTITION, topic_id=bytes(range(16)))
        for number in range(COUNT):
            options = {"producer_id": 4, "producer_epoch": 0, "base_sequence": number} if number % 3 else {}
            append(log, b"value %d " % number * 15, timestamp=self.clock.ms + number, **options)
            if number % 20 == 10:
                append(log, b"open", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
                append_marker(log, ControlType.ABORT, producer_id=9)
        return read_all(log)

    @property
    def segments(self) -> list[Path]:
        return sorted(self.log_path.glob("*.log"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node, which must have no open files after it was stopped."""
    node = Node(tmp_path / "data")
    yield node
    node.stop(clean=False)
    assert open_files(tmp_path) == []


def open_files(folder: Path) -> list[str]:
    """Returns the open files of this process below a folder, if the system lists them."""
    found: list[str] = []
    for link in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):  # the one by which these were listed
            found.append(os.readlink(link))
    return [path for path in found if path.startswith(f"{folder}/")]


def flip(path: Path, position: int, bit: int = 3) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def batch_positions(path: Path) -> list[int]:
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        found.append(at)
        at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
    return found


@pytest.mark.parametrize("which", ["first", "middle", "last"])
@pytest.mark.parametrize("field", [8, 11, 16, 17, 22, 30, 50, 61, 70])
def test_a_flipped_bit_in_unflushed_data_is_truncated_and_reported(node: Node, which: str, field: int) -> None:
    """The invalid batch lies beyond the recovery point. Valid batches after it are saved in `.damaged` files."""
    rows = node.fill()
    node.stop(clean=False)
    assert len(node.segments) > 2
    segment = node.segments[{"first": 0, "middle": len(node.segments) // 2, "last": -1}[which]]
    positions = batch_positions(segment)
    position = positions[-1 if which == "last" else len(positions) // 2]
    flip(segment, position + field)
    log = node.start().logs[PARTITION]
    found = read_all(log)
    assert found == rows[: len(found)]
    assert found[-1][0] >= int(segment.stem) - 1
    assert bool(log.report.damage) is (which != "last")
    kept = list(node.log_path.glob("*.damaged"))
    assert bool(kept) is (which != "last")
    check_indexes(log)
    append(log, b"next")
    assert read_all(log)[-1][1] == b"next"


def test_damaged_files_contain_all_truncated_bytes(node: Node) -> None:
    node.fill()
    node.stop(clean=False)
    segments = node.segments
    before = b"".join(path.read_bytes() for path in segments)
    flip(segments[1], 30)
    damaged = before[: len(segments[0].read_bytes()) + 30] + b"?" + before[len(segments[0].read_bytes()) + 31 :]
    node.start()
    names = sorted([*node.log_path.glob("*.log"), *node.log_path.glob("*.damaged")])
    after = b"".join(path.read_bytes() for path in names if path.stat().st_size)
    assert len(after) == len(damaged)
    assert [index for index in range(len(after)) if after[index] != before[index]] == [
        len(segments[0].read_bytes()) + 30
    ]


@pytest.mark.parametrize("field", [8, 16, 17, 22, 61, 70])
def test_a_flipped_bit_in_flushed_data_keeps_the_log_closed(node: Node, field: int) -> None:
    """Below the recovery point it is corruption, not a torn write. Nothing is truncated."""
    node.fill()
    log = node.manager.logs[PARTITION]
    log.flush()
    node.manager.upkeep.write_checkpoints()
    node.stop(clean=False)
    segment = node.segments[-1]
    flip(segment, batch_positions(segment)[-1] + field)
    size = segment.stat().st_size
    manager = node.start()
    assert PARTITION not in manager.logs
    assert isinstance(manager.failures.corrupt[PARTITION], CorruptLog)
    assert segment.stat().st_size == size
    with pytest.raises(CorruptLog, match="corrupt at offset"):
        manager.create(PARTITION)
    manager.close({})
    manager = node.start()
    assert PARTITION in manager.failures.corrupt, "its recovery point is kept"
    node.stop(clean=False)
    (node.path / RECOVERY_POINTS).unlink()
    (node.path / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    assert PARTITION in node.start().logs, "without a recovery point the loss is accepted"


@pytest.mark.parametrize("size", [1, 2, 7, 8, 11, 12, 16, 17, 21, 22, 27, 40, 57, 60, 61, 100])
def test_a_cleanly_closed_log_with_a_missing_end_is_detected(node: Node, size: int) -> None:
    node.fill()
    node.stop(clean=True)
    segment = node.segments[-1]
    segment.write_bytes(segment.read_bytes()[:-size])
    assert PARTITION in node.start().failures.corrupt


def test_missing_batches_at_the_end_are_reported(node: Node) -> None:
    rows = node.fill()
    node.stop(clean=True)
    segment = node.segments[-1]
    segment.write_bytes(segment.read_bytes()[: batch_positions(segment)[-1]])
    log = node.start().logs[PARTITION]
    assert log.report.damage.endswith("are missing")
    assert read_all(log) == rows[:-1]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("tail", [bytes(700), b"\xa5" * 700])
def test_garbage_at_the_end_is_truncated(node: Node, clean: bool, tail: bytes) -> None:
    rows = node.fill()
    node.stop(clean=clean)
    segment = node.segments[-1]
    segment.write_bytes(segment.read_bytes() + tail)
    log = node.start().logs[PARTITION]
    assert read_all(log) == rows
    assert log.report.truncated_bytes == len(tail)


def flip_all(pattern: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        for found in path.glob(pattern):
            for position in range(0, found.stat().st_size, 5):
                flip(found, position, position % 8)

    return damage


def delete_all(pattern: str) -> Callable[[Path], None]:
    return lambda path: [found.unlink() for found in path.glob(pattern)] and None


def cut_all(pattern: str) -> Callable[[Path], None]:
    return lambda path: [found.write_bytes(found.read_bytes()[:-5]) for found in path.glob(pattern)] and None


def empty_all(pattern: str) -> Callable[[Path], None]:
    return lambda path: [found.write_bytes(b"") for found in path.glob(pattern)] and None


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("pattern", ["*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("damage", [flip_all, delete_all, cut_all, empty_all])
def test_lost_indexes_and_snapshots_cost_no_record(
    node: Node, damage: Callable[[str], Callable[[Path], None]], pattern: str, clean: bool
) -> None:
    rows = node.fill()
    producers = node.manager.logs[PARTITION].producers.encode_snapshot()
    epochs = node.manager.logs[PARTITION].epochs.entries
    node.stop(clean=clean)
    damage(pattern)(node.log_path)
    log = node.start().logs[PARTITION]
    assert read_all(log) == rows
    assert not log.report.damage
    for offset, _ in rows:
        assert read_all(log, offset)[0][0] == offset
    assert log.producers.encode_snapshot() == producers
    assert log.epochs.entries == epochs
    assert len(log.aborted_transactions(0, log.end_offset)) == 3
    if not (clean and damage in (cut_all, empty_all) and pattern == "*.timeindex"):
        first_ms = node.clock.ms
        for number in (0, 17, 33, COUNT - 1):
            found = at_once(log.offset_for_timestamp(first_ms + number))
            assert found is not None
            assert found[0] == first_ms + number


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint",
                                  "log-start-offset-checkpoint", ".kafka_cleanshutdown"])  # fmt: skip
@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"garbage\n", b"0\n99\n", None])
@pytest.mark.parametrize("clean", [True, False])
def test_an_invalid_checkpoint_costs_no_record(node: Node, name: str, content: bytes | None, clean: bool) -> None:
    rows = node.fill()
    node.manager.upkeep.write_checkpoints({PARTITION: COUNT})
    node.stop(clean=clean)
    path = node.path / name
    if content is None:
        path.unlink(missing_ok=True)
    elif path.exists():
        path.write_bytes(content)
    log = node.start().logs[PARTITION]
    assert read_all(log) == rows


def test_a_stale_recovery_point_only_costs_time(node: Node) -> None:
    rows = node.fill()
    node.manager.logs[PARTITION].flush()
    node.manager.upkeep.write_checkpoints()
    stale = (node.path / RECOVERY_POINTS).read_bytes()
    append(node.manager.logs[PARTITION], b"one more")
    node.stop(clean=True)
    (node.path / RECOVERY_POINTS).write_bytes(stale)
    log = node.start().logs[PARTITION]
    assert read_all(log)[:-1] == rows
    node.stop(clean=False)
    (node.path / RECOVERY_POINTS).write_bytes(stale)
    assert len(read_all(node.start().logs[PARTITION])) == len(rows) + 1


@pytest.mark.parametrize("clean", [True, False])
def test_two_swapped_segments_are_detected(node: Node, clean: bool) -> None:
    rows = node.fill()
    node.stop(clean=clean)
    one, other = node.segments[0], node.segments[1]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    log = node.start().logs[PARTITION]
    if clean:  # Opening examines the last segment only; reads detect it.
        with pytest.raises(CorruptMessageError, match="starts with offset"):
            read_all(log)
        behind = int(node.segments[2].stem)
        assert read_all(log, behind) == [row for row in rows if row[0] >= behind]
    else:
        assert log.report.damage
        assert read_all(log) == []
        assert len(list(node.log_path.glob("*.damaged"))) >= 2


@pytest.mark.parametrize("field", [8, 16])
def test_a_corrupt_batch_in_an_inactive_segment_fails_only_its_reads(
    node: Node, field: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """An invalid length or format: reads of these records fail with CORRUPT_MESSAGE, as in Kafka."""
    rows = node.fill()
    node.stop(clean=True)
    corrupt = node.segments[1]
    positions = batch_positions(corrupt)
    flip(corrupt, positions[len(positions) // 2] + field)
    manager = node.start()
    log = manager.logs[PARTITION]
    base, behind = int(corrupt.stem), int(node.segments[2].stem)
    for _ in range(2):
        with pytest.raises(CorruptMessageError, match="has no valid batch at byte"):
            log.read(base + len(positions) // 2, max_bytes=1000)
    assert capfd.readouterr().out.count("corrupt batch in log") == 1
    assert log.read(0, max_bytes=1000) is not None
    assert log.read(behind - 1, max_bytes=1000) is not None, "the batch of an index entry is found"
    assert read_all(log, behind) == [row for row in rows if row[0] >= behind]
    append(log, b"next")
    assert read_all(log, log.end_offset - 1) == [(log.end_offset - 1, b"next")]
    assert manager.directories[0].failure is None


@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("compacted", [False, True])
def test_the_first_read_past_a_missing_segment_is_logged(
    node: Node, emptied: bool, clean: bool, compacted: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its consumer goes on behind the gap, as in Kafka. In a compacted log the cleaner may have left the gap."""
    rows = node.fill()
    node.stop(clean=True)
    if not clean:
        (node.path / CLEAN_SHUTDOWN).unlink()
    before, missing, behind = (int(one.stem) for one in node.segments[:3])
    node.segments[1].unlink()
    if emptied:
        (node.log_path / f"{missing:020}.log").touch()
    manager = node.start()
    log = manager.logs[PARTITION]
    if compacted:
        log.update_config(replace(log.config, cleanup_policy=("compact",)))
    whole = [row for row in rows if row[0] >= behind]
    assert log.read(missing - 1, max_bytes=1 << 20) is not None
    assert read_all(log, behind) == whole
    assert "records missing" not in capfd.readouterr().out
    assert read_all(log, missing) == read_all(log, missing) == whole
    logged = capfd.readouterr().out
    assert logged.count("records missing between segments") == (not compacted)
    if not compacted:
        assert f"offsets={missing}-{behind - 1}" in logged
        assert f"{missing if emptied else before:020}.log" in logged


def test_a_missing_segment_is_reported_after_a_crash(node: Node) -> None:
    rows = node.fill()
    node.stop(clean=False)
    node.segments[1].unlink()
    log = node.start().logs[PARTITION]
    assert "the next segment starts at offset" in log.report.damage
    assert read_all(log) == rows[: len(read_all(log))]


def test_a_directory_of_another_node_is_refused(node: Node) -> None:
    node.stop(clean=True)
    path = node.path / "meta.properties"
    path.write_text(path.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(ValueError, match=r"belongs to node\.id 2, not 1"):
        node.start()
