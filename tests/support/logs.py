"""Helpers that build, fill and read logs, for tests of storage and of partitions."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction
from minikafka.protocol.records.record import Record
from minikafka.storage.disks.disk import MemoryDisk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import UNOWNED, Checkpointed, LogContext, LogOwner
from minikafka.storage.logs.log_results import Appended
from support.batches import encode_batch

PARTITION = TopicPartition("flights", 0)
DIRECTORY = "/data/flights-0"
SMALL = LogConfig(segment_bytes=4096, index_interval_bytes=256, segment_index_bytes=1200)
"""Settings with which a few dozen records fill several segments and index entries."""


class Clock:
    """A wall clock that only the test advances."""

    def __init__(self, ms: int = 1_700_000_000_000) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms


def memory_disk(seed: object = 0) -> MemoryDisk:
    disk = MemoryDisk(Random(str(seed)))
    disk.make_directory("/data")
    disk.sync_directory("/")
    return disk


def open_log(
    disk: Any,
    *,
    config: LogConfig = SMALL,
    directory: str = DIRECTORY,
    now_ms: Callable[[], int] | None = None,
    random: Random | None = None,
    topic_id: bytes | None = None,
    owner: LogOwner = UNOWNED,
    **known: Any,
) -> Log:
    """A log; `known` is the parameters of `Checkpointed`."""
    context = LogContext(disk, now_ms or Clock(), random or Random(0))
    return Log.open(context, directory, PARTITION, config, Checkpointed(**known), topic_id=topic_id, owner=owner)


def make_batch(values: list[bytes], *, timestamp: int = 1_700_000_000_000, **options: Any) -> bytearray:
    """A batch of records 1 ms apart; options are those of `encode_batch`."""
    records = [Record(-1, timestamp + index, None, value) for index, value in enumerate(values)]
    return bytearray(encode_batch(records, **options))


def append(log: Log, *values: bytes, leader_epoch: int = 0, **options: Any) -> Appended:
    """Append one batch as a leader."""
    return append_bytes(log, make_batch(list(values), **options), leader_epoch=leader_epoch)


def append_bytes(log: Log, data: bytearray, *, leader_epoch: int = 0, **options: Any) -> Appended:
    return log.append(data, list(batches(data)), leader_epoch=leader_epoch, **options)


def append_marker(
    log: Log,
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> Appended:
    """End a transaction."""
    marker = encode_end_transaction(
        EndTxnMarker(kind, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp=1_700_000_000_000,
    )
    return append_bytes(log, bytearray(marker), leader_epoch=leader_epoch)


def parse(data: bytes | bytearray) -> Batch:
    """The one batch of `data`."""
    (found,) = batches(data)
    return found


def read_batches(log: Log, start: int | None = None, *, max_bytes: int = 1 << 20) -> list[Batch]:
    """Every batch from an offset on, checked."""
    found: list[Batch] = []
    offset = log.start_offset if start is None else start
    while offset < log.end_offset:
        part = log.read(offset, max_bytes=max_bytes)
        if part is None:
            break
        for batch in batches(part.read()):
            batch.check_crc()
            assert batch.last_offset >= offset
            found.append(batch)
            offset = batch.next_offset
    return found


def read_all(log: Log, start: int | None = None) -> list[tuple[int, bytes]]:
    """(Offset, value) of every data record from the log's start on."""
    first = log.start_offset if start is None else start
    return [
        (record.offset, record.value or b"")
        for batch in read_batches(log, start)
        if not batch.is_control
        for record in batch.records()
        if record.offset >= first
    ]


def check_indexes(log: Log) -> None:
    """Compare both indexes of every segment with what a full scan makes of the batches."""
    for index in range(len(log.segments)):
        segment = log.segments[index]
        offsets, times = segment.offsets.entries, segment.times.entries
        latest, since, position = (-1, segment.base_offset), 0, 0
        expected: list[tuple[int, int]] = []
        marked, maxima = set[tuple[int, int]](), set[tuple[int, int]]()
        for batch in batches(segment.log.pread(0, segment.log.size_bytes)):
            if batch.max_timestamp > latest[0]:
                latest = (batch.max_timestamp, batch.last_offset)
                maxima.add((latest[0], latest[1] - segment.base_offset))
            if since > segment.config.index_interval_bytes:
                expected.append((batch.last_offset - segment.base_offset, position))
                marked.add((latest[0], latest[1] - segment.base_offset))
                since = 0
            since += batch.size_bytes
            position += batch.size_bytes
        assert position == segment.log.size_bytes
        assert segment.latest == latest
        assert set(offsets) <= set(expected)
        assert times == sorted(set(times))
        assert set(times) <= maxima, "an entry that no scan would find"
        if not segment.is_full:
            assert offsets == expected
            assert marked <= set(times)
