"""Data directories of Apache Kafka 4.3.1 can be read and recovered, and their indexes are rebuilt byte for byte."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.logs import append, read_all, read_batches
from support.oracle import SHARED

from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import Record
from minikafka.storage.disks.checkpoint_files import LOG_START_OFFSETS, RECOVERY_POINTS, read_epochs, read_offsets
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import Checkpointed, LogContext
from minikafka.storage.segments.batch_scan import headers
from minikafka.storage.steps import at_once

LOGS = SHARED / "kafka-logs"
pytestmark = pytest.mark.skipif(not LOGS.exists(), reason="no kafka-logs beside the checkout")
MANIFEST: dict[str, Any] = json.loads((LOGS / "manifest.json").read_text()) if LOGS.exists() else {}
NOW_MS = 1_795_244_500_000
CACHES = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint")


@pytest.fixture(params=sorted(MANIFEST))
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def copy(kind: str, topic: str, tmp_path: Path) -> Path:
    """Copies a topic and its checkpoints to a writable directory."""
    target = tmp_path / kind
    for source in (LOGS / kind).iterdir():
        if source.is_file():
            target.mkdir(exist_ok=True)
            shutil.copyfile(source, target / source.name)
    shutil.copytree(LOGS / kind / f"{topic}-0", target / f"{topic}-0", copy_function=shutil.copyfile)
    (target / f"{topic}-0").chmod(0o755)
    return target


def open_copy(root: Path, topic: str, *, clean: bool, recovery_point: int | None = None) -> Log:
    disk, key = RealDisk(), TopicPartition(topic, 0)
    points = read_offsets(disk, f"{root}/{RECOVERY_POINTS}")
    starts = read_offsets(disk, f"{root}/{LOG_START_OFFSETS}")
    log = Log.open(
        LogContext(disk, lambda: NOW_MS),
        f"{root}/{topic}-0",
        key,
        config_of(topic),
        Checkpointed(
            clean=clean,
            recovery_point=points.get(key, 0) if recovery_point is None else recovery_point,
            start_offset=starts.get(key, 0),
        ),
    )
    log.high_watermark_advanced(log.end_offset)
    return log


def config_of(topic: str) -> LogConfig:
    names = ("segment.index.bytes", "segment.bytes", "index.interval.bytes")
    settings = MANIFEST[topic]["settings"]
    return LogConfig.from_settings({name: int(settings[name]) for name in names if name in settings})


def shown(record: Record, timestamp_type: int) -> list[Any]:
    """Returns a record in the form of the manifest."""
    return [
        record.offset,
        timestamp_type,
        record.timestamp,
        _bytes(record.key),
        _bytes(record.value),
        [[name, _bytes(value)] for name, value in record.headers],
    ]


def _bytes(value: bytes | None) -> Any:
    if value is None:
        return None
    if len(value) > 200:
        return {"length": len(value), "crc32": zlib.crc32(value)}
    return base64.b64encode(value).decode()


def records(log: Log) -> list[list[Any]]:
    return [
        shown(record, batch.timestamp_type + 1)
        for batch in read_batches(log)
        if not batch.is_control
        for record in batch.records()
        if record.offset >= log.start_offset
    ]


def committed_offsets(log: Log) -> list[int]:
    """Returns the offsets visible to a read_committed consumer: without those of aborted transactions, from their first
    offset to their marker."""
    limit = log.last_stable_offset_unbounded or log.end_offset
    waiting = sorted(log.aborted_transactions(log.start_offset, limit), key=lambda one: one[1])
    aborted: set[int] = set()
    kept: list[int] = []
    for batch in read_batches(log):
        while waiting and waiting[0][1] <= batch.last_offset:
            aborted.add(waiting.pop(0)[0])
        if batch.is_control:
            aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            kept += [record.offset for record in batch.records() if record.offset >= log.start_offset]
    return kept


def normal(rows: list[list[Any]]) -> list[list[Any]]:
    """Returns the values as after a JSON round trip."""
    return json.loads(json.dumps(rows))


@pytest.mark.parametrize("kind", ["clean", "crashed"])
def test_a_topic_reads_as_in_the_manifest(kind: str, topic: str, tmp_path: Path) -> None:
    with closing(open_copy(copy(kind, topic, tmp_path), topic, clean=kind == "clean")) as log:
        expected = MANIFEST[topic]
        assert (log.start_offset, log.end_offset) == (expected["log_start_offset"], expected["end_offset"])
        assert (log.last_stable_offset_unbounded or log.end_offset) == expected["last_stable_offset"]
        assert normal(records(log)) == expected["read_uncommitted"]
        assert committed_offsets(log) == expected["read_committed_offsets"]
        assert log.report.clean is (kind == "clean")
        assert not log.report.damage


def test_opening_and_closing_a_clean_log_changes_no_byte(topic: str, tmp_path: Path) -> None:
    root = copy("clean", topic, tmp_path)
    open_copy(root, topic, clean=True).close()
    assert_same(LOGS / "clean" / f"{topic}-0", root / f"{topic}-0")


def test_a_crashed_log_recovers_to_the_bytes_of_the_clean_one(topic: str, tmp_path: Path) -> None:
    """Recovery writes the same indexes, snapshots and epochs as Kafka's clean shutdown."""
    root = copy("crashed", topic, tmp_path)
    open_copy(root, topic, clean=False).close()
    assert_same(LOGS / "clean" / f"{topic}-0", root / f"{topic}-0")


