"""Completes transactions whose outcome is decided: has the markers written, and then writes the final state.

    outcome in the log ─► due ─► outcome committed ─► markers written ─► final state in the log

EndTxn is answered before this work: one task, which runs after the request, completes all due transactions. If nothing
has to be waited for, as on a node without followers, it completes a transaction itself. Otherwise a task of the shard
does the rest. Source: Kafka's `TransactionCoordinator`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, Protocol

import structlog
import trio

from minikafka.broker.coordinator.decision import Decision, Now, Ticket
from minikafka.broker.coordinator.runtime import CoordinatorRuntime
from minikafka.broker.coordinator.transactions.end_transaction import complete_transaction
from minikafka.broker.coordinator.transactions.marker_log import Marker
from minikafka.broker.coordinator.transactions.transaction import PREPARE_COMMIT, Transaction
from minikafka.broker.coordinator.transactions.transaction_shard import TransactionShard
from minikafka.controller.failures import FAILURES
from minikafka.protocol.errors import KafkaError, NotCoordinatorError, TransactionCoordinatorFencedError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.waits import Rest, begin, in_task

log = structlog.get_logger("minikafka.coordinator")

RETRY_S = 0.1
WORK_AT_ONCE = 64
"""Units of work between two pauses, about 5 ms. Each marker that is written counts as one unit."""
TRANSACTION_WORK = 3
"""Units of work for the final state of a transaction, besides its markers."""


class Markers(Protocol):
    """The operation that writes transaction markers (a Protocol); see `MarkerChannel`."""

    async def write(self, marker: Marker, partitions: frozenset[TopicPartition]) -> None:
        """Write the marker to every partition; done when all have it. Raises TransactionCoordinatorFencedError."""
        ...


class Prepared(NamedTuple):
    """A transaction with a decided outcome, which is to be completed.

    Attributes:
        offset: The offset of the record with the outcome.
        done: Set once the work on the transaction has ended.
    """

    shard: TransactionShard
    transactional_id: str
    transaction: Transaction
    offset: int
    done: trio.Event

    @property
    def marker(self) -> Marker:
        """The marker for each partition of the transaction."""
        return Marker(
            self.transaction.producer_id,
            self.transaction.producer_epoch,
            self.transaction.state is PREPARE_COMMIT,
            self.shard.coordinator_epoch,
            self.transaction.client_version,
        )


class Completions:
    """The transactions that this node completes.

    Args:
        runtime: The runtime of the shards.
        markers: Writes markers wherever the partitions are led.
    """

    def __init__(self, runtime: CoordinatorRuntime[TransactionShard], markers: Markers) -> None:
        self._runtime = runtime
        self._markers = markers
        self._due: deque[Prepared] = deque()
        self._unfinished: dict[str, Prepared] = {}
        self._wakeup = trio.lowlevel.ParkingLot()

    def add(self, shard: TransactionShard, transactional_id: str) -> None:
        """Add a transaction whose outcome is in the log of an active shard; `run` completes it."""
        transaction, offset = shard.transactions[transactional_id], shard.prepared_offsets[transactional_id]
        prepared = Prepared(shard, transactional_id, transaction, offset, trio.Event())
        self._unfinished[transactional_id] = prepared
        self._due.append(prepared)
        self._wakeup.unpark()

    def unfinished(self, transactional_id: str) -> trio.Event | None:
        """The event that is set once the transaction is completed; None if no completion is in progress."""
        prepared = self._unfinished.get(transactional_id)
        return None if prepared is None else prepared.done

    async def run(self) -> None:
        """Complete transactions until cancelled. Tasks of the shards, for those that wait, end with their shard."""
        work = 0
        while True:
            while self._due:
                one = self._due.popleft()
                work += TRANSACTION_WORK + len(one.transaction.partitions)
                if work > WORK_AT_ONCE:
                    await trio.lowlevel.checkpoint()
                    work = TRANSACTION_WORK + len(one.transaction.partitions)
                try:
                    self._begin(one)
                except Exception:
                    log.exception("transaction completion failed", transactional_id=one.transactional_id)
                    FAILURES["decision"] += 1
                    self._begin_again(one)
            await self._wakeup.park()

    def _begin(self, one: Prepared) -> None:
        """Complete a transaction as far as is possible without waiting; a task of its shard does the rest."""
        rest = begin(self._complete(one))
        if isinstance(rest, Rest):
            self._runtime.start_soon(one.shard.partition, self._complete_in_task, one, rest)

    def _begin_again(self, one: Prepared) -> None:
        """Try again after a bug, in a task of the shard. If that task fails, too, the shard is loaded again."""
        if self._runtime.is_active(one.shard.partition, one.shard.coordinator_epoch):
            self._runtime.start_soon(one.shard.partition, self._complete_in_task, one)
        else:
            self._end(one)

    async def _complete_in_task(self, one: Prepared, rest: Rest[None] | None = None) -> None:
        try:
            await (self._complete(one) if rest is None else rest)
        finally:
            self._end(one)

    async def _complete(self, one: Prepared) -> None:
        """Have the markers written, and write the final state. Each step may be repeated.

        Nothing is written before the outcome is committed: a later leader may not know it, and decide otherwise.
        """
        shard = one.shard
        try:
            await _until_done(
                partial(self._runtime.until_committed, shard.partition, shard.coordinator_epoch, one.offset)
            )
            await self._markers.write(one.marker, one.transaction.partitions)
            await _until_done(partial(self._finish, one))
        except NotCoordinatorError:
            pass
        except TransactionCoordinatorFencedError as error:
            log.warning("transaction markers refused", transactional_id=one.transactional_id, error=str(error))
        self._end(one)

    async def _finish(self, one: Prepared) -> None:
        def complete(current: TransactionShard, now: Now, ticket: Ticket) -> Decision:
            if current is not one.shard:
                raise NotCoordinatorError("the partition is coordinated in another epoch")
            return complete_transaction(
                current, now, ticket, transactional_id=one.transactional_id, prepared=one.transaction
            )

        await self._runtime.decide(one.shard.partition, complete)

    def _end(self, one: Prepared) -> None:
        one.done.set()
        if self._unfinished.get(one.transactional_id) is one:
            del self._unfinished[one.transactional_id]


async def _until_done(step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step until it succeeds. Raises NotCoordinatorError when leadership has ended."""
    while True:
        try:
            await step()
            return
        except NotCoordinatorError:
            raise
        except KafkaError as error:
            log.info("transaction completion delayed", error=str(error))
            await in_task()
            await trio.sleep(RETRY_S)
