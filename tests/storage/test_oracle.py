"""Apache Kafka's `kafka-dump-log` reads our logs and agrees with us; a JVM broker serves them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest
from support.logs import PARTITION, append, append_marker, check_indexes, read_all, read_batches
from support.oracle import needs_oracle, tool

from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.control import ControlType
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import Checkpointed, LogContext

pytestmark = [pytest.mark.oracle, needs_oracle, pytest.mark.timeout(300)]
NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A cleanly closed log of several segments: all codecs, producers, committed and aborted transactions."""
    path = tmp_path_factory.mktemp("dump") / str(PARTITION)
    config = LogConfig(segment_bytes=65_536, index_interval_bytes=1024, segment_index_bytes=8192)
    log = Log.open(LogContext(RealDisk(), lambda: NOW_MS), str(path), PARTITION, config, Checkpointed())
    random = Random(3)
    for number in range(300):
        values = [random.randbytes(random.randint(0, 300)) for _ in range(random.randint(1, 5))]
        codec = list(Codec)[number % 5]
        append(
            log, *values, codec=codec, timestamp=NOW_MS + 10 * number, leader_epoch=number // 100,
            producer_id=1 + number % 2, producer_epoch=0, base_sequence=number,
            transactional=number % 2 == 0,
        )  # fmt: skip
        if number % 30 == 28:
            kind = ControlType.ABORT if number % 60 == 28 else ControlType.COMMIT
            append_marker(log, kind, producer_id=1, coordinator_epoch=2, leader_epoch=number // 100)
    log.close()
    return log


def dump(log: Log, suffix: str, *options: str) -> dict[Path, list[str]]:
    """Returns the output of the tool for each file."""
    files = sorted(Path(log.directory).glob(f"*{suffix}"))
    assert files
    text = tool("dump-log", "--files", ",".join(map(str, files)), *options)
    output: dict[Path, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("Dumping "):
            output[Path(line.removeprefix("Dumping "))] = current = []
        elif output:
            current.append(line)
    assert sorted(output) == files
    return output


@pytest.mark.slow
def test_batches(written: Log) -> None:
    lines = [line for part in dump(written, ".log").values() for line in part]
    output = [line for line in lines if line.startswith("baseOffset:")]
    assert len(output) == len(read_batches(written))
    for line, batch in zip(output, read_batches(written), strict=True):
        fields = dict(re.findall(r"(\w+): (\S+)", line))
        assert fields["isvalid"] == "true"
        assert int(fields["baseOffset"]) == batch.base_offset
        assert int(fields["lastOffset"]) == batch.last_offset
        assert int(fields["count"]) == batch.record_count
        assert int(fields["partitionLeaderEpoch"]) == batch.leader_epoch
        assert int(fields["crc"]) == batch.crc
        assert int(fields["producerId"]) == batch.producer_id
        assert int(fields["lastSequence"]) == batch.last_sequence
        assert fields["isControl"] == str(batch.is_control).lower()
        assert fields["compresscodec"] == batch.codec.name.lower()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_have_no_mismatch(written: Log, suffix: str) -> None:
    """The tool compares each entry with the batches."""
    for path, lines in dump(written, suffix, "--verify-index-only").items():
        assert all("Mismatches" not in line and "Found" not in line for line in lines), (path, lines)
    plain = dump(written, suffix)
    indexes = [written.segments[index] for index in range(len(written.segments))]
    for segment, lines in zip(indexes, plain.values(), strict=True):
        numbers = [tuple(map(int, re.findall(r": (-?\d+)", line))) for line in lines if ": " in line]
        base = segment.base_offset
        if suffix == ".index":
            assert numbers == [(offset + base, position) for offset, position in segment.offsets.entries]
        else:
            assert numbers == [(time, offset + base) for time, offset in segment.times.entries]


@pytest.mark.slow
def test_transaction_index_and_snapshots(written: Log) -> None:
    output = [line for part in dump(written, ".txnindex").values() for line in part]
    pairs = [
        (int(fields["producerId"]), int(fields["firstOffset"]))
        for fields in (dict(re.findall(r"(\w+): (-?\d+)", line)) for line in output)
        if fields
    ]
    assert pairs == written.aborted_transactions(0, written.end_offset)
    newest = list(dump(written, ".snapshot").values())[-1]
    fields = [dict(re.findall(r"(\w+): (-?\d+)", line)) for line in newest if line.startswith("producerId")]
    assert [int(one["producerId"]) for one in fields] == [1, 2]
    for one in fields:
        producer = written.producers.get(int(one["producerId"]))
        assert producer is not None
        assert int(one["lastSequence"]) == producer.last_sequence
        assert int(one["lastOffset"]) == producer.last_offset


def test_a_closed_log_reads_the_same(written: Log) -> None:
    for clean in (True, False):
        log = Log.open(
            LogContext(RealDisk(), lambda: NOW_MS),
            written.directory,
            PARTITION,
            written.config,
            Checkpointed(clean=clean),
        )
        assert log.end_offset == written.end_offset
        assert len(read_all(log)) > 800
        check_indexes(log)
        assert json.dumps(log.epochs.entries) == json.dumps(written.epochs.entries)
        log.close()
