"""The index of a history: the writes, their readers, transactions, final readings, and the consumers' operations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from chaos.history import (
    NEVER,
    AbortTransaction,
    BeginTransaction,
    CommitOffsets,
    CommitTransaction,
    DeleteRecords,
    FetchOffsets,
    LogStart,
    Operation,
    Outcome,
    Poll,
    Position,
    Produce,
    Read,
    ReadAll,
    ReplicaLog,
)
from minikafka.protocol.names import TopicPartition


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction of a producer, from its beginning to the next one's."""

    begin: Operation
    commits: list[Operation] = field(default_factory=list[Operation])
    ended: bool = False
    writes: list[Write] = field(default_factory=list["Write"])
    read_by: Operation | None = None
    """The first read_committed operation that returned a record of it."""

    @property
    def commit_ok(self) -> Operation | None:
        return next((one for one in self.commits if one.outcome is Outcome.OK), None)

    @property
    def aborted(self) -> bool:
        """It cannot have been committed: no commit was requested, or every commit certainly failed."""
        return all([one.outcome is Outcome.FAIL for one in self.commits])

    @property
    def committed(self) -> bool:
        """It is committed: by acknowledgement, or as a commit of unknown outcome was requested and a record read."""
        return self.committed_by < NEVER

    @property
    def committed_by(self) -> int:
        """The position of the event that shows that it is committed."""
        if self.commit_ok is not None:
            return self.commit_ok.completed
        return NEVER if self.read_by is None or self.aborted else self.read_by.completed


@dataclass(slots=True, eq=False)
class Write:
    """A record that was sent."""

    operation: Operation
    action: Produce
    transaction: Transaction | None
    reader: Operation | None = None
    committed_reader: Operation | None = None
    seen: int | None = None
    elsewhere: dict[int, Operation] | None = None
    """Other offsets at which it was read, and the first reader of each."""
    suspect: bool = False
    """It is part of an anomaly of the log, and proves no other one."""

    @property
    def acknowledged(self) -> bool:
        return self.operation.outcome is Outcome.OK

    @property
    def acked(self) -> int | None:
        """The offset of the acknowledgement."""
        return self.action.offset if self.operation.outcome is Outcome.OK else None

    @property
    def place(self) -> int | None:
        """The offset at which it was read, otherwise that of the acknowledgement."""
        return self.acked if self.seen is None else self.seen

    @property
    def settled(self) -> bool:
        """It is known where it is, and that no copy of it is elsewhere."""
        return self.place is not None and self.action.acks_all and self.action.idempotent

    @property
    def evidence(self) -> tuple[Operation, ...]:
        return (self.operation,) if self.reader is None else (self.operation, self.reader)


@dataclass(slots=True, eq=False)
class Final:
    """The last successful reading of a whole partition."""

    operation: Operation
    action: ReadAll
    values: Set[str]

    @property
    def complete(self) -> bool:
        return self.action.position >= self.action.end


@dataclass(slots=True)
class KeyUses:
    """The writes to a key that compaction may keep in place of an earlier one: the highest offset, and the count of
    those that may be at any offset."""

    highest: int = -1
    unplaced: int = 0
    highest_tombstone: int = -1
    unplaced_tombstones: int = 0
    survivor: int = -1
    """The highest offset in the final readings."""


