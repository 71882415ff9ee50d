"""A transaction coordinator over logs in memory, which can crash and start again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio
import trio.testing

from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.broker.coordinator.transactions.marker_log import Marker
from minikafka.broker.coordinator.transactions.transaction import Transaction
from minikafka.broker.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from minikafka.broker.coordinator.transactions.transaction_records import encode_record
from minikafka.broker.coordinator.transactions.transaction_settings import TransactionSettings
from minikafka.protocol.errors import ErrorCode, TransactionCoordinatorFencedError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record
from minikafka.storage.waits import in_task
from support.coordinator_node import MemoryLogs

ID = "airline"
PARTITIONS = frozenset({TopicPartition("flights", 0), TopicPartition("flights", 1)})
V1, V2 = 0, 2
TIMEOUT_MS = 60_000


class Markers:
    """Records the markers; `held` keeps them from being written. With `at_once` they need no waiting."""

    def __init__(self) -> None:
        self.asked = 0
        self.written: list[tuple[Marker, frozenset[TopicPartition]]] = []
        self.held: trio.Event | None = None
        self.refusal: TransactionCoordinatorFencedError | None = None
        self.at_once = False

    async def write(self, marker: Marker, partitions: frozenset[TopicPartition]) -> None:
        self.asked += 1
        if not self.at_once:
            await in_task()
            await trio.lowlevel.checkpoint()
            if self.held is not None:
                await self.held.wait()
        if self.refusal is not None:
            raise self.refusal
        self.written.append((marker, partitions))


class Bench:
    """A coordinator that can crash and start again over the same logs."""

    def __init__(self, **settings: int) -> None:
        self.logs = MemoryLogs(1)
        self.markers = Markers()
        self.settings = TransactionSettings(**settings)
        self.version = V2
        self.coordinator = self._new()
        self._epoch = 0
        self._ids = 100
        self.in_threads = 0

    def _new(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            self.logs, self.settings, self._next_id, lambda: self.version, self.markers, self._run
        )

    async def _run(self, function: Callable[..., object], *args: object) -> object:
        self.in_threads += 1
        return function(*args)

    async def _next_id(self) -> int:
        await trio.lowlevel.checkpoint()
        self._ids += 1
        return self._ids

    @asynccontextmanager
    async def running(self) -> AsyncIterator[TransactionCoordinator]:
        """A coordinator in the next leader epoch; it crashes when the block ends."""
        self.coordinator = self._new()
        async with trio.open_nursery() as nursery:
            await nursery.start(self.coordinator.run)
            self._epoch += 1
            self.coordinator.runtime.elected(0, self._epoch)
            await trio.testing.wait_all_tasks_blocked()
            yield self.coordinator
            nursery.cancel_scope.cancel()

    @property
    def now(self) -> Transaction:
        (shard,) = self.coordinator.runtime.states()
        return shard.transactions[ID]

    async def init(self, expected: ProducerIdentity | None = None) -> ProducerIdentity:
        return await self.coordinator.init_producer_id(ID, TIMEOUT_MS, expected)

    async def add(self, producer: ProducerIdentity, version: int = V2) -> ErrorCode:
        return await self.coordinator.add_partitions(ID, producer, PARTITIONS, client_version=version)

    async def end(self, producer: ProducerIdentity, *, commit: bool = True, version: int = V2) -> ProducerIdentity:
        return await self.coordinator.end(ID, producer, commit=commit, client_version=version)

    async def ended(self, producer: ProducerIdentity, *, commit: bool = True, version: int = V2) -> ProducerIdentity:
        """A whole transaction, with its markers."""
        assert await self.add(producer, version) is ErrorCode.NONE
        answer = await self.end(producer, commit=commit, version=version)
        await trio.testing.wait_all_tasks_blocked()
        return answer

    def put(self, value: Transaction) -> None:
        """Write a state to the log, for the next coordinator."""
        key, data = encode_record(ID, value, 1)
        self.logs.append(TopicPartition("__transaction_state", 0), bytearray(encode_batch([Record(-1, 0, key, data)])))


def in_trio(body: Callable[[], Awaitable[None]]) -> None:
    trio.run(body, clock=trio.testing.MockClock(autojump_threshold=0))