def test_all_other_files_are_rebuilt_byte_for_byte_from_the_batches(topic: str, tmp_path: Path) -> None:
    root = copy("clean", topic, tmp_path)
    for pattern in CACHES:
        for path in (root / f"{topic}-0").glob(pattern):
            path.unlink()
    open_copy(root, topic, clean=False, recovery_point=0).close()
    assert_same(LOGS / "clean" / f"{topic}-0", root / f"{topic}-0")


def test_a_missing_index_is_rebuilt_on_use(topic: str, tmp_path: Path) -> None:
    root = copy("clean", topic, tmp_path)
    for pattern in ("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint"):
        for path in (root / f"{topic}-0").glob(pattern):
            path.unlink()
    with closing(open_copy(root, topic, clean=True)) as log:
        assert normal(records(log)) == MANIFEST[topic]["read_uncommitted"]
        for path in (LOGS / "clean" / f"{topic}-0").glob("*index"):
            assert log.segments[0].offsets is not None
            for index in range(len(log.segments)):
                _ = log.segments[index].times
            assert (root / f"{topic}-0" / path.name).read_bytes() == path.read_bytes()
        epochs = read_epochs(RealDisk(), str(LOGS / "clean" / f"{topic}-0" / "leader-epoch-checkpoint"))
        assert log.epochs.entries == epochs


def test_a_log_of_kafka_can_be_appended_to(topic: str, tmp_path: Path) -> None:
    root = copy("clean", topic, tmp_path)
    log = open_copy(root, topic, clean=True)
    before = normal(records(log))
    end = log.end_offset
    for number in range(100):
        append(log, f"more {number}".encode() * 20, timestamp=NOW_MS + number)
    assert normal(records(log))[: len(before)] == before
    log.close()
    for clean in (True, False):
        again = open_copy(root, topic, clean=clean, recovery_point=None if clean else 0)
        assert again.end_offset == end + 100
        assert read_all(again, end)[-1] == (end + 99, b"more 99" * 20)
        again.close()


def test_timestamp_lookups_agree_with_a_full_scan(topic: str, tmp_path: Path) -> None:
    with closing(open_copy(copy("clean", topic, tmp_path), topic, clean=True)) as log:
        every = [
            (record.timestamp, record.offset, batch.leader_epoch)
            for batch in read_batches(log)
            for record in batch.records()
            if record.offset >= log.start_offset
        ]
        times = sorted({one[0] for one in every})
        for timestamp in [times[0] - 1, times[-1] + 1, *times[:: max(1, len(times) // 60)]]:
            expected = next((one for one in every if one[0] >= timestamp), None)
            assert at_once(log.offset_for_timestamp(timestamp)) == expected
        latest = max(one[0] for one in every)
        assert at_once(log.offset_of_max_timestamp()) == next(one for one in every if one[0] == latest)


def test_every_log_of_the_node_scans_to_its_end() -> None:
    """Including coordinator and metadata logs."""
    disk = RealDisk()
    for path in sorted((LOGS / "clean").glob("*/*.log")):
        size = path.stat().st_size
        at = 0
        fd_free = disk.read_bytes(str(path))
        assert len(fd_free) == size
        for header in headers(_ReadOnly(fd_free), 0, size):  # type: ignore[arg-type]
            at = header.position + header.size_bytes
        assert at == size, path


class _ReadOnly:
    """Bytes as a file: the recorded directories must not be opened for writing."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def pread(self, position: int, size_bytes: int) -> bytes:
        return self._data[position : position + size_bytes]


def assert_same(expected: Path, found: Path) -> None:
    names = sorted(path.name for path in expected.iterdir())
    assert sorted(path.name for path in found.iterdir()) == names
    differing = [name for name in names if (expected / name).read_bytes() != (found / name).read_bytes()]
    assert differing == []
