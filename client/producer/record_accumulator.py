"""Buffers a producer's records in batches per partition, and decides whether a batch that was refused is retried,
fails, or begins a new epoch. Pure.

The states of a batch: *open* (accepts records) → *queued* (full, or `linger_ms` has passed) → *in flight* → done, or
back to *queued* for a retry. A `Lane` is the queue of one partition's batches. Batches of a lane are always sent in the
order in which they were opened. Times are seconds on the caller's clock.

Idempotence. A batch gets its sequence numbers when it is first sent, and keeps them in every retry. While a batch is
being retried nothing else of its lane is in flight. If the broker reports a gap before the oldest batch of a lane, or
has lost the producer's state, the lane waits until nothing is in flight, bumps the producer epoch and renumbers all
waiting batches from 0 (KIP-360). It must wait because a batch whose result is unknown may have been appended, and the
broker could not detect the duplicate under new numbers. The first batch of an epoch is sent alone: a broker without
state for the producer accepts any first sequence number, and would accept the second batch if the first one failed.

A request whose connection was lost may reach the broker late, even after a retry on another connection. If an older
batch has failed with such a lost request, its records may still fill the gap before a retried batch, and the retried
batch's own lost request may follow. Therefore the retried batch keeps its numbers until it is delivered or expires.
Kafka's Java producer renumbers the batch, which may then be appended twice. Batches that were never sent are
renumbered: the first of them fences late requests.

In a transaction neither order nor gaps are at risk, since a failure aborts the transaction: the first batch is not sent
alone. An open batch accepts records while another batch of its lane is in flight, whatever `linger_ms`: no reader waits
for the batch before the commit, which sends it at once. The first batch, and the next batch after a response, are sent
only after one more round of the event loop, so that they contain more than the records between two checkpoints.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.options import ProducerOptions
from minikafka.client.producer.interception import tells_application
from minikafka.client.producer.producer_batch import BATCH_OVERHEAD_BYTES, SEQUENCE_COUNT, NotEncoded, PendingBatch
from minikafka.client.producer.transaction_state import TransactionState
from minikafka.protocol.counted import counted
from minikafka.protocol.errors import (
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    KafkaError,
    MessageTooLargeError,
    NetworkError,
    OutOfOrderSequenceNumberError,
    RequestTimedOutError,
    UnknownProducerIdError,
)

_EPOCH_MAX = (1 << 15) - 1
_LOST_STATE = (OutOfOrderSequenceNumberError, UnknownProducerIdError, InvalidProducerEpochError)


@dataclass(slots=True)
class ProducerIdentity:
    """The producer id and epoch of an idempotent producer."""

    producer_id: int
    epoch: int


class Lane:
    """One partition's batches, oldest first."""

    __slots__ = (
        "established", "identity", "in_flight", "leader", "next_sequence", "open", "partition", "queue",
        "reset_wanted", "topic", "unresolved",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.open: PendingBatch | None = None
        self.queue: deque[PendingBatch] = deque()
        self.in_flight: list[PendingBatch] = []
        self.leader = -1  # The broker to which the batches in flight were sent.
        self.identity: ProducerIdentity | None = None
        self.next_sequence = 0
        self.reset_wanted = False
        self.established = False
        self.unresolved: tuple[int, ...] = ()  # The newest failed batch with a request that may arrive late.

    @property
    def is_empty(self) -> bool:
        return self.open is None and not self.queue and not self.in_flight

    def close_open(self) -> None:
        """Queue the open batch, which accepts no more records."""
        if self.open is not None:
            self.queue.append(self.open)
            self.open = None

    def put_back(self, batch: PendingBatch) -> None:
        """Queue a batch again, in its original position."""
        position = bisect.bisect([one.number for one in self.queue], batch.number)
        self.queue.insert(position, batch)

    def may_arrive_late(self, batch: PendingBatch) -> bool:
        """Whether lost requests of this batch and of an older one may still be appended under their old numbers."""
        return batch.lost and () < self.unresolved < batch.number

    def oldest_unfinished(self) -> PendingBatch | None:
        """The batch that expires first, or None. Failed batches that are still in flight are skipped."""
        first = self.queue[0] if self.queue else self.open
        for one in self.in_flight:
            if not one.done and (first is None or one.number < first.number):
                first = one
        return first

    def has_earlier(self, batch: PendingBatch) -> bool:
        """Whether an older batch of this lane is not done."""
        return any(one.number < batch.number for one in (*self.queue, *self.in_flight))


class Accumulator:
    """The lanes of all partitions (Kafka's `RecordAccumulator`).

    Attributes:
        used_bytes: the part of `buffer_memory` used by batches that are not done.
        identity: the producer id and epoch, set before the first `collect` of an idempotent producer; None: the
            sender must request them.
        flushing: whether open batches are sent without lingering, for a flush or because memory is short.
        fills_open: whether open batches are not sent yet, unless `flushing`; this does not affect `next_time`.
        why: returns why a batch is not delivered, for its error message.
        check_home: raises RuntimeError in another loop, thread or process, where a wait for a batch would never end.
        transaction: the state of a transactional producer, else None; it decides which batches may be sent, and is
            notified of batches that fail.
    """

    def __init__(self, options: ProducerOptions, backoff: Backoff) -> None:
        self.used_bytes = 0
        self.identity: ProducerIdentity | None = None
        self.flushing = False
        self.fills_open = False
        self.transaction: TransactionState | None = None
        self.check_home: Callable[[], None] = lambda: None
        self.why: Callable[[PendingBatch], str] = lambda batch: str(batch.last_error or "no response")
        self.lanes: dict[tuple[str, int], Lane] = {}
        self._options = options
        self._batch_size = options.batch_size
        self._linger_s = options.linger_ms / 1000
        self._backoff = backoff
        self._active: dict[Lane, None] = {}
        self._opened = 0

    def lane(self, topic: str, partition: int) -> Lane:
        """The lane of a partition, created on first use."""
        lane = self.lanes.get((topic, partition))
        if lane is None:
            lane = self.lanes[topic, partition] = Lane(topic, partition)
        return lane

    def open_batch(self, lane: Lane, now: float) -> PendingBatch:
        """Open a batch for a lane that has no open batch."""
        self._opened += 1
        batch = PendingBatch(lane.topic, lane.partition, (self._opened,), now)
        batch.check_home = self.check_home
        batch.deadline = now + self._options.delivery_timeout_ms / 1000
        self.used_bytes += batch.size_bytes
        lane.open = batch
        self._active[lane] = None
        return batch

    def batch_for(self, lane: Lane, size_bytes: int, now: float) -> PendingBatch:
        """The open batch for one more record of `size_bytes`, whose size is added to the batch."""
        batch = lane.open
        if batch is not None and batch.size_bytes + size_bytes > self._batch_size:
            lane.close_open()
            batch = None
        if batch is None:
            batch = self.open_batch(lane, now)
        batch.size_bytes += size_bytes
        self.used_bytes += size_bytes
        return batch

    def collect(
        self, now: float, leader_of: Callable[[str, int], int], can_send: Callable[[int], bool]
    ) -> dict[int, list[PendingBatch]]:
        """Batches to send now, by leader: at most one per lane, and `max_request_size` per leader (or one batch).

        The batches get their sequence numbers and count as in flight from now on.
        """
        requests: dict[int, list[PendingBatch]] = {}
        sizes: dict[int, int] = {}
        transaction = self.transaction
        for lane in list(self._active):
            batch = self._next(lane, now)
            if batch is None or (transaction and not transaction.may_send(lane.topic, lane.partition)):
                continue
            leader = leader_of(lane.topic, lane.partition)
            if lane.in_flight and leader != lane.leader:
                continue  # Keep the order: the old leader may still append the batches in flight.
            size = sizes.get(leader, 0) + batch.size_bytes
            if leader < 0 or not can_send(leader) or (sizes.get(leader) and size > self._options.max_request_size):
                continue
            self._send(lane, batch)
            lane.leader = leader
            sizes[leader] = size
            requests.setdefault(leader, []).append(batch)
        return requests

    def _next(self, lane: Lane, now: float) -> PendingBatch | None:
        """The batch that a lane can send now, or None."""
        if not lane.queue and lane.open is not None and lane.open.values and self._is_due(lane, lane.open, now):
            lane.close_open()
        unsent = not any(one.base_sequence >= 0 for one in lane.queue) if lane.unresolved else False
        if (lane.reset_wanted or unsent) and not lane.in_flight:
            self._restart(lane)
        if not lane.queue or lane.reset_wanted or (self._options.enable_idempotence and self.identity is None):
            return None
        batch = lane.queue[0]
        alone = batch.attempts > 0 or any(one.attempts > 1 for one in lane.in_flight)
        alone = alone or (self._options.enable_idempotence and not lane.established and self.transaction is None)
        if batch.not_before > now or (alone and lane.in_flight):
            return None
        return batch

    def _is_due(self, lane: Lane, batch: PendingBatch, now: float) -> bool:
        if self.flushing:
            return True
        if self.fills_open or (self.transaction is not None and lane.in_flight):
            return False  # Nobody reads the batch before the commit, which sends it; fewer, larger batches cost less.
        return now >= batch.opened_at + self._linger_s  # as in `next_time`, to the last bit

    def _send(self, lane: Lane, batch: PendingBatch) -> None:
        lane.queue.popleft()
        lane.in_flight.append(batch)
        del self._active[lane]
        self._active[lane] = None  # Move the lane to the end, so that others are served first.
        batch.attempts += 1
        if self.transaction is not None:
            self.transaction.started = True
        if self._options.enable_idempotence and batch.base_sequence < 0:
            lane.identity = lane.identity or self.identity
            assert lane.identity is not None
            batch.base_sequence = lane.next_sequence
            batch.producer_id, batch.producer_epoch = lane.identity.producer_id, lane.identity.epoch
            batch.transactional = self.transaction is not None
            lane.next_sequence = (lane.next_sequence + len(batch.values)) % SEQUENCE_COUNT

    def _restart(self, lane: Lane) -> None:
        """Renumber all waiting batches from 0 in a new epoch (KIP-360)."""
        lane.reset_wanted = False
        if self.identity is not None:
            if self.identity.epoch < _EPOCH_MAX:
                self.identity = ProducerIdentity(self.identity.producer_id, self.identity.epoch + 1)
            else:
                self.identity = None  # The sender requests a new producer id.
        lane.identity = None
        lane.established = False
        lane.unresolved = ()
        lane.next_sequence = 0
        for batch in lane.queue:
            batch.base_sequence = -1
            batch.lost = False

    def succeeded(self, batch: PendingBatch, base_offset: int, append_time: int = -1) -> None:
        """Handle a batch that the broker has appended."""
        lane = self._remove_in_flight(batch)
        lane.established = lane.identity is not None and batch.producer_epoch == lane.identity.epoch
        if batch.number > lane.unresolved:
            lane.unresolved = ()
        if not batch.done:
            self._finish(batch)
            batch.succeed(base_offset, append_time)

    def failed(self, batch: PendingBatch, error: KafkaError, now: float, *, pause: bool = True) -> None:
        """Handle a batch that the broker rejected, or whose result is unknown: retry it or fail it.

        `pause`: back off before the retry; not needed if the response named a new leader.
        """
        lane = self._remove_in_flight(batch)
        batch.lost = batch.lost or isinstance(error, NetworkError)
        if batch.done:
            self._note_unresolved(lane, batch)
            return
        if isinstance(error, DuplicateSequenceNumberError):
            self._finish(batch)
            batch.succeed(-1, -1)
        elif isinstance(error, MessageTooLargeError | NotEncoded) and len(batch.values) > 1:
            self._split(lane, batch)
        elif self._may_retry(lane, batch, error) and batch.attempts <= self._options.retries:
            batch.last_error = error
            batch.not_before = now + self._backoff.delay_ms(batch.attempts - 1) / 1000 if pause else now
            lane.put_back(batch)
        else:
            self._fail_batch(batch, error)

    def _may_retry(self, lane: Lane, batch: PendingBatch, error: KafkaError) -> bool:
        if self.transaction is not None:
            follows = isinstance(error, OutOfOrderSequenceNumberError) and lane.has_earlier(batch)
            return self.transaction.sends and (follows or error.retriable)
        if self._options.enable_idempotence and isinstance(error, _LOST_STATE):
            if isinstance(error, InvalidProducerEpochError):
                self.identity = None
                lane.reset_wanted = True
            elif isinstance(error, UnknownProducerIdError) or not (
                lane.has_earlier(batch) or lane.may_arrive_late(batch)
            ):
                lane.reset_wanted = True
            return True
        return error.retriable

    def _fail_batch(self, batch: PendingBatch, error: KafkaError) -> None:
        """Fail a batch. If the broker misses its sequence numbers, the next batch's error resets the lane.

        The error is logged when all deliveries are deleted, unless a delivery or callback has shown it.
        """
        self._note_unresolved(self.lanes[batch.topic, batch.partition], batch)
        self._finish(batch)
        if self.transaction is not None:
            error = self.transaction.batch_failed(error)
        batch.untold = sum(tells_application(one) for _, one in batch.callbacks) < len(batch.values)
        batch.fail(error)

    def _note_unresolved(self, lane: Lane, batch: PendingBatch) -> None:
        if batch.lost and self._options.enable_idempotence and self.transaction is None:
            lane.unresolved = max(lane.unresolved, batch.number)

    def _split(self, lane: Lane, batch: PendingBatch) -> None:
        """Queue two halves in place of a batch that is too large for the broker."""
        for half in reversed(batch.split()):
            lane.put_back(half)
        self.used_bytes += BATCH_OVERHEAD_BYTES

    def _remove_in_flight(self, batch: PendingBatch) -> Lane:
        lane = self.lanes[batch.topic, batch.partition]
        lane.in_flight.remove(batch)
        return lane

    def _finish(self, batch: PendingBatch) -> None:
        self.used_bytes -= batch.size_bytes
        lane = self.lanes[batch.topic, batch.partition]
        if lane.is_empty:
            self._active.pop(lane, None)

    def expire(self, now: float) -> list[PendingBatch]:
        """Fail batches that are older than `delivery_timeout_ms`; batches in flight remain so until their response.

        Returns the failed batches.
        """
        expired: list[PendingBatch] = []
        for lane in list(self._active):
            if lane.open is not None and lane.open.deadline <= now:
                lane.close_open()
            for batch in [one for one in lane.queue if one.deadline <= now]:
                lane.queue.remove(batch)
                self._fail_batch(batch, self._timed_out(batch))
                expired.append(batch)
            for batch in lane.in_flight:
                if batch.deadline <= now and not batch.done:
                    self._fail_batch(batch, self._timed_out(batch))
                    expired.append(batch)
        return expired

    def _timed_out(self, batch: PendingBatch) -> KafkaError:
        return RequestTimedOutError(
            f"{counted(len(batch.values), 'record')} for {batch.topic}-{batch.partition} not delivered within"
            f" {self._options.delivery_timeout_ms} ms (delivery_timeout_ms), after"
            f" {counted(batch.attempts, 'attempt')}: {self.why(batch)}"
        )

    def fail_all(self, error: KafkaError) -> None:
        """Fail all batches."""
        for batch in list(self.unfinished()):
            if not batch.done:
                self._note_unresolved(self.lanes[batch.topic, batch.partition], batch)
                self.used_bytes -= batch.size_bytes
                batch.fail(error)
        for lane in self._active:
            lane.open = None
            lane.queue.clear()
        self._active.clear()

    def drop_waiting(self, error: KafkaError) -> None:
        """Fail the batches that are not in flight, because their transaction is aborted."""
        for lane in list(self._active):
            lane.close_open()
            while lane.queue:
                batch = lane.queue.popleft()
                if batch.base_sequence >= 0 and self.transaction is not None:
                    self.transaction.bump_wanted = True  # The leader may have appended it, or misses its numbers.
                self._finish(batch)
                batch.fail(error)

    def renew(self, identity: ProducerIdentity) -> None:
        """Use a new producer id or epoch, whose sequence numbers begin at 0. No batch may be unfinished."""
        self.identity = identity
        for lane in self.lanes.values():
            lane.identity = None
            lane.established = False
            lane.unresolved = ()
            lane.next_sequence = 0

    def has_in_flight(self) -> bool:
        """Whether a request has no response yet, even if its batches have failed meanwhile."""
        return any(lane.in_flight for lane in self._active)

    def unfinished(self) -> Iterator[PendingBatch]:
        """All batches that are not done, including open ones."""
        for lane in self._active:
            yield from (one for one in lane.in_flight if not one.done)
            yield from lane.queue
            if lane.open is not None:
                yield lane.open

    def next_time(self, now: float) -> float:
        """The time at which to call `collect` and `expire` next, if no event occurs before.

        Batches that are due already are not considered: they wait for a response, a leader or a connection.
        """
        times: list[float] = []
        for lane in self._active:
            if lane.open is not None and not lane.queue:
                times.append(lane.open.opened_at + self._linger_s)
            if lane.queue:
                times.append(lane.queue[0].not_before)
            first = lane.oldest_unfinished()
            if first is not None:
                times.append(first.deadline)
        return min((time for time in times if time > now), default=float("inf"))
