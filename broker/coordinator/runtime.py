"""The runtime of coordinators: one shard for each partition of an internal topic that this node leads.

    elected ─► load: replay the log ─► active: decide, append, apply, answer ─► resigned: all who wait are told

A shard's state machine is pure; this file is all that waits. Deciding, appending and applying happen without an await
between them, so operations of a shard never interleave and there is no lock. An answer is held back until everything it
may rest on is committed. One task a shard keeps the time. Source: Kafka's `CoordinatorRuntime`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import structlog
import trio

from minikafka.broker.coordinator.decision import Decision, Now, Producer
from minikafka.broker.coordinator.errors import answered_as
from minikafka.protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
    error_for,
)
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, batches, encode_batch
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.control import ControlType, parse_end_transaction
from minikafka.protocol.records.record import CorruptRecords, Record

log = structlog.get_logger("minikafka.coordinator")

NO_PRODUCER = Producer(-1, -1)
TICK_MS = 1e-3
"""Added before a time in seconds is cut to milliseconds: what a deadline wakes must find the deadline passed."""


class Environment(Protocol):
    """What the runtime needs of its node. Errors of the partition are `KafkaError`s."""

    def now_ms(self) -> int:
        """The time of day, milliseconds since 1970."""
        ...

    def partition_count(self, topic: str) -> int | None:
        """How many partitions an internal topic has; None while it does not exist."""
        ...

    def start_offset(self, partition: TopicPartition) -> int:
        """Where the log of a partition led here begins."""
        ...

    async def read(self, partition: TopicPartition, offset: int, max_bytes: int) -> bytes | memoryview:
        """Batches from the one that holds `offset`, or follows it, on: committed or not, at least a whole one.

        Empty where there is nothing at `offset` or after it. The last batch may be cut.
        """
        ...

    def append(self, partition: TopicPartition, batch: bytearray) -> int:
        """Write one batch, as leader and as with acks=all; its offsets and epoch are set in place.

        Returns:
            The offset of its last record.

        Raises:
            KafkaError: Nothing was written: NotLeaderOrFollowerError, NotEnoughReplicasError, MessageTooLargeError,
                KafkaStorageError…
        """
        ...

    async def committed(self, partition: TopicPartition, offset: int) -> None:
        """Return once the record at `offset` is committed: the high watermark is above it.

        Raises:
            NotLeaderOrFollowerError: Leadership ended before.
        """
        ...


class CoordinatorState(Protocol):
    """The state machine of one shard. No method waits."""

    def encode(self, key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
        """A record as it stands in the log."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> tuple[Any, Any | None] | None:
        """The inverse; None for a type that is passed over. Raises MalformedMessage."""
        ...

    def apply(self, key: Any, value: Any | None, record_offset: int, producer_id: int) -> None:
        """A record is in the log; `producer_id` is -1 unless it is part of a transaction."""
        ...

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A transaction's marker is in the log."""
        ...

    def loaded(self, now: Now) -> list[Decision]:
        """The log has been replayed; from now on there are operations."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When something is due, on the steady clock; None if nothing ever is."""
        ...

    def due(self, now: Now) -> list[Any]:
        """Take out the names of what is due."""
        ...

    def expire(self, name: Any, now: Now) -> Decision:
        """Decide what follows from a deadline that has passed."""
        ...


S = TypeVar("S", bound=CoordinatorState)


class Waiting:
    """One request that wants an answer: the ticket that decisions hand back."""

    __slots__ = ("_error", "_event", "_offset", "_reply")

    def __init__(self) -> None:
        self._event = trio.Event()
        self._reply: Any = None
        self._offset = -1
        self._error: KafkaError | None = None

    def resolve(self, reply: Any, offset: int) -> None:
        """The answer, good once the record at `offset` is committed. Only the first one counts."""
        if not self._event.is_set():
            self._reply, self._offset = reply, offset
            self._event.set()

    def fail(self, error: KafkaError) -> None:
        """There will be no answer but this."""
        if not self._event.is_set():
            self._error = error
            self._event.set()

    async def answer(self) -> tuple[Any, int]:
        """(reply, offset that must be committed first). Cancellation leaves the request to be answered to nobody.

        Raises:
            KafkaError: What `fail` was given.
        """
        await self._event.wait()
        if self._error is not None:
            raise self._error
        return self._reply, self._offset


