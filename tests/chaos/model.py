"""A small model of partitions, producers, transactions and consumers that generates legal histories from a seed.

Each client is a generator that yields wherever another client may run, between the invocation of an operation, its
effect, and its completion. An operation of unknown outcome takes effect at once, later, or never.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from chaos.history import (
    AbortTransaction,
    Action,
    BeginTransaction,
    CommitOffsets,
    CommitTransaction,
    DeleteRecords,
    Event,
    FetchOffsets,
    Outcome,
    Poll,
    Position,
    Produce,
    Read,
    ReadAll,
    Recorder,
    ReplicaLog,
)
from minikafka.protocol.names import TopicPartition

COMPACTED = "settings"
PARTITIONS = [TopicPartition(*one) for one in (("events", 0), ("events", 1), ("orders", 0), (COMPACTED, 0))]
GROUP = "group"
OK, FAIL, UNKNOWN = Outcome.OK, Outcome.FAIL, Outcome.UNKNOWN
Client = Generator[None, None, None]
Late = Callable[[], object]


@dataclass(slots=True, eq=False)
class ModelTransaction:
    """`committed` is None while it is open."""

    committed: bool | None = None
    first: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    offsets: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])


@dataclass(slots=True, eq=False)
class Slot:
    """What is at an offset; `read` is None for a marker. The next compaction removes a tombstone with a horizon."""

    read: Read | None
    transaction: ModelTransaction | None
    removed: bool = False
    tombstone: bool = False
    horizon: bool = False


class Log:
    """A partition without replication: what is appended is committed."""

    def __init__(self, name: TopicPartition) -> None:
        self.name = name
        self.slots: list[Slot] = []
        self.start = 0
        self.open: set[ModelTransaction] = set()

    def append(
        self, key: str | None, value: str, transaction: ModelTransaction | None, *, tombstone: bool = False
    ) -> int:
        offset = len(self.slots)
        self.slots.append(Slot(Read(self.name, offset, key, value), transaction, tombstone=tombstone))
        if transaction is not None:
            transaction.first.setdefault(self.name, offset)
            self.open.add(transaction)
        return offset

    @property
    def last_stable_offset(self) -> int:
        return min([one.first[self.name] for one in self.open], default=len(self.slots))

    def read(self, position: int, count: int, *, read_committed: bool) -> tuple[int, list[Read]]:
        """The next position, and the records before it."""
        end = self.last_stable_offset if read_committed else len(self.slots)
        position = max(position, self.start)
        found: list[Read] = []
        while position < end and len(found) < count:
            slot = self.slots[position]
            hidden = read_committed and slot.transaction is not None and not slot.transaction.committed
            if slot.read is not None and not slot.removed and not hidden:
                found.append(slot.read)
            position += 1
        return position, found

    def delete(self, before: int) -> None:
        self.start = max(self.start, before)

    def compact(self, *, forgets: bool) -> None:
        """Remove aborted records, and those of keys that have a later one; `forgets`: also tombstones in the end."""
        keys: set[str | None] = set()
        for slot in reversed(self.slots[: self.last_stable_offset]):
            if slot.read is not None:
                aborted = slot.transaction is not None and not slot.transaction.committed
                expired = forgets and slot.horizon and slot.tombstone
                slot.removed = slot.removed or aborted or slot.read.key in keys or expired
                slot.horizon = not aborted
                if not aborted:
                    keys.add(slot.read.key)


class Chances(NamedTuple):
    """The probabilities of unknown outcomes, and of administration in a step."""

    unknown: float = 0.15
    deletion: float = 0.01


class Model:
    """Clients and partitions. `run` gives a legal history with about as many operations as steps / 3.

    Args:
        forgets: Compaction removes tombstones.
    """

    def __init__(self, chance: random.Random, chances: Chances | None = None, *, forgets: bool = False) -> None:
        self.chance = chance
        self.forgets = forgets
        self.chances = chances or Chances()
        self.recorder = Recorder()
        self.logs = {name: Log(name) for name in PARTITIONS}
        self.committed: dict[TopicPartition, int] = {}
        self.late: list[Late] = []
        self._processes = 0
        self._values = 0
        self._open: list[ModelTransaction] = []

    def run(self, steps: int) -> list[Event]:
        makers = [self.producer, self.producer, self.careless_producer, self.transactions, self.transactions]
        makers += [self.consumer, self.consumer, self.consumer, self.groups]
        clients = [make() for make in makers]
        for _ in range(steps):
            index = self.chance.randrange(len(clients))
            if next(clients[index], self) is self:
                clients[index] = makers[index]()
            if self.late and self.chance.random() < 0.1:
                self.late.pop(self.chance.randrange(len(self.late)))()
            if self.chance.random() < self.chances.deletion:
                self.administrate()
        self.finish()
        return self.recorder.events

    def process(self, kind: str) -> str:
        self._processes += 1
        return f"{kind}-{self._processes}"

    def invoke(self, process: str, action: Action) -> Event:
        return self.recorder.invoke(process, action)

    def unknown(self, effect: Late) -> bool:
        """Decide if an outcome is unknown; if so, when the effect takes place."""
        if self.chance.random() >= self.chances.unknown:
            return False
        when = self.chance.choice(["now", "later", "never"])
        if when == "now":
            effect()
        elif when == "later":
            self.late.append(effect)
        return True

    def new_record(self, *, idempotent: bool = True, acks_all: bool = True) -> Produce:
        self._values += 1
        value, key = f"v{self._values}", self.chance.choice(["a", "b", "c", "d"])
        return Produce(
            self.chance.choice(PARTITIONS), key, value, acks_all=acks_all, idempotent=idempotent,
            tombstone=self.chance.random() < 0.3,
        )  # fmt: skip

    def append(self, record: Produce, transaction: ModelTransaction | None = None) -> int:
        log = self.logs[record.partition]
        return log.append(record.key, record.value, transaction, tombstone=record.tombstone)

    def producer(self) -> Client:
        """An idempotent one with requests in flight. It ends after an error, and another one takes its place."""
        name = self.process("producer")
        while True:
            records = [self.new_record() for _ in range(self.chance.randint(1, 5))]
            events = [self.invoke(name, one) for one in records]
            yield
            for record, event in zip(records, events, strict=True):
                if self.unknown(partial(self.append, record)):
                    self.recorder.complete(event, UNKNOWN)
                    return
                if self.chance.random() < 0.03:
                    self.recorder.complete(event, FAIL)
                    return
                offset = self.append(record)
                yield
                known = self.chance.random() < 0.95
                self.recorder.complete(event, OK, replace(record, offset=offset if known else None))
            yield

    def careless_producer(self) -> Client:
        """Without idempotence it repeats records; with acks=1 acknowledged ones vanish."""
        name = self.process("careless")
        for _ in range(20):
            record = self.new_record(idempotent=False, acks_all=False)
            event = self.invoke(name, record)
            yield
            luck = self.chance.random()
            offset = len(self.logs[record.partition].slots) if luck < 0.1 else self.append(record)
            if luck > 0.9:
                self.late.append(partial(self.append, record))
            yield
            self.recorder.complete(event, OK, replace(record, offset=offset))

    def transactions(self) -> Client:
        name = self.process("transactional")
        while True:
            transaction = ModelTransaction()
            self._open.append(transaction)
            self.recorder.complete(self.invoke(name, BeginTransaction()), OK)
            for _ in range(self.chance.randint(1, 4)):
                record = self.new_record()
                event = self.invoke(name, record)
                yield
                if self.chance.random() < self.chances.unknown / 4:
                    if self.chance.random() < 0.5:
                        self.append(record, transaction)
                    self.recorder.complete(event, UNKNOWN)
                    self.late.append(partial(self.decide, transaction, committed=False))
                    return
                offset = self.append(record, transaction)
                yield
                self.recorder.complete(event, OK, replace(record, offset=offset))
            if self.chance.random() < 0.3:
                partition, offset = self.chance.choice(PARTITIONS), self.chance.randrange(100)
                transaction.offsets[partition] = offset
                self.recorder.complete(self.invoke(name, CommitOffsets(GROUP, ((partition, offset),))), OK)
            yield
            if not (yield from self.end(name, transaction)):
                return

    def end(self, name: str, transaction: ModelTransaction) -> Generator[None, None, bool]:
        """Whether the producer goes on."""
        committed = self.chance.random() < 0.7
        event = self.invoke(name, CommitTransaction() if committed else AbortTransaction())
        yield
        if self.chance.random() < self.chances.unknown:
            committed = committed and self.chance.random() < 0.5
            self.late.append(partial(self.decide, transaction, committed=committed))
            self.recorder.complete(event, UNKNOWN)
            return False
        fails = committed and self.chance.random() < 0.1
        self.decide(transaction, committed=committed and not fails)
        yield
        self.recorder.complete(event, FAIL if fails else OK)
        return not fails

    def decide(self, transaction: ModelTransaction, *, committed: bool) -> None:
        transaction.committed = committed
        self._open.remove(transaction)
        for name in transaction.first:
            self.logs[name].open.remove(transaction)
            self.logs[name].slots.append(Slot(None, transaction))
        if committed:
            self.committed |= transaction.offsets

    def consumer(self) -> Client:
        name, read_committed = self.process("consumer"), self.chance.random() < 0.6
        positions: dict[TopicPartition, int] = {}
        while True:
            if not positions or self.chance.random() < 0.05:
                positions = self.rebalance(name, known=self.chance.random() < 0.5)
            event = self.invoke(name, Poll(read_committed=read_committed))
            yield
            reached, records = dict(positions), list[Read]()
            for partition in positions:
                reached[partition], some = self.logs[partition].read(
                    positions[partition], self.chance.randint(0, 8), read_committed=read_committed
                )
                records += some
            ends = tuple((partition, len(self.logs[partition].slots)) for partition in positions)
            yield
            failed = self.chance.random() < self.chances.unknown
            lost = failed and self.chance.random() < 0.5
            poll = Poll(() if lost else tuple(records), read_committed, ends)
            self.recorder.complete(event, UNKNOWN if failed else OK, poll)
            if not failed or self.chance.random() < 0.5:
                positions = reached
            yield

    def rebalance(self, name: str, *, known: bool) -> dict[TopicPartition, int]:
        assigned = self.chance.sample(PARTITIONS, self.chance.randint(1, len(PARTITIONS)))
        positions = {one: self.chance.randint(0, len(self.logs[one].slots)) for one in assigned}
        said = tuple((one, offset if known else None) for one, offset in positions.items())
        self.recorder.complete(self.invoke(name, Position(said, "seek" if known else "rebalance")), OK)
        return positions

    def groups(self) -> Client:
        """Commits offsets and reads them back."""
        name, partition = self.process("member"), self.chance.choice(PARTITIONS)
        for _ in range(20):
            offset = self.chance.randrange(100)
            event = self.invoke(name, CommitOffsets(GROUP, ((partition, offset),)))
            yield
            effect = partial(self.committed.update, {partition: offset})
            if self.unknown(effect):
                self.recorder.complete(event, UNKNOWN)
            else:
                effect()
                yield
                self.recorder.complete(event, OK)
            yield
            event = self.invoke(name, FetchOffsets(GROUP, ((partition, None),)))
            yield
            fetched = self.committed.get(partition)
            yield
            self.recorder.complete(event, OK, FetchOffsets(GROUP, ((partition, fetched),)))

    def administrate(self) -> None:
        """Deletion of records, retention and compaction."""
        log = self.logs[self.chance.choice(PARTITIONS)]
        before = self.chance.randint(log.start, log.last_stable_offset)
        if log.name.topic == COMPACTED:
            log.compact(forgets=self.forgets)
        elif self.chance.random() < 0.5:
            log.delete(before - 5)
        else:
            event = self.invoke("admin", DeleteRecords(log.name, before))
            if not self.unknown(partial(log.delete, before)):
                log.delete(before)
                self.recorder.complete(event, OK)

    def finish(self) -> None:
        """Open transactions time out; every partition and replica is read."""
        while self.late:
            self.late.pop()()
        while self._open:
            self.decide(self._open[-1], committed=False)
        for read_committed in (True, False):
            for log in self.logs.values():
                end, records = log.read(log.start, len(log.slots), read_committed=read_committed)
                reading = ReadAll(log.name, log.start, end, len(log.slots), tuple(records), read_committed)
                self.recorder.complete(self.invoke("last", ReadAll(log.name)), OK, reading)
        for log in self.logs.values():
            everything = tuple(log.read(0, len(log.slots), read_committed=False)[1])
            for node in (1, 2, 3):
                dump = ReplicaLog(log.name, node, log.start, len(log.slots) - self.chance.randint(0, 1), everything)
                self.recorder.complete(self.invoke("disk", ReplicaLog(log.name, node)), OK, dump)


def legal_history(seed: int, steps: int, *, forgets: bool = False) -> list[Event]:
    """A legal history; `compacted={COMPACTED}` is to be passed to the checker.

    Args:
        forgets: Compaction removes tombstones: `forgetting={COMPACTED}`. Otherwise `keeping` may have that.
    """
    return Model(random.Random(seed), forgets=forgets).run(steps)
