"""`Partition`: a replica with its role: a leader that appends and tracks its followers, or a follower that fetches.

    created ──become──► follower ⇄ leader ──resign──► no role (the topic was deleted, or the node stops)

A leader has a `LeaderState` (`follower_progress.py`), a new one in each leader epoch. A follower has none, and appends
fetched batches (`follower_log.py`). Append and read are synchronous: there is no `await` between validating a batch and
appending it, so there is no lock and no reordering. Waiting happens outside: `committed` for the high watermark,
`visible` and `tail` for growth.

Source: Kafka's `Partition`, and `UnifiedLog` for the order of the checks.
"""

from collections.abc import Callable
from typing import NamedTuple

from minikafka.broker.partitions.batch_validation import validate
from minikafka.broker.partitions.fetch_result import NO_EPOCH, Fetcher, FetchResult
from minikafka.broker.partitions.fetch_sessions import CachedPartition
from minikafka.broker.partitions.follower_log import append_fetched, truncation_offset
from minikafka.broker.partitions.follower_progress import IsrProposal, LeaderState, ReplicaEnvironment
from minikafka.broker.partitions.replica import UNKNOWN_BYTES, Replica
from minikafka.broker.partitions.request_waiters import CommitWaiters
from minikafka.broker.partitions.verification import Verification, Verifications
from minikafka.controller.metadata.image import PartitionState
from minikafka.protocol.errors import (
    KafkaError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, batches
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.producer_state import Duplicate, Origin
from minikafka.storage.waits import in_task

ALL = -1
"""`acks=all`: all in-sync replicas must have the batch."""
SINGLE_NODE = ReplicaEnvironment()


class AppendResult(NamedTuple):
    """The offsets of an appended batch.

    `append_time_ms` is -1 unless the topic uses LogAppendTime, or the batch is a duplicate (then the first one's time).
    `flush_due`: whether `flush.messages` requires a flush before the acknowledgement; see `Partition.flushed`.
    `leadership_term`: the term of this node's leadership in which the batch was appended, for `Partition.committed`.
    """

    first_offset: int
    last_offset: int
    append_time_ms: int
    leadership_term: int
    flush_due: bool = False


class Partition(Replica):
    """The replica of a partition on this node, with its role.

    Args:
        high_watermark: The high watermark in the checkpoint; by default the log start offset.
        environment: The other brokers, and the clock for their lag.

    Attributes:
        leader_state: The leader's view of its followers; None unless this node leads.
        isr_change_wanted: Called when the ISR may have to change.
    """

    def __init__(
        self,
        node_id: int,
        topic_id: bytes,
        topic_partition: TopicPartition,
        log: Log,
        *,
        high_watermark: int | None = None,
        environment: ReplicaEnvironment = SINGLE_NODE,
    ) -> None:
        super().__init__(node_id, topic_id, topic_partition, log, high_watermark)
        self.leader_state: LeaderState | None = None
        self.isr_change_wanted: Callable[[Partition], None] = lambda partition: None
        self._environment = environment
        self._deletions = CommitWaiters()
        self._verifications = Verifications()
        self._resigned_with: type[KafkaError] = NotLeaderOrFollowerError
        self._leadership_term = 0
        log.on_flushed = self._log_flushed

    # -- leadership ----------------------------------------------------------------------------------------------

    def become(self, state: PartitionState) -> bool:
        """Apply the partition's state in the metadata.

        A new leader epoch starts at the log end offset, which is recorded at the election, not with the first record
        (KAFKA-7415). The high watermark stays: it advances when the followers have fetched from this leader, and, if
        `flush.messages` requires a flush, when the log is flushed.

        Returns:
            Whether leader or epoch changed.
        """
        if state.leader_epoch < self.leader_epoch:
            return False
        if state.leader_epoch == self.leader_epoch and state.leader == self.leader_id:
            if self.leader_state is not None:
                self.leader_state.adopt(state, now_ms := self._environment.steady_ms())
                if self.leader_state.any_may_enter_isr(self.log.end_offset, self.high_watermark, now_ms):
                    self.isr_change_wanted(self)  # A follower caught up while another change was pending.
                self._isr_changed()
            return False
        if self.is_leader and state.leader != self._node_id:
            self._leadership_term += 1
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.leader_state = None
        self._verifications.clear()
        if self.is_leader:
            end = self.log.end_offset
            self.log.epochs.assign(state.leader_epoch, end)
            self.leader_state = LeaderState(
                self._node_id, state, epoch_start_offset=end, environment=self._environment
            )
            self._advance()
        self._wake_all()
        self._deletions.wake()
        return True

    def resign(self, error: type[KafkaError] = NotLeaderOrFollowerError) -> None:
        """Give up the role: the replica is removed or the node stops. Waiting tasks fail with the error."""
        self._resigned_with, self.leader_id = error, -1
        self.leader_state = None
        self._leadership_term += 1
        self._wake_all()
        self._deletions.wake()

    def configure(self, config: LogConfig) -> None:
        """Apply changed topic settings; a lower `min.insync.replicas` may advance the high watermark."""
        super().configure(config)
        if self.leader_state is not None:
            self._isr_changed()

    # -- append -------------------------------------------------------------------------------------------------

    def append(
        self,
        batch: Batch,
        *,
        now_ms: int,
        acks: int = 1,
        verification: Verification | None = None,
        validated: bool = False,
    ) -> AppendResult:
        """Validate and append a produced batch.

        Args:
            batch: From `produced_batch`, in a writable buffer.
            now_ms: The node's wall clock.
            acks: From the request; -1 requires `min.insync.replicas`.
            verification: The token from `begin_verification`, for the first batch of a transaction.
            validated: Whether `LargeBatches` has validated the batch.

        Raises:
            KafkaError: As in Kafka; nothing was appended.
            RejectedRecords: Single records are invalid; nothing was appended.
            LargeBatch: The batch takes long to validate; use `LargeBatches`, and append the result.
        """
        self.check_leader()
        if acks == ALL and self.is_under_min_isr:
            raise NotEnoughReplicasError(self._not_enough_replicas())
        if not validated:
            batch = validate(batch, self.rules, now_ms)
        stamped = now_ms if self.rules.log_append_time else -1
        if batch.is_transactional:
            return self._append_in_transaction(batch, stamped, verification)
        if batch.producer_id >= 0:
            known = self.log.producers.check(batch, Origin.CLIENT)
            if known is not None:
                return self._appended_before(known)
        return self._write(batch, stamped)

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epoch: bool = False
    ) -> Verification | None:
        """Return the token to append a transactional batch with; None if its transaction is open here. The token is
        valid once the transaction coordinator has confirmed that the partition belongs to the transaction.

        Raises:
            NotLeaderOrFollowerError, InvalidProducerEpochError: This node does not lead, or knows a later epoch.
        """
        self.check_leader()
        return self._verifications.begin(self.log.producers, producer_id, epoch, sequence, bumps_epoch=bumps_epoch)

    def _append_in_transaction(self, batch: Batch, stamped: int, verification: Verification | None) -> AppendResult:
        producers = self.log.producers
        known = producers.find_duplicate(batch)
        if known is not None:
            return self._appended_before(known)
        self._verifications.check(producers, batch, verification)
        self._verifications.check_sequence(producers, batch)
        known = producers.check(batch, Origin.CLIENT)
        if known is not None:
            return self._appended_before(known)
        written = self._write(batch, stamped)
        self._verifications.used(batch.producer_id)
        return written

    def _appended_before(self, known: Duplicate) -> AppendResult:
        """Return the offsets of a duplicate batch: the first one may not be flushed yet, or be lost with the disk."""
        log = self.log
        if log.failure is not None:
            raise log.guard.offline()
        term = self._leadership_term
        return AppendResult(known.first_offset, known.last_offset, known.timestamp, term, log.flush_due)

    def append_internal(
        self, data: bytearray, *, verification: object | None = None, transaction_version: int = 0
    ) -> AppendResult:
        """Append a batch of the node itself (coordinator records, a transaction marker), with acks=all.

        Args:
            verification: As in `append`, for records of a coordinator that belong to a producer's transaction.
            transaction_version: The version of the transaction that a marker ends.
        """
        self.check_leader()
        if self.is_under_min_isr:
            raise NotEnoughReplicasError(self._not_enough_replicas())
        (batch,) = batches(memoryview(data))
        if batch.producer_id < 0:
            return self._write(batch, -1)
        producers = self.log.producers
        if batch.is_transactional and not batch.is_control:
            self._verifications.check(producers, batch, verification)
        producers.check(batch, Origin.COORDINATOR, transaction_version=transaction_version)
        written = self._write(batch, -1)
        if batch.is_control:
            self._verifications.end(batch.producer_id, batch.producer_epoch)
        else:
            self._verifications.used(batch.producer_id)
        return written

    def _write(self, batch: Batch, stamped: int) -> AppendResult:
        leader_state = self.leader_state
        if leader_state is not None and leader_state.followers:
            leader_state.before_append(self.log.end_offset, self._environment.steady_ms())
        appended = self.log.append(batch.data, [batch], leader_epoch=self.leader_epoch)
        if leader_state is not None and leader_state.followers:
            self.tail.grew(batch.size_bytes)
            self._advance()
        elif not appended.flush_due:
            self._move_high_watermark(self.log.end_offset, batch.size_bytes)
        self.traffic.appended(batch.size_bytes, batch.record_count)
        first, last, term = appended.first_offset, appended.last_offset, self._leadership_term
        return AppendResult(first, last, stamped, term, appended.flush_due)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the ISR is smaller than `min.insync.replicas`."""
        leader_state = self.leader_state
        if leader_state is None:
            return False
        return len(leader_state.isr) < leader_state.min_isr(self.log.config.min_insync_replicas)

    def _not_enough_replicas(self) -> str:
        isr = () if self.leader_state is None else self.leader_state.isr
        return (
            f"The size of the current ISR {list(isr)} is insufficient to satisfy the min.isr requirement of "
            f"{self.log.config.min_insync_replicas} for partition {self}"
        )

    async def flushed(self) -> None:
        """Flush the log to the device up to its current end; concurrent callers share the next sync.

        A flush that has begun is completed even if the caller is cancelled, and moves the high watermark.

        Raises:
            KafkaStorageError: The device failed, and the log is offline.
        """
        await in_task()
        await self._flush.until(self.log.end_offset)

    def _log_flushed(self) -> None:
        if self.leader_state is not None:
            self._advance()

    async def committed(self, offset: int, leadership_term: int | None = None) -> None:
        """Wait until `is_committed`, by default in this term, and flush if `flush.messages` requires it.

        Raises:
            KafkaStorageError: The flush failed, and the log is offline.
            KafkaError: As `is_committed`.
        """
        leadership_term = self._leadership_term if leadership_term is None else leadership_term
        if not self.is_committed(offset, leadership_term):
            await in_task()  # It may be committed meanwhile.
        while not self.is_committed(offset, leadership_term):
            if self.log.flush_due and offset > self.log.recovery_point:
                await self._flush.until(offset)
            else:
                await self._commits.until(offset)

    def is_committed(self, offset: int, leadership_term: int | None = None) -> bool:
        """Whether everything below `offset` is committed.

        Args:
            leadership_term: From `AppendResult`: records of an earlier term may be truncated. None skips the check.

        Raises:
            NotLeaderOrFollowerError: Leadership ended since the append.
            NotEnoughReplicasAfterAppendError: They are committed, but the ISR is smaller than `min.insync.replicas`.
        """
        if leadership_term is not None and self._leadership_term != leadership_term:
            raise self._resigned_with(f"leadership of {self} ended before offset {offset} was committed")
        if self.high_watermark < offset:
            return False
        leader_state = self.leader_state
        needed = self.log.config.min_insync_replicas
        if leader_state and leader_state.followers and len(leader_state.maximal_isr) < leader_state.min_isr(needed):
            raise NotEnoughReplicasAfterAppendError(self._not_enough_replicas())
        return True

    # -- followers ------------------------------------------------------------------------------------------

    def read_for_follower(
        self, fetcher: Fetcher, asked: CachedPartition, max_bytes: int, *, at_least_one_batch: bool
    ) -> FetchResult:
        """Read records for a follower, up to the log end. The first read of a request updates the follower's progress.

        Raises:
            NotLeaderOrFollowerError: This node does not lead, the fetch is from an earlier incarnation of the broker,
                or the sender is not a replica and sent no leader epoch (CVE-2018-1288).
            UnknownLeaderEpochError: The sender is not a replica in the metadata of this leader.
            OffsetOutOfRangeError, FencedLeaderEpochError: See `read`.
        """
        node_id, broker_epoch, offset = fetcher.replica_id, fetcher.broker_epoch, asked.fetch_offset
        self.check_leader(asked.current_leader_epoch)
        follower = None if self.leader_state is None else self.leader_state.followers.get(node_id)
        if self.leader_state is None or follower is None:
            kind = NotLeaderOrFollowerError if asked.current_leader_epoch == NO_EPOCH else UnknownLeaderEpochError
            raise kind(f"node {node_id} is not a follower of {self}")
        if self.leader_state.is_stale(node_id, broker_epoch):
            raise NotLeaderOrFollowerError(f"node {node_id} has registered again since it fetched {self}")
        found = self._read(offset, max_bytes, self.log.end_offset, asked.last_fetched_epoch, at_least_one_batch)
        if fetcher.first_read and found.diverging is None:
            follower.fetched(
                offset,
                log_start_offset=asked.log_start_offset,
                leader_end_offset=self.log.end_offset,
                now_ms=(now_ms := self._environment.steady_ms()),
                broker_epoch=broker_epoch,
            )
            self._deletions.advanced(self.low_watermark)
            if self.leader_state.may_enter_isr(follower, self.log.end_offset, self.high_watermark, now_ms):
                self.isr_change_wanted(self)
            self._advance()
            found.high_watermark = self.high_watermark
        return found

    def delete_records(self, before_offset: int) -> int:
        """Advance the log start offset (KIP-107); -1 means the high watermark. Followers receive it with a fetch.

        Returns: The log start offset, which never decreases.

        Raises:
            OffsetOutOfRangeError: The offset is above the high watermark, or negative.
        """
        self.check_leader()
        target = self.high_watermark if before_offset == -1 else before_offset
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRangeError(f"cannot delete to {target}: {self} is committed up to {self.high_watermark}")
        if self.log.advance_start_offset(target):
            self.tail.wake()
            self.visible.grew(0)
        return self.log.start_offset

    async def deleted(self, before_offset: int) -> None:
        """Wait until all live replicas have deleted the records before `before_offset`.

        Raises:
            NotLeaderOrFollowerError: Leadership ended first.
        """
        leadership_term = self._leadership_term
        while self.low_watermark < before_offset:
            await self._deletions.until(before_offset)
            if self._leadership_term != leadership_term:
                raise self._resigned_with(f"leadership of {self} ended before the followers had deleted")

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of the live replicas, as far as the leader knows."""
        start = self.log.start_offset
        return start if self.leader_state is None else self.leader_state.low_watermark(start)

    def check_caught_up(self) -> None:
        """Check that the high watermark has reached the start of this leader epoch (KIP-207). Before that it may lag
        behind the records that consumers have seen, and the end offset for consumers is not known.

        Raises:
            OffsetNotAvailableError: The high watermark is lower.
        """
        if self.leader_state is not None and self.leader_state.epoch_start_offset > self.high_watermark:
            raise OffsetNotAvailableError(
                f"The high watermark of {self} is lagging behind the start offset from the beginning of this epoch."
            )

    def propose_isr_change(self, *, may_shrink: bool = True) -> IsrProposal | None:
        """Propose the ISR change that is due, if any. It is pending until `become` or `isr_change_rejected`."""
        if self.leader_state is None:
            return None
        now_ms = self._environment.steady_ms()
        return self.leader_state.propose(self.log.end_offset, self.high_watermark, now_ms, may_shrink=may_shrink)

    def isr_change_rejected(self, proposal: IsrProposal) -> None:
        """Drop a proposal that the controller rejected."""
        if self.leader_state is not None:
            self.leader_state.reject(proposal)
            self._isr_changed()

    def _advance(self) -> None:
        leader_state = self.leader_state
        assert leader_state is not None, "only a leader advances the high watermark by itself"
        end = self.log.end_offset
        committable_offset = leader_state.committable_offset(
            end, self.log.config.min_insync_replicas, self._environment.steady_ms()
        )
        if committable_offset is not None:
            if self.log.flush_due:
                committable_offset = min(committable_offset, self.log.recovery_point)
            self._move_high_watermark(committable_offset, UNKNOWN_BYTES)

    def _isr_changed(self) -> None:
        """Advance the high watermark after a change of the ISR, without waiting for a fetch (KAFKA-13091)."""
        self._advance()
        self._commits.wake()

    # -- following -----------------------------------------------------------------------------------------------

    def append_fetched(
        self, data: memoryview, *, leader_epoch: int, high_watermark: int, log_start_offset: int
    ) -> int:
        """Append a part of the leader's response at the end of this log, in `leader_epoch`; returns the appended bytes.

        The high watermark follows the leader's up to the end of this log; the log start offset follows the leader's.

        Raises:
            NotLeaderOrFollowerError: This node does not follow in this epoch.
            CorruptRecords: A batch is corrupt; the batches before it are appended.
            KafkaError: The log is offline.
        """
        self._check_following(leader_epoch)
        size_bytes = append_fetched(self.log, data, leader_epoch=leader_epoch, leader_start_offset=log_start_offset)
        self.tail.grew(size_bytes)
        self.traffic.followed_bytes_in += size_bytes
        self._move_high_watermark(min(high_watermark, self.log.end_offset), UNKNOWN_BYTES)
        new_start = min(log_start_offset, self.high_watermark)
        if new_start > self.log.start_offset:
            self.log.advance_start_offset(new_start)
            self.visible.grew(0)
        return size_bytes

    def truncate(self, epoch: int, end_offset: int, *, leader_epoch: int) -> None:
        """Truncate where this log diverges: `epoch`, the leader's largest epoch up to this log's, ends at `end_offset`.

        Raises: As `append_fetched`.
        """
        self.truncate_to(truncation_offset(self.log, epoch, end_offset), leader_epoch=leader_epoch)

    def truncate_to(self, offset: int, *, leader_epoch: int) -> None:
        """Remove all records from `offset` on; raises as `append_fetched`."""
        self._check_following(leader_epoch)
        self.log.truncate_to(offset)
        self.visible.grew(0)
        self.high_watermark = max(min(self.high_watermark, self.log.end_offset), self.log.start_offset)
        self.log.high_watermark_advanced(self.high_watermark)

    def truncate_fully_and_start_at(self, offset: int, *, leader_epoch: int) -> None:
        """Remove all records and restart the log at `offset`, the leader's log start; raises as `append_fetched`."""
        self._check_following(leader_epoch)
        self.log.truncate_fully_and_start_at(offset)
        self.high_watermark = offset

    def _check_following(self, leader_epoch: int) -> None:
        if self.is_leader or leader_epoch != self.leader_epoch:
            raise NotLeaderOrFollowerError(f"{self} does not follow in epoch {leader_epoch}")
