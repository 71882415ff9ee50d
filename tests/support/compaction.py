"""Helpers that fill compacted logs, clean them, and read what is left, for tests of the log cleaner."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, NamedTuple, TypeVar

from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import Record
from minikafka.storage.compaction.compaction import Compaction, CompactionSettings
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.steps import at_once
from support.batches import encode_batch
from support.logs import Clock, append_bytes, read_batches

Result = TypeVar("Result")
KEY = TopicPartition("settings", 0)
COMPACTED = LogConfig(
    cleanup_policy=("compact",), segment_bytes=2048, index_interval_bytes=200, segment_index_bytes=1200,
    min_cleanable_dirty_ratio=0.0, delete_retention_ms=10_000,
)  # fmt: skip
SETTINGS = CompactionSettings(
    threads=1, map_size_bytes=1 << 20, load_factor=0.9, buffer_size_bytes=1 << 17, io_bytes_per_second=1e18,
    backoff_ms=100,
)  # fmt: skip


def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine that waits for nothing, as on a `MemoryDisk`."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


class Cleaned:
    """A log manager with one compacted log, on any disk, and its cleaner.

    Attributes:
        stable: the last stable offset up to which may be cleaned; None for the end of the log.
        now_s: the monotonic clock of the cleaner.
    """

    def __init__(
        self, disk: Any, *, clock: Callable[[], int] | None = None, config: LogConfig = COMPACTED, path: str = "/data"
    ) -> None:
        self.disk, self.path, self.config = disk, path, config
        self.clock = clock or Clock()
        self.settings = SETTINGS
        self.stable: int | None = None
        self.now_s = 0.0
        self.open()

    def open(self) -> Log:
        """Opens the logs, as at the start of a node."""
        self.manager = LogManager(
            LogContext(self.disk, self.clock, Random(0)),
            [self.path],
            config_of=lambda topic: self.config,
            node_id=1,
            cluster_id="c",
        )
        self.manager.load()
        self.log = self.manager.create(KEY)
        self.compaction = Compaction(
            self.manager, stable_offset_of=self._stable_offset, settings=lambda: self.settings, now_ms=self.clock,
            clock=lambda: self.now_s, sleep=_no_sleep,
        )  # fmt: skip
        return self.log

    def _stable_offset(self, key: TopicPartition) -> int:
        first = self.log.last_stable_offset_unbounded
        end = self.log.end_offset if self.stable is None else self.stable
        return end if first is None else min(first, end)

    @property
    def clean_offset(self) -> int:
        return self.manager.directories[0].checkpoints.cleaner_offsets.offsets.get(KEY, -1)

    def clean(self) -> int:
        """Flushes and cleans until nothing is due; returns the number of cleanings."""
        self.log.flush()
        count = 0
        while (due := at_once(self.compaction.choose())) is not None:
            before = self.clean_offset
            assert finish(self.compaction.clean(due))
            assert self.clean_offset > before
            count += 1
        return count

    def roll_and_clean(self) -> int:
        """Makes everything cleanable, and cleans it."""
        self.log.roll()
        return self.clean()

    def restart(self, *, clean: bool = True) -> Log:
        """Stops, cleanly or like `kill -9`, and starts again."""
        if clean:
            self.manager.close({KEY: self.log.end_offset})
        return self.open()

    def put(self, *pairs: tuple[bytes | None, bytes | None], timestamp: int | None = None, **options: Any) -> int:
        """Appends a batch of keys and values; returns its first offset. Options are those of `encode_batch`."""
        at = self.clock() if timestamp is None else timestamp
        records = [Record(-1, at, key, value) for key, value in pairs]
        leader_epoch = options.pop("leader_epoch", 0)
        appended = append_bytes(self.log, bytearray(encode_batch(records, **options)), leader_epoch=leader_epoch)
        self.log.high_watermark_advanced(self.log.end_offset)
        return appended.first_offset

    def rows(self) -> list[Row]:
        """Every data record from the log's start on."""
        return rows_of(self.log)

    def table(self) -> dict[bytes, bytes]:
        """The last value of each key, without those whose last record is a tombstone."""
        latest = {row.key: row.value for row in self.rows()}
        return {key: value for key, value in latest.items() if key is not None and value is not None}


async def _no_sleep(seconds: float) -> None:
    pass


class Row(NamedTuple):
    """A record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    producer_id: int = -1


def rows_of(log: Log) -> list[Row]:
    """Every data record of a log from its start on."""
    return [
        Row(record.offset, record.timestamp, record.key, record.value, batch.producer_id)
        for batch in read_batches(log)
        if not batch.is_control
        for record in batch.records()
        if record.offset >= log.start_offset
    ]