class Status(Enum):
    """Where a shard is in its life."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class Shard(Generic[S]):
    """One partition's coordinator, for as long as this node leads it in one epoch.

    Attributes:
        last_offset: Of the log, as far as it is applied; -1 in an empty one.
        committed_offset: As far as it is known to be committed.
    """

    def __init__(self, partition: TopicPartition, leader_epoch: int, state: S) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = state
        self.status = Status.LOADING
        self.last_offset = -1
        self.committed_offset = -1
        self.scope = trio.CancelScope()
        self.waiting: dict[Waiting, None] = {}
        self.sleeps_until_ms: float = math.inf
        self.alarm = trio.Event()

    def close(self) -> None:
        """Leadership is gone: who waits must look for another coordinator."""
        self.scope.cancel()
        for waiting in self.waiting:
            waiting.fail(NotCoordinatorError(f"{self.partition} is led by another node now"))


class CoordinatorRuntime(Generic[S]):
    """All shards of one kind of coordinator on this node.

    Args:
        environment: The node.
        topic: The internal topic that holds the records.
        new_state: Makes the state of a shard, empty.
        commit_timeout_ms: How long an answer waits for its records to be committed.
        load_buffer_size: Bytes that are read at once while loading.
        codec: How batches are compressed.
    """

    def __init__(
        self,
        environment: Environment,
        topic: str,
        new_state: Callable[[], S],
        *,
        commit_timeout_ms: int = 5_000,
        load_buffer_size: int = 5_242_880,
        codec: Codec = Codec.NONE,
    ) -> None:
        self.topic = topic
        self._environment = environment
        self._new_state = new_state
        self._commit_timeout_ms = commit_timeout_ms
        self._load_buffer_size = load_buffer_size
        self._codec = codec
        self._shards: dict[int, Shard[S]] = {}
        self._nursery: trio.Nursery | None = None

    # -- life ----------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then everybody who waits is told NOT_COORDINATOR."""
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
        """This node leads a partition of the topic from now on: load it. An older epoch's shard is dropped."""
        known = self._shards.get(partition)
        if known is not None and known.leader_epoch >= leader_epoch:
            return
        if known is not None:
            known.close()
        assert self._nursery is not None, "elected before run"
        shard = Shard(TopicPartition(self.topic, partition), leader_epoch, self._new_state())
        self._shards[partition] = shard
        self._nursery.start_soon(self._serve, shard)

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """It leads it no longer; `leader_epoch` that of the new leadership, if known. Older news are passed over."""
        shard = self._shards.get(partition)
        if shard is not None and (leader_epoch is None or leader_epoch >= shard.leader_epoch):
            del self._shards[partition]
            shard.close()

    def partitions(self) -> Iterator[tuple[int, Status]]:
        """Partitions coordinated here, loading ones included."""
        for partition, shard in sorted(self._shards.items()):
            yield partition, shard.status

    async def _serve(self, shard: Shard[S]) -> None:
        with shard.scope:
            try:
                await self._load(shard)
            except (KafkaError, CorruptRecords, MalformedMessage):
                log.exception("a coordinator could not load its partition", partition=str(shard.partition))
                shard.status = Status.FAILED
                return
            shard.status = Status.ACTIVE
            for decision in shard.state.loaded(self._now()):
                self._carry_out(shard, decision)
            await self._keep_time(shard)

    # -- operations ----------------------------------------------------------------------------------------------

    async def submit(self, partition: int, decide: Callable[[S, Now, Waiting], Decision]) -> Any:
        """Decide, and answer once what was decided is committed: at once, or when another decision resolves it.

        Cancellation leaves the decision standing; only its answer is lost.

        Raises:
            NotCoordinatorError: This node does not lead the partition, could not load it, or leads it no longer.
            CoordinatorLoadInProgressError: It has not been read to the end yet.
            CoordinatorNotAvailableError: The records were not committed in time.
            KafkaError: The log did not take them.
        """
        shard = self._active(partition)
        waiting = Waiting()
        shard.waiting[waiting] = None
        try:
            self._step(shard, lambda now: decide(shard.state, now, waiting))
            reply, offset = await waiting.answer()
        finally:
            del shard.waiting[waiting]
        await self._until_committed(shard, offset)
        return reply

    async def end_transaction(self, partition: int, marker: bytes, producer_id: int, *, committed: bool) -> None:
        """Write a transaction's marker, a control batch, and put its pending records in force or drop them.

        Raises: As `submit`.
        """
        shard = self._active(partition)
        try:
            shard.last_offset = self._environment.append(shard.partition, bytearray(marker))
        except KafkaError as error:
            raise error_for(answered_as(error), error.message) from error
        shard.state.end_transaction(producer_id, committed=committed)
        await self._until_committed(shard, shard.last_offset)

    def _active(self, partition: int) -> Shard[S]:
        shard = self._shards.get(partition)
        if shard is None or shard.status is Status.FAILED:
            raise NotCoordinatorError(f"{self.topic}-{partition} is not coordinated here")
        if shard.status is Status.LOADING:
            raise CoordinatorLoadInProgressError(f"{self.topic}-{partition} is still being read")
        return shard

    async def _until_committed(self, shard: Shard[S], offset: int) -> None:
        if offset <= shard.committed_offset:
            return
        if self._shards.get(shard.partition.partition) is not shard:  # Others have led since, and may have cut.
            raise NotCoordinatorError(f"{shard.partition} is led by another node now")
        try:
            with trio.move_on_after(self._commit_timeout_ms / 1000) as scope:
                await self._environment.committed(shard.partition, offset)
        except KafkaError as error:
            raise error_for(answered_as(error), error.message) from error
        if scope.cancelled_caught:
            raise CoordinatorNotAvailableError(f"offset {offset} of {shard.partition} was not committed in time")
        shard.committed_offset = max(shard.committed_offset, offset)

    # -- decide, append, apply -----------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._environment.now_ms(), int(trio.current_time() * 1000 + TICK_MS))

    def _step(self, shard: Shard[S], decide: Callable[[Now], Decision] | None) -> None:
        """What is due comes first, in its order; then the decision."""
        now = self._now()
        for name in shard.state.due(now):
            self._carry_out(shard, shard.state.expire(name, now))
        if decide is not None:
            self._carry_out(shard, decide(now))
        deadline_ms = shard.state.next_deadline_ms()
        if deadline_ms is not None and deadline_ms < shard.sleeps_until_ms:
            shard.alarm.set()

    def _carry_out(self, shard: Shard[S], decision: Decision | None) -> None:
        while decision is not None:
            error = self._append(shard, decision) if decision.records else None
            if error is None:
                for ticket, reply in decision.replies:
                    assert isinstance(ticket, Waiting)
                    ticket.resolve(reply, shard.last_offset)
                decision = decision.then() if decision.then else None
            elif decision.refused is not None:
                decision = decision.refused(error)
            else:
                self._fail(decision, error)
                return

    def _append(self, shard: Shard[S], decision: Decision) -> KafkaError | None:
        """Write the records as one batch and apply them; the error if the log does not take them."""
        state, producer = shard.state, decision.producer or NO_PRODUCER
        batch = self._encode(state, decision, producer)
        try:
            shard.last_offset = self._environment.append(shard.partition, bytearray(batch))
        except KafkaError as error:
            log.warning("a coordinator's records were refused", partition=str(shard.partition), error=str(error))
            return error
        first_offset = shard.last_offset - len(decision.records) + 1
        for delta, (key, value) in enumerate(decision.records):
            state.apply(key, value, first_offset + delta, producer.producer_id)
        return None

    def _encode(self, state: S, decision: Decision, producer: Producer) -> bytes:
        now_ms = self._environment.now_ms()
        return encode_batch(
            [Record(-1, now_ms, *state.encode(key, value)) for key, value in decision.records],
            codec=self._codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            transactional=decision.producer is not None,
        )

    def _fail(self, decision: Decision, error: KafkaError) -> None:
        told = error_for(answered_as(error), error.message)
        for ticket, _ in decision.replies:
            assert isinstance(ticket, Waiting)
            ticket.fail(told)

    # -- time ----------------------------------------------------------------------------------------------------

    async def _keep_time(self, shard: Shard[S]) -> None:
        while True:
            deadline_ms = shard.state.next_deadline_ms()
            shard.sleeps_until_ms = math.inf if deadline_ms is None else deadline_ms
            shard.alarm = trio.Event()
            with trio.move_on_at(shard.sleeps_until_ms / 1000):
                await shard.alarm.wait()
            self._step(shard, None)

    # -- loading -------------------------------------------------------------------------------------------------

    async def _load(self, shard: Shard[S]) -> None:
        """Replay the log. Compaction leaves holes, also at its end: what counts is whether something was read."""
        began = trio.current_time()
        offset = self._environment.start_offset(shard.partition)
        while True:
            data = await self._environment.read(shard.partition, offset, self._load_buffer_size)
            read_to = offset
            for batch in batches(data):
                if batch.next_offset > read_to:
                    self._replay(shard.state, batch, read_to)
                    read_to = batch.next_offset
            if read_to == offset:
                break
            offset = read_to
            await trio.lowlevel.checkpoint()
        shard.last_offset = offset - 1
        if offset:
            seconds = round(trio.current_time() - began, 3)
            log.debug("a coordinator is loaded", partition=str(shard.partition), offset=offset, seconds=seconds)

    def _replay(self, state: S, batch: Batch, from_offset: int) -> None:
        if batch.is_control:
            marker = parse_end_transaction(batch)
            if marker is not None:
                state.end_transaction(batch.producer_id, committed=marker.type is ControlType.COMMIT)
            return
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER.producer_id
        for record in batch.records():
            known = None if record.key is None else state.decode(record.key, record.value)
            if known is not None and record.offset >= from_offset:
                state.apply(*known, record.offset, producer_id)


def partition_for(key: str, partition_count: int) -> int:
    """The partition that holds what belongs to `key`: Java's `String.hashCode`, made positive, by remainder."""
    units = key.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFF_FFFF
    signed = code - (1 << 32) if code >> 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count
