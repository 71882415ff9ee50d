"""Plants an anomaly in a legal history: a function changes the events, and returns whether it found a place for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from typing import Protocol

from chaos.checks.anomaly import Kind
from chaos.checks.facts import Facts, Partition, Write
from chaos.history import (
    INVOKE,
    AbortTransaction,
    CommitOffsets,
    CommitTransaction,
    Event,
    FetchOffsets,
    Outcome,
    Poll,
    Produce,
    Read,
    ReadAll,
    Recorder,
    ReplicaLog,
    operations,
)
from chaos.model import COMPACTED

Events = list[Event]
Place = tuple[Partition, Write]


class Sabotage(Protocol):
    """Plants an anomaly, if it finds a place."""

    __name__: str

    def __call__(self, it: History, /) -> bool: ...


class History:
    """The events to change, and the facts about them beforehand."""

    def __init__(
        self, events: Events, chance: random.Random, compacted: Set[str] = frozenset({COMPACTED})
    ) -> None:
        self.events = events
        self.chance = chance
        self.facts = Facts(operations(events), compacted)

    def writes(self, suits: Callable[[Write], bool] = lambda write: True) -> list[Place]:
        """Durable records of topics without compaction that must be in the log."""
        return [
            (partition, write)
            for partition in self.facts.partitions.values()
            for write in partition.writes.values()
            if write.action.idempotent
            and not partition.compacted
            and write.reader is not None
            and write.seen is not None
            and write.seen >= partition.log_start
            and suits(write)
        ]

    def choose(self, places: list[Place]) -> Place | None:
        return self.chance.choice(places) if places else None

    def completion(self, operation: int) -> int:
        return next(at for at, one in enumerate(self.events) if one.operation == operation and one.type != INVOKE)

    def polls(self) -> Iterator[tuple[int, Poll]]:
        for at, event in enumerate(self.events):
            if isinstance(event.action, Poll) and event.type == Outcome.OK and event.action.records:
                yield at, event.action

    def change_finals(self, write: Write, change: Callable[[ReadAll], ReadAll]) -> None:
        for at, event in enumerate(self.events):
            if isinstance(event.action, ReadAll) and event.action.partition == write.action.partition:
                self.events[at] = replace(event, action=change(event.action))

    def remove_from_finals(self, write: Write) -> None:
        def change(action: ReadAll) -> ReadAll:
            return replace(action, records=tuple(one for one in action.records if one.value != write.action.value))

        self.change_finals(write, change)


def _alone(write: Write) -> bool:
    return write.transaction is None


def lose(it: History) -> bool:
    place = it.choose(it.writes(lambda write: write.acknowledged and _alone(write)))
    if place is not None:
        it.remove_from_finals(place[1])
    return place is not None


def lose_after_reading(it: History) -> bool:
    """The record's outcome becomes unknown, so that its loss shows that it was read too early."""
    place = it.choose(it.writes(lambda write: _alone(write) and _polled(write)))
    if place is None:
        return False
    _, write = place
    at = it.events.index(next(one for one in it.events if one.operation == write.operation.id))
    last = [number for number, one in enumerate(it.events) if one.operation == write.operation.id][-1]
    if last != at:
        unknown = replace(write.action, offset=None)
        it.events[last] = replace(it.events[last], type=Outcome.UNKNOWN.value, action=unknown)
    it.remove_from_finals(write)
    return True


def _polled(write: Write) -> bool:
    return write.reader is not None and isinstance(write.reader.action, Poll)


def duplicate(it: History) -> bool:
    place = it.choose(it.writes(_alone))
    if place is None:
        return False
    write = place[1].action

    def change(action: ReadAll) -> ReadAll:
        again = Read(action.partition, action.end, write.key, write.value)
        return replace(action, records=(*action.records, again), position=action.end + 1, end=action.end + 1)

    it.change_finals(place[1], change)
    return True


def reorder(it: History) -> bool:
    """All readers see a record behind one that was sent after its acknowledgement, which has no offset."""
    for partition in it.facts.partitions.values():
        before: Write | None = None
        for offset in sorted(partition.at):
            write = partition.at[offset]
            plain = _alone(write) and write.action.idempotent and not partition.compacted and write.acknowledged
            if not plain or offset < partition.log_start or write.seen is None:
                continue
            if before is not None and before.operation.completed < write.operation.invoked:
                _swap(it, before, write)
                return True
            before = write
    return False


def _swap(it: History, one: Write, other: Write) -> None:
    values = {one.action.value: other.action, other.action.value: one.action}

    def swapped(read: Read) -> Read:
        other = values.get(read.value) if read.partition == one.action.partition else None
        return read if other is None else Read(read.partition, read.offset, other.key, other.value)

    for at, event in enumerate(it.events):
        if isinstance(event.action, Poll | ReadAll):
            records = tuple(swapped(read) for read in event.action.records)
            it.events[at] = replace(event, action=replace(event.action, records=records))
    for write in (one, other):
        at = it.completion(write.operation.id)
        it.events[at] = replace(it.events[at], action=replace(write.action, offset=None))


def two_values(it: History) -> bool:
    """An acknowledgement names the offset of another record."""
    place = it.choose(it.writes(lambda write: write.acknowledged and _alone(write)))
    if place is None:
        return False
    partition, write = place
    others = [one for _, one in it.writes(_alone) if one is not write and one.action.partition == partition.name]
    if not others:
        return False
    at = it.completion(write.operation.id)
    it.events[at] = replace(it.events[at], action=replace(write.action, offset=it.chance.choice(others).seen))
    return True


