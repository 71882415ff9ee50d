"""One partition on this node: its log, who leads it, how far it is committed, and who waits for it.

Append and read are synchronous: between decoding a batch and having it in the log there is no `await`, so there is no
lock and no reordering. What has to wait, waits outside: `committed` for the high watermark, `watch` for growth.

Source: Kafka's `Partition`, and `UnifiedLog` for the order of the checks.
"""

from dataclasses import dataclass
from typing import NamedTuple

import trio

from minikafka.broker.validation import Rules, validate
from minikafka.broker.waiting import Waiter
from minikafka.controller.image import PartitionState
from minikafka.protocol.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, Codec, batches
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import FileSlice
from minikafka.storage.log import Log
from minikafka.storage.producers import Origin

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NO_EPOCH = -1
EMPTY = b""
CODECS = {"uncompressed": Codec.NONE, **{codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE}}
CODECS_OWN_LEVEL = -1
LEVELS = {
    Codec.GZIP: "compression_gzip_level",
    Codec.LZ4: "compression_lz4_level",
    Codec.ZSTD: "compression_zstd_level",
}


class Written(NamedTuple):
    """Where a batch went.

    `append_time_ms` is -1 unless the log stamps its own time, or the batch is a duplicate (then that of the first).
    `flush_due`: `flush.messages` wants it on the device before it is acknowledged; see `Partition.flushed`.
    """

    first_offset: int
    last_offset: int
    append_time_ms: int
    flush_due: bool = False


@dataclass(slots=True)
class Read:
    """What a fetch of one partition found; offsets at the moment of reading."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: FileSlice | bytes
    aborted: list[tuple[int, int]] | None = None
    """(producer id, first offset) of aborted transactions among the records; None when uncommitted is asked for."""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where the reader's log and this one part (KIP-595); then there are no records."""


