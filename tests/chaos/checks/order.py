"""The order of records in a partition, of acknowledged offsets, and of the records that a consumer receives."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from chaos.checks.anomaly import Anomaly, Kind
from chaos.checks.facts import Facts, Partition, Write
from chaos.history import Operation, Outcome, Poll, Position, Read
from minikafka.protocol.names import TopicPartition


def check_order(facts: Facts) -> Iterator[Anomaly]:
    """Check the order of records, then that of acknowledgements, then each consumer."""
    for partition in facts.partitions.values():
        yield from _reordered(partition)
        yield from _sends_back(partition)
    visible = _Visible(facts)
    for operations in facts.consumers.values():
        yield from _Consumer(visible).check(operations)


def _reordered(partition: Partition) -> Iterator[Anomaly]:
    """An acknowledged record that has a higher offset than one which was sent later.

    Later: after the acknowledgement, or by the same idempotent producer. Going through the log, it is enough to
    compare with the record that was sent last. Each such record is reported once.
    """
    last: Write | None = None
    last_of: dict[str, Write] = {}
    reported: set[int] = set()
    for offset in sorted(partition.at):
        write = partition.at[offset]
        if not _ordered(write, offset):
            continue
        own = last_of.get(write.operation.process)
        for other in (last, own):
            if other is None or other.operation.id in reported or not _overtaken(write, other):
                continue
            reported.add(other.operation.id)
            key = f" of key {write.action.key!r}" if write.action.key == other.action.key else ""
            said = (
                f"{write.action.value!r}{key} was sent before {other.action.value!r} and is behind it "
                f"in {partition.name}, at {offset} and {other.place}"
            )
            yield Anomaly(Kind.REORDERED, said, (write.operation, other.operation))
        if last is None or write.operation.invoked > last.operation.invoked:
            last = write
        if write.action.idempotent and (own is None or write.operation.invoked > own.operation.invoked):
            last_of[write.operation.process] = write


def _ordered(write: Write, offset: int) -> bool:
    """Whether the record is at this offset only, and not part of another anomaly."""
    failed = write.operation.outcome is Outcome.FAIL
    is_here = write.place == offset and write.acked in (None, offset)
    return not write.suspect and not write.elsewhere and is_here and not failed


def _overtaken(write: Write, other: Write) -> bool:
    """Whether `other`, which has a lower offset, was certainly sent later."""
    mine, theirs = write.operation, other.operation
    if not write.acknowledged:
        return False
    own = mine.process == theirs.process and write.action.idempotent and other.action.idempotent
    if own and write.acked is not None and other.acked is not None:
        return False  # the acknowledged offsets go back
    return (own and theirs.invoked > mine.invoked) or (write.action.acks_all and theirs.invoked > mine.completed)


def _sends_back(partition: Partition) -> Iterator[Anomaly]:
    last_of: dict[str, Write] = {}
    for write in partition.writes.values():
        acked = write.acked
        if acked is None or write.suspect or not write.action.idempotent:
            continue
        last = last_of.get(write.operation.process)
        if last is not None and last.acked is not None and acked < last.acked:
            said = (
                f"{write.operation.process} got the offset {acked} of {partition.name} for {write.action.value!r} "
                f"after {last.acked} for {last.action.value!r}, which it sent before"
            )
            yield Anomaly(Kind.SEND_BACK, said, (last.operation, write.operation))
        last_of[write.operation.process] = write


class _Visible:
    """The offsets whose records a consumer must receive if it receives a later one, by isolation."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._offsets: dict[tuple[TopicPartition, bool], list[int]] = {}

    def between(self, name: TopicPartition, before: int, after: int, *, read_committed: bool) -> Write | None:
        """The first such record between two offsets."""
        offsets = self._offsets.get((name, read_committed))
        if offsets is None:
            offsets = self._offsets[name, read_committed] = self._list(name, read_committed=read_committed)
        index = bisect_right(offsets, before)
        if index < len(offsets) and offsets[index] < after:
            return self._facts.partitions[name].at[offsets[index]]
        return None

    def _list(self, name: TopicPartition, *, read_committed: bool) -> list[int]:
        partition = self._facts.partitions[name]
        return sorted(
            offset
            for offset, write in partition.at.items()
            if not write.suspect
            and write.operation.outcome is not Outcome.FAIL
            and not (read_committed and write.transaction is not None and not write.transaction.committed)
            and not partition.excused(write, offset)
        )

    def deleted(self, name: TopicPartition, offset: int, until: int) -> bool:
        """Whether a replica may have deleted the offset by this position in the history."""
        partition = self._facts.partitions.get(name)
        starts = partition.log_starts.items() if partition is not None else ()
        return any(start > offset and since <= until for start, since in starts)


POSITION_UNSURE = -1
"""Instead of a count of lost polls: the next record may have any higher offset."""


class _Last(NamedTuple):
    """The last offset that a consumer received, or the one before that of a seek."""

    offset: int
    operation: Operation
    polls_lost: int
    """The count of unsuccessful polls before: one since then may have passed over records."""


class _Consumer:
    """The positions of a consumer."""

    def __init__(self, visible: _Visible) -> None:
        self._visible = visible
        self._last: dict[TopicPartition, _Last] = {}
        self._polls_lost = 0

    def check(self, operations: list[Operation]) -> Iterator[Anomaly]:
        for operation in operations:
            match operation.action:
                case Position(positions):
                    self._move(operation, positions)
                case Poll(records, read_committed) if operation.outcome is Outcome.OK:
                    yield from self._follow(operation, records, self._last, read_committed)
                case Poll(records, read_committed):
                    last = {name: self._last[name] for name, *_ in records if name in self._last}
                    yield from self._follow(operation, records, last, read_committed)
                    self._polls_lost += 1
                case _:
                    pass

    def _move(self, operation: Operation, positions: tuple[tuple[TopicPartition, int | None], ...]) -> None:
        for name, offset in positions:
            self._last.pop(name, None)
            if offset is not None and operation.outcome is Outcome.OK:
                self._last[name] = _Last(offset - 1, operation, self._polls_lost)

    def _may_be_reset(self, name: TopicPartition, before: _Last, poll: Operation) -> bool:
        """Whether the consumer may have been out of range at one leader, and then have got the log start of another,
        which has not deleted as much."""
        return before.operation is not poll and self._visible.deleted(name, before.offset + 1, poll.completed)

    def _follow(
        self, poll: Operation, records: tuple[Read, ...], last: dict[TopicPartition, _Last], read_committed: bool
    ) -> Iterator[Anomaly]:
        for name, offset, _, value in records:
            before = last.get(name)
            last[name] = _Last(offset, poll, self._polls_lost)
            if before is None or offset == before.offset + 1:
                continue
            if offset <= before.offset and self._may_be_reset(name, before, poll):
                continue
            if offset <= before.offset:
                said = f"{poll.process} received {value!r} at {name}:{offset} after {before.offset}"
                yield Anomaly(Kind.POLL_BACK, said, (before.operation, poll))
                last[name] = _Last(offset, poll, POSITION_UNSURE)
                continue
            if before.polls_lost != self._polls_lost:
                continue
            skipped = self._visible.between(name, before.offset, offset, read_committed=read_committed)
            if skipped is not None:
                said = (
                    f"{poll.process} received {name}:{offset} after {before.offset}, "
                    f"without {skipped.action.value!r} at {skipped.place}"
                )
                yield Anomaly(Kind.SKIPPED_POLL, said, (before.operation, poll, *skipped.evidence))