def poll_again(it: History) -> bool:
    polls = list(it.polls())
    if polls:
        at, poll = it.chance.choice(polls)
        it.events[at] = replace(it.events[at], action=replace(poll, records=(*poll.records, poll.records[0])))
    return bool(polls)


def skip(it: History) -> bool:
    """One record is missing in a poll, between two others of the partition."""
    must = {(write.action.partition, write.action.value) for _, write in it.writes(_alone)}
    places = [
        (at, poll, middle)
        for at, poll in it.polls()
        for middle, read in enumerate(poll.records[1:-1], 1)
        if {poll.records[middle - 1].partition, poll.records[middle + 1].partition} == {read.partition}
        and (read.partition, read.value) in must
    ]
    if places:
        at, poll, middle = it.chance.choice(places)
        records = (*poll.records[:middle], *poll.records[middle + 1 :])
        it.events[at] = replace(it.events[at], action=replace(poll, records=records))
    return bool(places)


def fail(it: History) -> bool:
    place = it.choose(it.writes(_alone))
    if place is None or place[1].operation.completed > len(it.events):
        return False
    at = it.completion(place[1].operation.id)
    it.events[at] = replace(it.events[at], type=Outcome.FAIL.value)
    return True


def abort(it: History) -> bool:
    """Every commit of a transaction becomes an abort."""
    read = [one for one in it.facts.transactions if one.read_by is not None]
    if read:
        ids = {one.id for one in it.chance.choice(read).commits}
        for at, event in enumerate(it.events):
            if isinstance(event.action, CommitTransaction) and event.operation in ids:
                it.events[at] = replace(event, action=AbortTransaction())
    return bool(read)


def tear(it: History) -> bool:
    def suits(write: Write) -> bool:
        transaction = write.transaction
        if transaction is None or not transaction.committed or not write.acknowledged:
            return False
        return any([one is not write and one.committed_reader is not None for one in transaction.writes])

    place = it.choose(it.writes(suits))
    if place is not None:
        it.remove_from_finals(place[1])
    return place is not None


def forget_a_commit(it: History) -> bool:
    partition = it.chance.choice(list(it.facts.partitions))
    recorder = Recorder(events=it.events, next_number=len(it.events))
    for action in (CommitOffsets("group", ((partition, 1000),)), FetchOffsets("group", ((partition, 500),))):
        recorder.complete(recorder.invoke("late", action), Outcome.OK)
    return True


def stop_reading(it: History) -> bool:
    place = it.choose(it.writes(lambda write: write.acknowledged and _alone(write)))
    if place is None:
        return False
    stop = place[1].seen or 0

    def change(action: ReadAll) -> ReadAll:
        return replace(action, records=tuple(one for one in action.records if one.offset < stop), position=stop)

    it.change_finals(place[1], change)
    return True


def leave_a_partition_unread(it: History) -> bool:
    """Of a topic whose other partition is read."""
    place = it.choose(it.writes(lambda write: write.acknowledged and write.action.partition.topic == "events"))
    if place is None:
        return False
    name = place[0].name
    it.events[:] = [one for one in it.events if not isinstance(one.action, ReadAll) or one.action.partition != name]
    return True


def change_a_replica(it: History) -> bool:
    for at, event in enumerate(it.events):
        log = event.action
        if isinstance(log, ReplicaLog) and event.type == Outcome.OK:
            below = [
                number for number, one in enumerate(log.records) if log.start <= one.offset < log.high_watermark - 1
            ]
            if below:
                chosen = it.chance.choice(below)
                other = log.records[chosen]._replace(value="rotten")
                records = (*log.records[:chosen], other, *log.records[chosen + 1 :])
                it.events[at] = replace(event, action=replace(log, records=records))
                return True
    return False


def invent(it: History) -> bool:
    polls = list(it.polls())
    if polls:
        at, poll = it.chance.choice(polls)
        invented = poll.records[-1]._replace(value="invented")
        it.events[at] = replace(it.events[at], action=replace(poll, records=(*poll.records[:-1], invented)))
    return bool(polls)


def lower_an_offset(it: History) -> bool:
    partition = it.chance.choice(list(it.facts.partitions))
    recorder = Recorder(events=it.events, next_number=len(it.events))
    for value, offset in (("first", 1000_000), ("second", 999_999)):
        sent = Produce(partition, "key", value)
        recorder.complete(recorder.invoke("late", sent), Outcome.OK, replace(sent, offset=offset))
    return True


SABOTAGE: list[tuple[Sabotage, Kind]] = [
    (lose, Kind.LOST_WRITE),
    (lose_after_reading, Kind.PAST_HIGH_WATERMARK),
    (duplicate, Kind.DUPLICATE),
    (reorder, Kind.REORDERED),
    (two_values, Kind.TWO_VALUES),
    (poll_again, Kind.POLL_BACK),
    (skip, Kind.SKIPPED_POLL),
    (fail, Kind.ABORTED_READ),
    (abort, Kind.ABORTED_READ),
    (tear, Kind.TORN_TRANSACTION),
    (forget_a_commit, Kind.COMMITTED_OFFSET_BACK),
    (stop_reading, Kind.UNSEEN),
    (leave_a_partition_unread, Kind.UNSEEN),
    (change_a_replica, Kind.REPLICAS_DIFFER),
    (invent, Kind.PHANTOM),
    (lower_an_offset, Kind.SEND_BACK),
]
