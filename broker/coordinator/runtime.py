"""`CoordinatorRuntime`: runs the coordinators of all partitions of an internal topic that this node leads.

    elected ─► load: replay the log ─► active: decide, append, apply, respond ─► resigned: fail waiting requests

A shard is the coordinator of one partition. Its state machine never waits; only the runtime does. There is no await
between deciding, appending and applying, so operations of a shard never interleave and need no lock. A reply is held
back until every record it depends on is committed. One task per shard fires its deadlines.

Source: Kafka's `CoordinatorRuntime`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import structlog
import trio

from minikafka.broker.coordinator.decision import Decision, Now, Producer
from minikafka.broker.coordinator.environment import Environment
from minikafka.broker.coordinator.error_mapping import coordinator_error
from minikafka.broker.coordinator.java_hash import string_hash
from minikafka.broker.coordinator.replay import ReplayedState, SkippedRecords, replay
from minikafka.broker.coordinator.shard import PendingReply, Shard, Status
from minikafka.broker.coordinator.timer import TimedState, Timer
from minikafka.controller.failures import FAILURES
from minikafka.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
    error_for,
    without_frames,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import TRANSACTIONAL, BatchHeader, encode_batch
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.record import Record
from minikafka.storage.steps import Pauses, at_once, in_steps, pause
from minikafka.storage.waits import in_task

log = structlog.get_logger("minikafka.coordinator")

NO_PRODUCER = Producer(-1, -1)
DECISIONS_AT_ONCE = 16
"""The number of decisions between two pauses; together they take about 2 ms."""
RELOAD_S_MIN, RELOAD_S_MAX = 1.0, 60.0
ROUND_UP_MS = 1e-3
"""Added before seconds are truncated to milliseconds, so that a deadline has passed when its timer fires."""


class CoordinatorState(ReplayedState, TimedState, Protocol):
    """The state machine of one shard. No method waits."""

    def encode(self, key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
        """Encode a record for the log."""
        ...

    def loaded(self, now: Now) -> Generator[Decision, None, None]:
        """Make the decisions that follow the replay of the log, before the first operation.

        Other tasks run between two decisions.
        """
        ...


R = TypeVar("R")
S = TypeVar("S", bound=CoordinatorState)


class CoordinatorRuntime(Generic[S]):
    """All shards of one kind of coordinator on this node.

    Args:
        environment: The node.
        topic: The internal topic.
        new_state: Creates the empty state of a shard, given its partition and leader epoch.
        commit_timeout_ms: How long a reply waits for its records to be committed.
        load_buffer_size: Bytes per read during loading.
        codec: Compression of batches.

    Attributes:
        skipped: Records that were skipped while partitions were loaded, since they cannot be read.
    """

    def __init__(
        self,
        environment: Environment,
        topic: str,
        new_state: Callable[[int, int], S],
        *,
        commit_timeout_ms: int,
        load_buffer_size: int,
        codec: Codec,
    ) -> None:
        self.topic = topic
        self.skipped = 0
        self._environment = environment
        self._new_state = new_state
        self._commit_timeout_ms = commit_timeout_ms
        self._load_buffer_size = load_buffer_size
        self._codec = codec
        self._shards: dict[int, Shard[S]] = {}
        self._nursery: trio.Nursery | None = None
        self._loading = trio.Lock()
        self._pauses = Pauses(DECISIONS_AT_ONCE)

    # -- life ----------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the shards until cancelled. Requests that wait at that time fail with NOT_COORDINATOR."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            for partition in list(self._shards):
                self.resigned(partition)

    def elected(self, partition: int, leader_epoch: int) -> None:
        """Load a partition whose leader this node has become. The shard of an older leader epoch is dropped."""
        known = self._shards.get(partition)
        if known is not None and known.leader_epoch >= leader_epoch:
            return
        if known is not None:
            known.close()
        self._start(partition, leader_epoch)

    def _start(self, partition: int, leader_epoch: int, delay_s: float = 0) -> None:
        assert self._nursery is not None, "elected before run"
        shard = Shard(TopicPartition(self.topic, partition), leader_epoch, self._new_state(partition, leader_epoch))
        shard.reload_delay_s = delay_s
        self._shards[partition] = shard
        self._nursery.start_soon(self._serve, shard)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """Drop the shard of a partition that this node leads no longer.

        Args:
            leader_epoch: The new leader epoch; None if unknown. An epoch older than that of the shard is ignored.
        """
        shard = self._shards.get(partition)
        if shard is not None and (leader_epoch is None or leader_epoch >= shard.leader_epoch):
            del self._shards[partition]
            shard.close()

    def partitions(self) -> Iterator[tuple[int, Status]]:
        """The partitions that this node coordinates, with their status: also those that are loading or have failed."""
        for partition, shard in sorted(self._shards.items()):
            yield partition, shard.status

    def states(self) -> Iterator[S]:
        """The state machines of the active partitions."""
        return (one.state for one in self._shards.values() if one.status is Status.ACTIVE)

    async def _serve(self, shard: Shard[S]) -> None:
        try:
            with shard.scope:
                await trio.sleep(shard.reload_delay_s)
                await self._load(shard)
                async with trio.open_nursery() as shard.tasks:
                    shard.timer = Timer(shard.state, partial(self._execute, shard), self._now, str(shard.partition))
                    shard.status = Status.ACTIVE
                    shard.active_since_s = trio.current_time()
                    shard.loaded.set()
                    await shard.timer.run()
        except Exception:
            if shard.status is Status.LOADING:
                log.exception("coordinator load failed", partition=str(shard.partition))
                shard.status = Status.FAILED
            else:
                log.exception("coordinator failed", partition=str(shard.partition))
                FAILURES["decision"] += 1
                self._reload(shard)

    def _reload(self, shard: Shard[S]) -> None:
        """Replace a shard by a new one that is loaded from the log.

        Called after a bug has left the state different from the log, or has ended a task of the shard. A shard that
        fails again soon after it was loaded is loaded after a longer delay each time.
        """
        partition = shard.partition.partition
        if self._shards.get(partition) is not shard:
            return
        delay_s = min(max(2 * shard.reload_delay_s, RELOAD_S_MIN), RELOAD_S_MAX)
        if trio.current_time() - shard.active_since_s > RELOAD_S_MAX:
            delay_s = 0
        log.error("coordinator loaded again", partition=str(shard.partition), delay_s=delay_s)
        shard.close()
        self._start(partition, shard.leader_epoch, delay_s)

    def start_soon(self, partition: int, function: Callable[..., Awaitable[None]], *args: object) -> None:
        """Start a task of an active shard. The task is cancelled when leadership ends. Called by the state machine."""
        tasks = self._shards[partition].tasks
        assert tasks is not None, "a shard that is loading starts nothing"
        tasks.start_soon(function, *args)

    def start_decisions(self, decide: Callable[[S, Now], Generator[Decision, None, None]]) -> None:
        """Start to carry out several decisions of each active shard, in a task for each shard.

        Other operations run between two decisions. The tasks are cancelled when leadership ends.
        """
        for shard in self._shards.values():
            if shard.tasks is not None and shard.timer is not None:
                shard.tasks.start_soon(shard.timer.carry_out, decide(shard.state, self._now()))

    # -- operations ----------------------------------------------------------------------------------------------

    async def submit(self, partition: int, decide: Callable[[S, Now, PendingReply], Decision]) -> Any:
        """Make a decision and return its reply once the records are committed. A later decision may provide the reply.

        Cancellation does not undo the decision; only the reply is lost.

        Raises:
            NotCoordinatorError: This node does not lead the partition, or loading it failed.
            CoordinatorLoadInProgressError: The partition is still loading.
            CoordinatorNotAvailableError: The records were not committed in time.
            KafkaError: The append failed.
        """
        await self._pauses()
        return await self.decide(partition, decide)

    async def read(self, partition: int, read: Callable[[S, Now], Generator[None, None, R]]) -> R:
        """Read a large part of the state in steps, and return the result once everything that was read is committed.

        Other operations run between two steps.

        Raises: As `submit`.
        """
        shard = self._active(partition)
        found = await in_steps(read(shard.state, self._now()))
        await self._wait_committed(shard, shard.last_offset)
        return found

    async def decide(self, partition: int, decide: Callable[[S, Now, PendingReply], Decision]) -> Any:
        """As `submit`, but without a pause for other tasks: the caller pauses by itself.

        Most decisions reply at once, and there is no checkpoint then: other tasks would run first, and with them the
        work that the decision has started, such as writing markers, before the response.
        """
        shard = self._active(partition)
        pending = PendingReply()
        self._step(shard, lambda now: decide(shard.state, now, pending))
        await shard.replied(pending)
        await self._wait_committed(shard, pending.offset)
        return pending.reply

    async def end_transaction(
        self, partition: int, marker: bytes, producer_id: int, *, committed: bool, transaction_version: int = 0
    ) -> None:
        """Append a transaction marker (a control batch), and commit or drop the transaction's records in the state.

        Returns when the marker is committed.

        Raises: As `submit`.
        """
        shard = self._active(partition)
        try:
            marker_bytes = bytearray(marker)
            shard.last_offset = self._environment.append_marker(shard.partition, marker_bytes, transaction_version)
        except KafkaError as error:
            raise error_for(coordinator_error(error), error.detail or "") from error
        offset = shard.last_offset
        try:
            await _whole(shard.state.end_transaction(producer_id, committed=committed))
        except Exception:
            self._reload(shard)
            raise
        await self._wait_committed(shard, offset)

    def is_active(self, partition: int, leader_epoch: int) -> bool:
        """Whether this node leads the partition in `leader_epoch`, and has loaded it."""
        shard = self._shards.get(partition)
        return shard is not None and shard.leader_epoch == leader_epoch and shard.status is Status.ACTIVE

    def committed_state(self, partition: int) -> S | None:
        """The state of an active shard, to be read only.

        None if this node does not lead the partition, or while records that the state depends on are not committed.
        """
        shard = self._shards.get(partition)
        if shard is None or shard.status is not Status.ACTIVE or not self._is_committed(shard, shard.last_offset):
            return None
        return shard.state

    def is_committed(self, partition: int, offset: int) -> bool:
        """Whether the record at `offset` is known to be committed. Raises NotCoordinatorError."""
        return self._is_committed(self._active(partition), offset)

    async def until_committed(self, partition: int, leader_epoch: int, offset: int) -> None:
        """Wait until the record at `offset` is committed, without a time limit.

        Raises:
            NotCoordinatorError: This node does not lead the partition in `leader_epoch` any more.
            KafkaError: An error of the log, mapped for clients; the record may be committed later.
        """
        if not self.is_committed(partition, offset):
            await in_task()
        shard = self._active(partition)
        if shard.leader_epoch != leader_epoch:
            raise NotCoordinatorError(f"{shard.partition} is now coordinated in another epoch")
        if offset > shard.committed_offset:
            try:
                await self._environment.committed(shard.partition, offset)
            except KafkaError as error:
                raise error_for(coordinator_error(error), error.detail or "") from error
            shard.committed_offset = max(shard.committed_offset, offset)

    async def until_loaded(self, partition: int, timeout_s: float) -> None:
        """Wait at most `timeout_s` seconds while the partition is loading.

        A new partition is loaded at once, whereas a client that is refused tries again late.
        """
        if self.is_loading(partition):
            await in_task()
        if self.is_loading(partition):
            with trio.move_on_after(timeout_s):
                await self._shards[partition].loaded.wait()

    def is_loading(self, partition: int) -> bool:
        """Whether this node leads the partition, and has not replayed it yet."""
        shard = self._shards.get(partition)
        return shard is not None and shard.status is Status.LOADING

    def _active(self, partition: int) -> Shard[S]:
        shard = self._shards.get(partition)
        if shard is None or shard.status is Status.FAILED:
            raise NotCoordinatorError(f"{self.topic}-{partition} is not coordinated by this node")
        if shard.status is Status.LOADING:
            raise CoordinatorLoadInProgressError(f"{self.topic}-{partition} is still loading")
        return shard

    def _is_committed(self, shard: Shard[S], offset: int) -> bool:
        """Whether the record at `offset` is known to be committed, without waiting.

        False after an error of the log: `_wait_committed` meets the same error and raises it.
        """
        if offset <= shard.committed_offset:
            return True
        if self._shards.get(shard.partition.partition) is not shard:
            return False
        try:
            if not self._environment.is_committed(shard.partition, offset):
                return False
        except KafkaError:
            return False
        shard.committed_offset = offset
        return True

    async def _wait_committed(self, shard: Shard[S], offset: int) -> None:
        if self._is_committed(shard, offset):
            return
        await in_task()
        if self._shards.get(shard.partition.partition) is not shard:  # Another leader may have truncated the log.
            raise NotCoordinatorError(f"{shard.partition} is now led by another node")
        try:
            with trio.move_on_after(self._commit_timeout_ms / 1000) as scope:
                await self._environment.committed(shard.partition, offset)
        except KafkaError as error:
            raise error_for(coordinator_error(error), error.detail or "") from error
        if scope.cancelled_caught:
            raise CoordinatorNotAvailableError(f"offset {offset} of {shard.partition} was not committed in time")
        shard.committed_offset = max(shard.committed_offset, offset)

    # -- decide, append, apply -----------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._environment.now_ms(), int(trio.current_time() * 1000 + ROUND_UP_MS))

    def _step(self, shard: Shard[S], decide: Callable[[Now], Decision]) -> None:
        now = self._now()
        self._execute(shard, decide(now), now)
        if shard.timer is not None:
            shard.timer.wake()

    def _execute(self, shard: Shard[S], decision: Decision, now: Now) -> bool:
        """Carry out a decision and the decisions that follow; returns whether the records of all were appended."""
        before = shard.last_offset
        try:
            return self._carry_out(shard, decision, now)
        except Exception:
            if shard.last_offset != before:
                self._reload(shard)
            raise

    def _carry_out(self, shard: Shard[S], first: Decision, now: Now) -> bool:
        decision: Decision | None = first
        while decision is not None:
            error = self._append(shard, decision, now) if decision.records else None
            if error is None:
                for ticket, reply in decision.replies:
                    assert isinstance(ticket, PendingReply)
                    ticket.resolve(reply, shard.last_offset)
                decision = decision.then() if decision.then else None
            elif decision.refused is not None:
                decision = decision.refused(error)
            else:
                self._fail_tickets(decision, error)
                return False
        return True

    def _append(self, shard: Shard[S], decision: Decision, now: Now) -> KafkaError | None:
        """Append the records as one batch and apply them; returns the error if the append fails."""
        state, producer = shard.state, decision.producer or NO_PRODUCER
        batch = bytearray(self._encode(state, decision, producer, now))
        try:
            shard.last_offset = self._environment.append(shard.partition, batch, producer.verification)
        except KafkaError as error:
            log.warning("coordinator append failed", partition=str(shard.partition), error=str(error))
            return without_frames(error)
        first_offset = shard.last_offset - len(decision.records) + 1
        for delta, (key, value) in enumerate(decision.records):
            state.apply(key, value, first_offset + delta, producer.producer_id)
        return None

    def _encode(self, state: S, decision: Decision, producer: Producer, now: Now) -> bytes:
        is_transactional = decision.producer is not None
        header = BatchHeader(
            self._codec | TRANSACTIONAL * is_transactional,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
        )
        records = [Record(-1, now.clock_ms, *state.encode(key, value)) for key, value in decision.records]
        return encode_batch(records, header)

    def _fail_tickets(self, decision: Decision, error: KafkaError) -> None:
        mapped = error_for(coordinator_error(error), error.detail or "")
        for ticket, _ in decision.replies:
            assert isinstance(ticket, PendingReply)
            ticket.fail(mapped)

    # -- loading -------------------------------------------------------------------------------------------------

    async def _load(self, shard: Shard[S]) -> None:
        """Replay the log of a shard. Only one shard of the runtime is replayed at a time.

        Compaction leaves gaps, also at the end, so loading ends when a read returns no batch.
        """
        began, skipped = trio.current_time(), SkippedRecords()
        offset = self._environment.start_offset(shard.partition)
        async with self._loading:
            while True:
                data = await self._environment.read(shard.partition, offset, self._load_buffer_size)
                read_to = await in_steps(replay(shard.state, data, offset, skipped))
                if read_to == offset:
                    break
                offset = read_to
                await trio.lowlevel.checkpoint()
        shard.last_offset = offset - 1
        self._report(shard.partition, skipped)
        now = self._now()
        for decision in shard.state.loaded(now):
            self._execute(shard, decision, now)
            await trio.lowlevel.checkpoint()
        if offset:
            seconds = round(trio.current_time() - began, 3)
            log.debug("coordinator loaded", partition=str(shard.partition), offset=offset, seconds=seconds)

    def _report(self, partition: TopicPartition, skipped: SkippedRecords) -> None:
        if skipped.count:
            log.error(
                "coordinator records skipped",
                partition=str(partition),
                records=skipped.count,
                offset=skipped.offset,
                error=skipped.reason,
            )
            self.skipped += skipped.count


async def _whole(steps: Generator[None, None, None]) -> None:
    """Run a generator to its end; others run at each `yield`, unless the caller is cancelled or gives up meanwhile."""
    try:
        for _ in steps:
            await pause()
    finally:
        at_once(steps)


def partition_for(key: str, partition_count: int) -> int:
    """The partition of `key`: Java's `String.hashCode`, made non-negative, modulo the partition count."""
    code = string_hash(key)
    signed = code - (1 << 32) if code >> 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count