class Partition:
    """A partition's replica on this node.

    Attributes:
        topic_partition: Its name.
        topic_id: 16 bytes.
        log: The records.
        leader_epoch: That of the current leadership.
        high_watermark: The offset below which everything is committed.
    """

    def __init__(self, node_id: int, topic_id: bytes, topic_partition: TopicPartition, log: Log) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.leader_id = -1
        self.high_watermark = log.end_offset
        self.rules = rules_of(log.config)
        self._node_id = node_id
        self._waiters: dict[Waiter, None] = {}
        self._progress = trio.Event()

    # -- leadership ----------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._node_id

    def become(self, state: PartitionState) -> bool:
        """Take over what the metadata says of this partition; a new epoch starts at the end of the log.

        The epoch's start is recorded on election, not with its first record (KAFKA-7415).

        Returns:
            Whether leader or epoch changed.
        """
        if state.leader_epoch == self.leader_epoch and state.leader == self.leader_id:
            return False
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        if self.is_leader:
            self.log.epochs.assign(state.leader_epoch, self.log.end_offset)
            self.high_watermark = self.log.end_offset
            self.log.high_watermark_advanced(self.high_watermark)
        self._wake_everybody()
        return True

    def resign(self) -> None:
        """The topic went, or the node stops: nobody may write or wait here any longer."""
        self.leader_id = -1
        self._wake_everybody()

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Only a leader serves, and only those who mean its epoch (KIP-320).

        Raises:
            NotLeaderOrFollowerError: Another node leads.
            FencedLeaderEpochError: The asker knows an older epoch.
            UnknownLeaderEpochError: It knows a newer one.
        """
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                raise FencedLeaderEpochError(f"{self} is at epoch {self.leader_epoch}, not {current_leader_epoch}")
            if current_leader_epoch > self.leader_epoch:
                raise UnknownLeaderEpochError(f"{self} knows no epoch {current_leader_epoch} yet")
        if not self.is_leader:
            raise NotLeaderOrFollowerError(f"the leader of {self} is node {self.leader_id}")

    def check_follower(self, node_id: int) -> None:
        """Only a follower may fetch as one; nobody is believed who merely says so (CVE-2018-1288).

        Raises:
            NotLeaderOrFollowerError: The node is no follower of this partition.
        """
        raise NotLeaderOrFollowerError(f"node {node_id} is no follower of {self}")

    # -- writing -------------------------------------------------------------------------------------------------

    def append(self, batch: Batch, *, now_ms: int) -> Written:
        """Check and write what a client produced.

        Args:
            batch: As `produced_batch` found it, in a writable buffer.
            now_ms: The node's clock.

        Raises:
            KafkaError: As Kafka answers; nothing is written then.
            RejectedRecords: Single records were at fault; nothing is written.
        """
        self.check_leader()
        batch = validate(batch, self.rules, now_ms)
        stamped = now_ms if self.rules.log_append_time else -1
        if batch.producer_id >= 0:
            known = self.log.producers.check(batch, Origin.CLIENT)
            if known is not None:
                return Written(known.first_offset, known.last_offset, known.timestamp)
        return self._write(batch, stamped)

    def append_own(self, data: bytearray, origin: Origin = Origin.COORDINATOR) -> Written:
        """Write a batch of the node's own making (a coordinator's records, a transaction's marker)."""
        self.check_leader()
        (batch,) = batches(memoryview(data))
        if batch.producer_id >= 0:
            self.log.producers.check(batch, origin)
        return self._write(batch, -1)

    def _write(self, batch: Batch, stamped: int) -> Written:
        appended = self.log.append(batch.data, [batch], leader_epoch=self.leader_epoch)
        self._advance_high_watermark(batch.size_bytes)
        return Written(appended.first_offset, appended.last_offset, stamped, appended.flush_due)

    async def flushed(self) -> None:
        """Have what is written on the device; whoever comes meanwhile shares the next sync.

        Raises:
            KafkaStorageError: The device failed. The log is offline then.
        """
        await self.log.flush_async()

    def _advance_high_watermark(self, size_bytes: int) -> None:
        """The leader is the only in-sync replica: what is written is committed."""
        self.high_watermark = self.log.end_offset
        self.log.high_watermark_advanced(self.high_watermark)
        if self._waiters:
            for waiter in self._waiters:
                waiter.grew(size_bytes)
        if self._progress.statistics().tasks_waiting:
            self._progress.set()
            self._progress = trio.Event()

    async def committed(self, offset: int) -> None:
        """Wait until everything below `offset` is committed.

        Raises:
            NotLeaderOrFollowerError: Leadership ended while waiting. Cancellation leaves nothing behind.
        """
        epoch = self.leader_epoch
        while self.high_watermark < offset:
            await self._progress.wait()
            if not self.is_leader or self.leader_epoch != epoch:
                raise NotLeaderOrFollowerError(f"leadership of {self} ended before offset {offset} was committed")

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """The end of what read_committed may see: below every open transaction and the high watermark."""
        unstable = self.log.last_stable_offset_unbounded
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def visible_end(self, isolation: int) -> int:
        """Where a consumer of this isolation level stops."""
        return self.last_stable_offset if isolation == READ_COMMITTED else self.high_watermark

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        isolation: int = READ_UNCOMMITTED,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        at_least_one_batch: bool = True,
    ) -> Read:
        """Records from `offset` on for a consumer, as a slice of the file that nobody has decoded.

        Raises:
            OffsetOutOfRangeError: Before the start or past the end of the log, or `last_fetched_epoch` is unknown.
            NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownLeaderEpochError: See `check_leader`.
        """
        self.check_leader(current_leader_epoch)
        log = self.log
        if last_fetched_epoch != NO_EPOCH:
            diverging = self._divergence(offset, last_fetched_epoch)
            if diverging is not None:
                return Read(self.high_watermark, self.last_stable_offset, log.start_offset, EMPTY, None, diverging)
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRangeError(f"{self} has offsets {log.start_offset} to {log.end_offset}, not {offset}")
        limit = self.visible_end(isolation)
        records: FileSlice | bytes = EMPTY
        if offset < limit and (max_bytes > 0 or at_least_one_batch):
            found_slice = log.read(
                offset, max_bytes=max_bytes, limit_offset=limit, min_one_batch=at_least_one_batch
            )
            records = found_slice or EMPTY
        found = Read(self.high_watermark, self.last_stable_offset, log.start_offset, records)
        if isolation == READ_COMMITTED:
            found.aborted = []
            if len(records):
                end = min(limit, log.upper_bound_offset(offset, len(records)))
                found.aborted = log.aborted_transactions(offset, end)
        return found

    def _divergence(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """KIP-595: does the reader's log, which ends in `last_fetched_epoch`, part from this one before `offset`?"""
        if not self.log.start_offset <= offset:
            raise OffsetOutOfRangeError(f"{self} starts at {self.log.start_offset}, not {offset}")
        epoch, end_offset = self.log.epochs.end_offset_for(last_fetched_epoch, self.log.end_offset)
        if epoch == NO_EPOCH or end_offset < 0:
            raise OffsetOutOfRangeError(f"{self} has no records of epoch {last_fetched_epoch} or before")
        return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < offset else None

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch up to the one asked for; (-1, -1) where there is none (KIP-101)."""
        return self.log.epochs.end_offset_for(leader_epoch, self.log.end_offset)

    def delete_records(self, before_offset: int) -> int:
        """Move the log's start (KIP-107); -1 stands for the high watermark.

        Returns:
            The new start, which never goes back.

        Raises:
            OffsetOutOfRangeError: Past the high watermark, or negative.
        """
        self.check_leader()
        target = self.high_watermark if before_offset == -1 else before_offset
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRangeError(f"cannot delete to {target}: {self} is committed up to {self.high_watermark}")
        self.log.advance_start_offset(target)
        return self.log.start_offset

    # -- waiting -------------------------------------------------------------------------------------------------

    def watch(self, waiter: Waiter) -> None:
        """Tell `waiter` of every growth from now on."""
        self._waiters[waiter] = None

    def unwatch(self, waiter: Waiter) -> None:
        """No longer; unknown waiters are no error."""
        self._waiters.pop(waiter, None)

    def _wake_everybody(self) -> None:
        for waiter in self._waiters:
            waiter.wake()
        self._progress.set()
        self._progress = trio.Event()

    # -- settings ------------------------------------------------------------------------------------------------

    def configure(self, config: LogConfig) -> None:
        """New settings of the topic take hold."""
        self.log.update_config(config)
        self.rules = rules_of(config)

    def __str__(self) -> str:
        return f"{self.topic_partition.topic}-{self.topic_partition.partition}"


def rules_of(config: LogConfig) -> Rules:
    """The part of a topic's settings that decides what may be appended."""
    codec = CODECS.get(config.compression_type)
    level: int | None = getattr(config, LEVELS[codec]) if codec in LEVELS else None
    return Rules(
        max_message_bytes=config.max_message_bytes,
        log_append_time=config.message_timestamp_type == "LogAppendTime",
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compacted="compact" in config.cleanup_policy,
        codec=codec,
        codec_level=None if level == CODECS_OWN_LEVEL else level,
    )
