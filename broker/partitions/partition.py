"""A partition on this node in its role: a leader that writes and counts its followers, or a follower that copies.

    made ──become──► follower ⇄ leader ──resign──► nobody's (the topic went, or the node stops)

A leader has `replicas`, what it knows of its followers (`replicas.py`), new with each leader epoch; a follower has
none, and appends what it fetched (`following.py`). Append and read are synchronous: between decoding a batch and having
it in the log there is no `await`, so there is no lock and no reordering. What has to wait, waits outside: `committed`
for the high watermark, `visible` and `tail` for growth.

Source: Kafka's `Partition`, and `UnifiedLog` for the order of the checks.
"""

from collections.abc import Callable
from typing import NamedTuple

from minikafka.broker.partitions.batch_validation import validate
from minikafka.broker.partitions.fetch_result import NO_EPOCH, FetchResult
from minikafka.broker.partitions.fetch_wait import CommitWaiters
from minikafka.broker.partitions.follower_log import append_fetched, point_of_divergence
from minikafka.broker.partitions.follower_progress import IsrProposal, LeaderState, ReplicaEnvironment
from minikafka.broker.partitions.replica import UNKNOWN_BYTES, Replica
from minikafka.controller.metadata.image import PartitionState
from minikafka.protocol.errors import (
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, batches
from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig
from minikafka.storage.producer_state import Origin

ALL = -1
"""`acks`: whoever produces wants all in-sync replicas to have it."""
ALONE = ReplicaEnvironment()


class AppendResult(NamedTuple):
    """Where a batch went.

    `append_time_ms` is -1 unless the log stamps its own time, or the batch is a duplicate (then that of the first).
    `flush_due`: `flush.messages` wants it on the device before it is acknowledged; see `Partition.flushed`.
    `leadership_term` is the time of leadership in which it was written, for `Partition.committed`.
    """

    first_offset: int
    last_offset: int
    append_time_ms: int
    leadership_term: int
    flush_due: bool = False


class Partition(Replica):
    """A partition's replica on this node, with the role that it has.

    Args:
        high_watermark: As it was checkpointed; the log's start where it was not.
        environment: The other brokers, and the clock by which they lag.

    Attributes:
        replicas: What a leader knows of the others; None where another node leads.
        isr_change_wanted: Called when the in-sync replicas may have to change.
    """

    def __init__(
        self,
        node_id: int,
        topic_id: bytes,
        topic_partition: TopicPartition,
        log: Log,
        *,
        high_watermark: int | None = None,
        environment: ReplicaEnvironment = ALONE,
        isr_change_wanted: Callable[["Partition"], None] = lambda partition: None,
    ) -> None:
        super().__init__(node_id, topic_id, topic_partition, log, high_watermark)
        self.leader_state: LeaderState | None = None
        self.isr_change_wanted = isr_change_wanted
        self._environment = environment
        self._deletions = CommitWaiters()
        self._leadership_term = 0

    # -- leadership ----------------------------------------------------------------------------------------------

    def become(self, state: PartitionState) -> bool:
        """Take over what the metadata says of this partition.

        A new leadership's epoch starts at the end of the log, and that is recorded on election, not with its first
        record (KAFKA-7415). The high watermark stays where it was known to be: it moves on when the followers have
        told this leader what they have.

        Returns:
            Whether leader or epoch changed.
        """
        if state.leader_epoch < self.leader_epoch:
            return False
        if state.leader_epoch == self.leader_epoch and state.leader == self.leader_id:
            if self.leader_state is not None:
                self.leader_state.adopt(state, self._environment.steady_ms())
                if self.leader_state.any_may_enter_isr(self.high_watermark):
                    self.isr_change_wanted(self)  # It caught up while another change was pending.
                self._settle()
            return False
        if self.is_leader and state.leader != self._node_id:
            self._leadership_term += 1
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.leader_state = None
        if self.is_leader:
            end = self.log.end_offset
            self.log.epochs.assign(state.leader_epoch, end)
            self.leader_state = LeaderState(
                self._node_id, state, epoch_start_offset=end, environment=self._environment
            )
            self._advance()
        self._wake_everybody()
        self._deletions.wake()
        return True

    def resign(self) -> None:
        """The topic went, or the node stops: nobody may write or wait here any longer."""
        self.leader_id = -1
        self.leader_state = None
        self._leadership_term += 1
        self._wake_everybody()
        self._deletions.wake()

    def configure(self, config: LogConfig) -> None:
        """New settings of the topic take hold; fewer replicas may be enough from now on."""
        super().configure(config)
        if self.leader_state is not None:
            self._settle()

    # -- writing -------------------------------------------------------------------------------------------------

    def append(self, batch: Batch, *, now_ms: int, acks: int = 1) -> AppendResult:
        """Check and write what a client produced.

        Args:
            batch: As `produced_batch` found it, in a writable buffer.
            now_ms: The node's clock.
            acks: As in the request; -1 wants enough replicas in sync.

        Raises:
            KafkaError: As Kafka answers; nothing is written then.
            RejectedRecords: Single records were at fault; nothing is written.
        """
        self.check_leader()
        if acks == ALL and self.is_under_min_isr:
            raise NotEnoughReplicasError(self._too_few())
        batch = validate(batch, self.rules, now_ms)
        stamped = now_ms if self.rules.log_append_time else -1
        if batch.producer_id >= 0:
            known = self.log.producers.check(batch, Origin.CLIENT)
            if known is not None:
                return AppendResult(known.first_offset, known.last_offset, known.timestamp, self._leadership_term)
        return self._write(batch, stamped)

    def append_internal(self, data: bytearray, origin: Origin = Origin.COORDINATOR) -> AppendResult:
        """Write a batch of the node's own making (a coordinator's records, a transaction's marker), with acks=all."""
        self.check_leader()
        if self.is_under_min_isr:
            raise NotEnoughReplicasError(self._too_few())
        (batch,) = batches(memoryview(data))
        if batch.producer_id >= 0:
            self.log.producers.check(batch, origin)
        return self._write(batch, -1)

    def _write(self, batch: Batch, stamped: int) -> AppendResult:
        leader_state = self.leader_state
        if leader_state is not None and leader_state.followers:
            leader_state.before_append(self.log.end_offset, self._environment.steady_ms())
        appended = self.log.append(batch.data, [batch], leader_epoch=self.leader_epoch)
        if leader_state is not None and leader_state.followers:
            self.tail.grew(batch.size_bytes)
            self._advance()
        else:
            self._move_high_watermark(self.log.end_offset, batch.size_bytes)
        return AppendResult(
            appended.first_offset, appended.last_offset, stamped, self._leadership_term, appended.flush_due
        )

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer are in sync than acks=all wants (`min.insync.replicas`)."""
        leader_state = self.leader_state
        if leader_state is None:
            return False
        return len(leader_state.isr) < leader_state.min_isr(self.log.config.min_insync_replicas)

    def _too_few(self) -> str:
        isr = () if self.leader_state is None else self.leader_state.isr
        return (
            f"The size of the current ISR {list(isr)} is insufficient to satisfy the min.isr requirement of "
            f"{self.log.config.min_insync_replicas} for partition {self}"
        )

    async def flushed(self) -> None:
        """Have what is written on the device; whoever comes meanwhile shares the next sync.

        Raises:
            KafkaStorageError: The device failed. The log is offline then.
        """
        await self.log.flush_async()

    async def committed(self, offset: int, leadership_term: int | None = None) -> None:
        """Wait until `is_committed`; cancellation leaves nothing behind. `leadership_term` is now's by default."""
        leadership_term = self._leadership_term if leadership_term is None else leadership_term
        while not self.is_committed(offset, leadership_term):
            await self._commits.until(offset)

    def is_committed(self, offset: int, leadership_term: int) -> bool:
        """Whether everything below `offset` is committed.

        Args:
            leadership_term: As in `AppendResult`: what was written in an earlier one may have been cut off since.

        Raises:
            NotLeaderOrFollowerError: Leadership ended since.
            NotEnoughReplicasAfterAppendError: It is committed, but too few replicas are in sync by now.
        """
        if self._leadership_term != leadership_term:
            raise NotLeaderOrFollowerError(f"leadership of {self} ended before offset {offset} was committed")
        if self.high_watermark < offset:
            return False
        leader_state = self.leader_state
        if leader_state is not None and leader_state.followers and len(leader_state.maximal_isr) < leader_state.min_isr(
            self.log.config.min_insync_replicas
        ):
            raise NotEnoughReplicasAfterAppendError(self._too_few())
        return True

    # -- leading others ------------------------------------------------------------------------------------------

    def read_for_follower(
        self,
        node_id: int,
        offset: int,
        *,
        max_bytes: int,
        broker_epoch: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        at_least_one_batch: bool,
        first_read: bool,
    ) -> FetchResult:
        """Records for a follower, up to the end of the log; what it asks for says what it has.

        Args:
            broker_epoch: Of the follower's incarnation; -1 if it did not say.
            log_start_offset: Of the follower's log.
            first_read: Its request has just come; a second look after a wait says nothing new of the follower.

        Raises:
            NotLeaderOrFollowerError: This node does not lead, or the fetch was sent by an incarnation that is gone, or
                by somebody who is no replica and knows no epoch. Nobody is believed who merely says so (CVE-2018-1288).
            UnknownLeaderEpochError: Somebody who is no replica yet, as far as this leader knows.
            OffsetOutOfRangeError, FencedLeaderEpochError: See `read`.
        """
        self.check_leader(current_leader_epoch)
        follower = None if self.leader_state is None else self.leader_state.followers.get(node_id)
        if self.leader_state is None or follower is None:
            kind = NotLeaderOrFollowerError if current_leader_epoch == NO_EPOCH else UnknownLeaderEpochError
            raise kind(f"node {node_id} is no follower of {self}")
        if self.leader_state.is_stale(node_id, broker_epoch):
            raise NotLeaderOrFollowerError(f"node {node_id} has registered anew since it fetched {self}")
        found = self._read(offset, max_bytes, self.log.end_offset, last_fetched_epoch, at_least_one_batch)
        if first_read and found.diverging is None:
            follower.fetched(
                offset,
                log_start_offset=log_start_offset,
                leader_end_offset=self.log.end_offset,
                now_ms=self._environment.steady_ms(),
                broker_epoch=broker_epoch,
            )
            self._deletions.advanced(self.low_watermark)
            if self.leader_state.may_enter_isr(follower, self.high_watermark):
                self.isr_change_wanted(self)
            self._advance()
            found.high_watermark = self.high_watermark
        return found

    def delete_records(self, before_offset: int) -> int:
        """Move the log's start (KIP-107); -1 stands for the high watermark. The followers hear of it with their
        next fetch.

        Returns:
            The new start, which never goes back.

        Raises:
            OffsetOutOfRangeError: Past the high watermark, or negative.
        """
        self.check_leader()
        target = self.high_watermark if before_offset == -1 else before_offset
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRangeError(f"cannot delete to {target}: {self} is committed up to {self.high_watermark}")
        if self.log.advance_start_offset(target):
            self.tail.wake()
        return self.log.start_offset

    async def deleted(self, before_offset: int) -> None:
        """Wait until all live replicas have deleted everything before an offset, as `delete_records` returned it.

        Raises:
            NotLeaderOrFollowerError: Leadership ended before they had.
        """
        leadership_term = self._leadership_term
        while self.low_watermark < before_offset:
            await self._deletions.until(before_offset)
            if self._leadership_term != leadership_term:
                raise NotLeaderOrFollowerError(f"leadership of {self} ended before the followers had deleted")

    @property
    def low_watermark(self) -> int:
        """What all live replicas have deleted, as far as the leader knows."""
        start = self.log.start_offset
        return start if self.leader_state is None else self.leader_state.low_watermark(start)

    def check_caught_up(self) -> None:
        """A new leader's high watermark may lag behind what consumers have seen; until it does not, the end of the
        partition is not known (KIP-207).

        Raises:
            OffsetNotAvailableError: It lags.
        """
        if self.leader_state is not None and self.leader_state.epoch_start_offset > self.high_watermark:
            raise OffsetNotAvailableError(
                f"The high watermark of {self} is lagging behind the start offset from the beginning of this epoch."
            )

    def propose_isr_change(self) -> IsrProposal | None:
        """What the controller should be asked for now; it is pending then, until `become` or `isr_change_rejected`."""
        if self.leader_state is None:
            return None
        now_ms = self._environment.steady_ms()
        return self.leader_state.propose(self.log.end_offset, self.high_watermark, now_ms)

    def isr_change_rejected(self, proposal: IsrProposal) -> None:
        """The controller will not do what was proposed."""
        if self.leader_state is not None:
            self.leader_state.refused(proposal)
            self._settle()

    def _advance(self) -> None:
        leader_state = self.leader_state
        assert leader_state is not None, "only a leader moves its own high watermark"
        end = self.log.end_offset
        committable_offset = leader_state.committable_offset(
            end, self.log.config.min_insync_replicas, self._environment.steady_ms()
        )
        if committable_offset is not None:
            self._move_high_watermark(committable_offset, UNKNOWN_BYTES)

    def _settle(self) -> None:
        """The in-sync replicas changed: more may be committed now, with no fetch to say so (KAFKA-13091)."""
        self._advance()
        self._commits.wake()

    # -- following -----------------------------------------------------------------------------------------------

    def append_fetched(
        self, data: memoryview, *, leader_epoch: int, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Take over a leader's answer to a fetch that asked for the end of this log, in `leader_epoch`.

        The high watermark follows the leader's as far as this log goes, and the log's start the leader's.

        Returns:
            Whether `flush.messages` wants the log on the device.

        Raises:
            NotLeaderOrFollowerError: This node does not follow in this epoch, or no longer.
            CorruptRecords: What came is damaged; what came before the damage is in the log.
            KafkaError: The log is offline.
        """
        self._check_following(leader_epoch)
        flush_due = False
        if len(data):
            size_bytes, flush_due = append_fetched(self.log, data, leader_epoch=leader_epoch)
            self.tail.grew(size_bytes)
        self._move_high_watermark(min(high_watermark, self.log.end_offset), UNKNOWN_BYTES)
        new_start = min(log_start_offset, self.high_watermark)
        if new_start > self.log.start_offset:
            self.log.advance_start_offset(new_start)
        return flush_due

    def truncate(self, epoch: int, end_offset: int, *, leader_epoch: int) -> None:
        """Cut off what the leader does not have: its log's largest epoch up to this one's ends at `end_offset`.

        Raises: As `append_fetched`.
        """
        self.truncate_to(point_of_divergence(self.log, epoch, end_offset), leader_epoch=leader_epoch)

    def truncate_to(self, offset: int, *, leader_epoch: int) -> None:
        """Cut off everything from `offset` on; raises as `append_fetched`."""
        self._check_following(leader_epoch)
        self.log.truncate_to(offset)
        self.high_watermark = max(min(self.high_watermark, self.log.end_offset), self.log.start_offset)

    def truncate_fully_and_start_at(self, offset: int, *, leader_epoch: int) -> None:
        """Everything here is older than what the leader still has: begin where its log starts; raises likewise."""
        self._check_following(leader_epoch)
        self.log.truncate_fully_and_start_at(offset)
        self.high_watermark = offset

    def _check_following(self, leader_epoch: int) -> None:
        if self.is_leader or leader_epoch != self.leader_epoch:
            raise NotLeaderOrFollowerError(f"{self} does not follow in epoch {leader_epoch}")
