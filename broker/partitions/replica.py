"""`Replica`: the code that leaders and followers share: the log, the high watermark, and reads up to it.

The code for leaders only or followers only is in `partition.py`.
"""

from minikafka.broker.partitions.batch_validation import rules_of
from minikafka.broker.partitions.fetch_result import (
    NO_EPOCH,
    NO_RECORDS,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchResult,
    divergence,
)
from minikafka.broker.partitions.request_waiters import (
    WAKE_BYTES,
    CommitWaiters,
    GrowthListener,
    GrowthSignal,
    SharedFlush,
)
from minikafka.broker.partitions.traffic import Traffic
from minikafka.protocol.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage.disks.disk import FileSlice
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log

UNKNOWN_BYTES = WAKE_BYTES
"""Growth of unknown size: every waiting fetch reads again."""


class Replica:
    """A replica of a partition, in any role.

    Attributes:
        topic_partition: Topic name and partition number.
        topic_id: 16 bytes.
        log: The records.
        leader_epoch: The current leader epoch.
        leader_id: The node id of the leader, -1 without a leader.
        high_watermark: Records below this offset are committed. Only truncation lowers it.
        visible, tail: `visible` notifies listeners when consumers may read more records, `tail` when the log grows.
        traffic: Counts appends and reads; shared by the partitions of a topic.
    """

    def __init__(
        self, node_id: int, topic_id: bytes, topic_partition: TopicPartition, log: Log, high_watermark: int | None
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.leader_id = -1
        self.high_watermark = log.start_offset if high_watermark is None else high_watermark
        self.rules = rules_of(log.config)
        self.visible = GrowthSignal()
        self.tail = GrowthSignal()
        self.traffic = Traffic()
        self._node_id = node_id
        self._commits = CommitWaiters()
        self._flush = SharedFlush(log)
        log.high_watermark_advanced(self.high_watermark)

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._node_id

    @property
    def commits_awaited(self) -> int:
        """How many requests wait for a higher high watermark."""
        return len(self._commits)

    def check_leader(self, current_leader_epoch: int = NO_EPOCH, *, leader_only: bool = True) -> None:
        """Check the role and the leader epoch before a request is served (KIP-320).

        Args:
            leader_only: False if a follower may serve the request.

        Raises:
            NotLeaderOrFollowerError: Another node leads.
            FencedLeaderEpochError: The request has an older epoch.
            UnknownLeaderEpochError: The request has a newer epoch.
        """
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                raise FencedLeaderEpochError(f"{self} is at epoch {self.leader_epoch}, not {current_leader_epoch}")
            if current_leader_epoch > self.leader_epoch:
                raise UnknownLeaderEpochError(f"{self} does not know epoch {current_leader_epoch} yet")
        if leader_only and self.leader_id != self._node_id:
            raise NotLeaderOrFollowerError(f"the leader of {self} is node {self.leader_id}")

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: below every open transaction, at most the high watermark."""
        unstable = self.log.last_stable_offset_unbounded
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def visible_end(self, isolation: int) -> int:
        """Return the offset up to which a consumer of this isolation level may read."""
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
        leader_only: bool = True,
    ) -> FetchResult:
        """Read records from `offset` on for a consumer, as a slice of the file, without decoding them.

        Raises:
            OffsetOutOfRangeError: `offset` is before the start or past the end of the log, or `last_fetched_epoch` is
                unknown.
            NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownLeaderEpochError: See `check_leader`.
        """
        self.check_leader(current_leader_epoch, leader_only=leader_only)
        limit = self.visible_end(isolation)
        found = self._read(offset, max_bytes, limit, last_fetched_epoch, at_least_one_batch)
        if isolation == READ_COMMITTED and found.diverging is None:
            found.aborted = []
            if len(found.records):
                end = min(limit, self.log.upper_bound_offset(offset, len(found.records)))
                found.aborted = self.log.aborted_transactions(offset, end)
        return found

    def read_nothing(self, preferred_replica: int) -> FetchResult:
        """Return a result without records, for a consumer that should fetch from another replica."""
        result = FetchResult(self.high_watermark, self.last_stable_offset, self.log.start_offset, NO_RECORDS)
        result.preferred_replica = preferred_replica
        return result

    def _read(
        self, offset: int, max_bytes: int, limit: int, last_fetched_epoch: int, at_least_one_batch: bool
    ) -> FetchResult:
        log = self.log
        found = FetchResult(self.high_watermark, self.last_stable_offset, log.start_offset, NO_RECORDS)
        if last_fetched_epoch != NO_EPOCH:
            found.diverging = divergence(log, offset, last_fetched_epoch)
            if found.diverging is not None:
                return found
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRangeError(f"{self} has offsets {log.start_offset} to {log.end_offset}, not {offset}")
        if offset < limit and (max_bytes > 0 or at_least_one_batch):
            records: FileSlice | None = log.read(
                offset, max_bytes=max_bytes, limit_offset=limit, min_one_batch=at_least_one_batch
            )
            found.records = records or NO_RECORDS
        return found

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch up to `leader_epoch`; (-1, -1) if there is none (KIP-101)."""
        return self.log.epochs.end_offset_for(leader_epoch, self.log.end_offset)

    def _move_high_watermark(self, offset: int, size_bytes: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.log.high_watermark_advanced(offset)
            self.visible.grew(size_bytes)
            self._commits.advanced(offset)

    # -- waiting -------------------------------------------------------------------------------------------------

    def watch(self, waiter: GrowthListener) -> None:
        """Notify `waiter` when the consumer-visible records grow."""
        self.visible.watch(waiter)

    def unwatch(self, waiter: GrowthListener) -> None:
        """Remove a waiter; unknown ones are ignored."""
        self.visible.unwatch(waiter)

    def _wake_all(self) -> None:
        self.visible.wake()
        self.tail.wake()
        self._commits.wake()

    def switch_log(self, log: Log) -> None:
        """Replace this replica's log by its copy in another data directory, which has the same records."""
        self.log.on_flushed, log.on_flushed = None, self.log.on_flushed
        self.log = log
        self._flush.switch(log)
        self._commits.wake()

    # -- settings ------------------------------------------------------------------------------------------------

    def configure(self, config: LogConfig) -> None:
        """Apply new settings of the topic."""
        self.log.update_config(config)
        self.rules = rules_of(config)

    def __str__(self) -> str:
        return f"{self.topic_partition.topic}-{self.topic_partition.partition}"