@dataclass(slots=True, eq=False)
class Partition:
    """The facts about a partition.

    Attributes:
        compacted: Whether a later record of a key may replace a record.
        keeps_tombstones: Whether only that may remove a tombstone.
        writes: By value.
        at: The first write that was found at an offset, by reading or from its acknowledgement.
        conflicts: Offsets with another write than that of `at`, and the operation that says so.
        log_start: The highest log start offset that may have been in effect. Missing records below it are excused.
        log_starts: All that may have been in effect, and the position in the history from which each one may have been.
        finals: By isolation: read_committed or not.
        failed_final: A final reading without success after which there was none.
    """

    name: TopicPartition
    compacted: bool
    keeps_tombstones: bool = False
    writes: dict[str, Write] = field(default_factory=dict[str, Write])
    at: dict[int, Write] = field(default_factory=dict[int, Write])
    conflicts: list[tuple[int, Write, Operation]] = field(default_factory=list[tuple[int, Write, Operation]])
    phantoms: dict[tuple[int, str], tuple[Read, Operation]] = field(
        default_factory=dict[tuple[int, str], tuple[Read, Operation]]
    )
    log_start: int = 0
    log_starts: dict[int, int] = field(default_factory=dict[int, int])
    finals: dict[bool, Final] = field(default_factory=dict[bool, Final])
    failed_final: Operation | None = None
    keys: dict[str | None, KeyUses] = field(default_factory=dict[str | None, KeyUses])

    def excused(self, write: Write, offset: int) -> bool:
        """Whether deletion or compaction may have removed the record at this offset."""
        if offset < self.log_start:
            return True
        if not self.compacted:
            return False
        if write.transaction is not None and not write.transaction.committed:
            return True
        uses = self.keys.get(write.action.key, KeyUses())
        expires = write.action.tombstone and not self.keeps_tombstones
        return expires or uses.highest > offset or uses.unplaced > (not write.settled)

    def replaced(self, write: Write, offset: int, final: Final) -> bool:
        """Whether deletion or compaction may have removed the record at this offset before a final reading.

        What replaced it was in the log at that time. So it, or what replaced it in turn, is in the readings that began
        later, unless it is a tombstone.
        """
        if not self.excused(write, offset):
            return False
        certain = write.transaction is None or write.transaction.committed
        again = [one for one in self.finals.values() if one.operation.invoked > final.operation.completed]
        if offset < self.log_start or not certain or not any([one.complete for one in again]):
            return True
        if write.action.tombstone and not self.keeps_tombstones:
            return True
        uses = self.keys.get(write.action.key, KeyUses())
        deleted = uses.highest_tombstone > offset or uses.unplaced_tombstones > 0
        return uses.survivor > offset or (deleted and not self.keeps_tombstones)

    def covering(self, write: Write) -> list[Final]:
        """The final readings that show the write, if it is in the log."""
        committed = write.transaction is None or write.transaction.committed
        return [one for isolation, one in self.finals.items() if committed or not isolation]


class Facts:
    """The index of a history.

    Raises:
        ValueError: Two writes of a partition have the same value.
    """

    def __init__(self, history: Iterable[Operation], compacted: Set[str], keeping: Set[str] = frozenset()) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.transactions: list[Transaction] = []
        self.consumers: defaultdict[str, list[Operation]] = defaultdict(list)
        """Polls and changes of position, by process, in the order of completion."""
        self.committed_offsets: list[tuple[Operation, Transaction | None]] = []
        self.fetched_offsets: list[Operation] = []
        self.replica_logs: defaultdict[TopicPartition, list[Operation]] = defaultdict(list)
        self._deletions: defaultdict[TopicPartition, dict[int, int]] = defaultdict(dict)
        """Where the first deletion up to an offset was invoked in the history; -1: up to the high watermark."""
        self._compacted = compacted
        self._keeping = keeping
        done = list(history)
        self._add_writes(done)
        for operation in done:
            self._add_results(operation)
        for partition in self.partitions.values():
            _add_acknowledged_offsets(partition)
            if partition.compacted:
                _add_key_uses(partition)

    def partition(self, name: TopicPartition) -> Partition:
        found = self.partitions.get(name)
        if found is None:
            found = self.partitions[name] = Partition(
                name, name.topic in self._compacted, name.topic in self._keeping
            )
        return found

    def _add_writes(self, done: list[Operation]) -> None:
        current: dict[str, Transaction] = {}
        for operation in sorted(done, key=lambda one: one.invoked):
            action = operation.action
            transaction = current.get(operation.process)
            if isinstance(action, Produce):
                self._add_write(operation, action, None if transaction and transaction.ended else transaction)
            elif isinstance(action, BeginTransaction) and operation.outcome is not Outcome.FAIL:
                current[operation.process] = transaction = Transaction(operation)
                self.transactions.append(transaction)
            elif isinstance(action, CommitTransaction | AbortTransaction) and transaction is not None:
                transaction.ended = True
                if isinstance(action, CommitTransaction):
                    transaction.commits.append(operation)
            elif isinstance(action, DeleteRecords) and operation.outcome is not Outcome.FAIL:
                self._deletions[action.partition].setdefault(action.offset, operation.invoked)
            elif isinstance(action, CommitOffsets):
                part_of = None if transaction and transaction.ended else transaction
                self.committed_offsets.append((operation, part_of))

    def _add_write(self, operation: Operation, action: Produce, transaction: Transaction | None) -> None:
        writes = self.partition(action.partition).writes
        if action.value in writes:
            raise ValueError(f"{action.partition} has two writes of {action.value!r}")
        writes[action.value] = write = Write(operation, action, transaction)
        if transaction is not None:
            transaction.writes.append(write)

    def _add_results(self, operation: Operation) -> None:
        match operation.action:
            case Poll(records, read_committed):
                self._add_reads(operation, records, read_committed)
                self.consumers[operation.process].append(operation)
            case Position():
                self.consumers[operation.process].append(operation)
            case ReadAll():
                self._add_final(operation, operation.action)
            case FetchOffsets() if operation.outcome is Outcome.OK:
                self.fetched_offsets.append(operation)
            case ReplicaLog(name, _, start) if operation.outcome is Outcome.OK:
                self.replica_logs[name].append(operation)
                self._raise_log_start(name, start)
            case LogStart(name, start) if operation.outcome is Outcome.OK:
                self._raise_log_start(name, start)
            case DeleteRecords(name, before) if operation.outcome is not Outcome.FAIL:
                self._raise_log_start(name, NEVER if before == -1 else before)
            case _:
                pass

    def _raise_log_start(self, name: TopicPartition, start: int) -> None:
        """Without a deletion, retention may have moved it at any time."""
        partition = self.partition(name)
        deletions = self._deletions[name]
        since = min((deletions[before] for before in (start, -1) if before in deletions), default=0)
        partition.log_start = max(partition.log_start, start)
        partition.log_starts[start] = since

    def _add_final(self, operation: Operation, action: ReadAll) -> None:
        partition = self.partition(action.partition)
        self._add_reads(operation, action.records, action.read_committed)
        if operation.outcome is not Outcome.OK:
            partition.failed_final = operation
            return
        partition.failed_final = None
        values = {one.value for one in action.records}
        partition.finals[action.read_committed] = Final(operation, action, values)
        self._raise_log_start(action.partition, action.start)

    def _add_reads(self, operation: Operation, records: tuple[Read, ...], read_committed: bool) -> None:
        partitions = self.partitions
        for name, offset, key, value in records:
            partition = partitions.get(name) or self.partition(name)
            write = partition.writes.get(value)
            if write is None or write.action.key != key:
                read = Read(name, offset, key, value)
                partition.phantoms.setdefault((offset, value), (read, operation))
                continue
            if write.seen is None:
                write.seen, write.reader = offset, operation
            elif write.seen != offset:
                write.elsewhere = write.elsewhere or {}
                write.elsewhere.setdefault(offset, operation)
            if read_committed and write.committed_reader is None:
                write.committed_reader = operation
                if write.transaction is not None and write.transaction.read_by is None:
                    write.transaction.read_by = operation
            if partition.at.setdefault(offset, write) is not write:
                partition.conflicts.append((offset, write, operation))


def _add_acknowledged_offsets(partition: Partition) -> None:
    """The claims of acknowledgements. Without acks=all the record may have been replaced since."""
    for write in partition.writes.values():
        offset = write.acked
        if offset is None or not write.action.acks_all:
            continue
        if partition.at.setdefault(offset, write) is not write:
            partition.conflicts.append((offset, write, write.operation))


def _add_key_uses(partition: Partition) -> None:
    for write in partition.writes.values():
        if write.operation.outcome is Outcome.FAIL:
            continue
        uses = partition.keys.setdefault(write.action.key, KeyUses())
        uses.unplaced += not write.settled
        if write.place is not None:
            uses.highest = max(uses.highest, write.place, *(write.elsewhere or ()))
        if write.action.tombstone:
            uses.highest_tombstone = max(uses.highest_tombstone, -1 if write.place is None else write.place)
            uses.unplaced_tombstones += not write.settled
    for final in partition.finals.values():
        for read in final.action.records:
            found = partition.writes.get(read.value)
            if found is not None and (found.transaction is None or not found.transaction.aborted):
                uses = partition.keys.setdefault(read.key, KeyUses())
                uses.survivor = max(uses.survivor, read.offset)
