"""Records missing from the final readings: lost or unseen writes, torn transactions, reads past the high watermark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.checks.anomaly import Anomaly, Kind
from chaos.checks.facts import Facts, Final, Partition, Transaction, Write
from chaos.history import Operation, Poll


def check_missing(facts: Facts) -> Iterator[Anomaly]:
    """Compare what was acknowledged or read with the final reading of each partition."""
    incomplete: defaultdict[Transaction, list[tuple[Write, Final]]] = defaultdict(list)
    for partition in facts.partitions.values():
        for write in partition.writes.values():
            final = _lacking(partition, write)
            if final is None:
                continue
            if write.acknowledged and write.transaction is not None and write.transaction.committed:
                incomplete[write.transaction].append((write, final))
            else:
                yield from _gone(write, final)
        yield from _unseen(partition)
    for transaction, missing in incomplete.items():
        yield from _torn(transaction, missing)
    yield from _unread(facts)
    yield from _past_reported_high_watermark(facts)


def _lacking(partition: Partition, write: Write) -> Final | None:
    """A final reading that should have shown the write and did not."""
    if not _proves(write):
        return None
    for final in partition.covering(write):
        if write.action.value in final.values or not _known_before(write, final):
            continue
        place = write.place
        if place is None:
            if final.complete and partition.log_start == 0 and not partition.excused(write, 0):
                return final
        elif not final.action.position <= place < final.action.end and not partition.replaced(write, place, final):
            return final
    return None


def _proves(write: Write) -> bool:
    """Whether the write must be in the log: it was read, or acknowledged by all in-sync replicas."""
    return write.reader is not None or (write.acknowledged and write.action.acks_all)


def _known_before(write: Write, final: Final) -> bool:
    known = [] if write.reader is None else [write.reader]
    if write.acknowledged and write.action.acks_all:
        known.append(write.operation)
    return any([one.completed < final.operation.invoked for one in known])


def _gone(write: Write, final: Final) -> Iterator[Anomaly]:
    name, evidence = write.action.partition, (*write.evidence, final.operation)
    if write.acknowledged and write.action.acks_all and write.transaction is None:
        write.suspect = True
        said = f"{write.action.value!r} was acknowledged at {name}:{_at(write)} and is not in the log"
        yield Anomaly(Kind.LOST_WRITE, said, evidence)
    elif write.reader is not None:
        write.suspect = True
        said = f"{write.action.value!r} was read at {name}:{_at(write)} and is not in the log"
        yield Anomaly(Kind.PAST_HIGH_WATERMARK, said, evidence)


def _at(write: Write) -> str:
    return "an unknown offset" if write.place is None else str(write.place)


def _torn(transaction: Transaction, missing: list[tuple[Write, Final]]) -> Iterator[Anomaly]:
    """All writes missing: they are lost. Some: the transaction is torn."""
    for write, _ in missing:
        write.suspect = True
    commit = transaction.commit_ok or transaction.commits[0]
    visible = next((one for one in transaction.writes if one.committed_reader is not None), None)
    if visible is None or visible.committed_reader is None:
        for write, final in missing:
            said = f"{write.action.value!r} was acknowledged and committed, and is not in the log"
            yield Anomaly(Kind.LOST_WRITE, said, (write.operation, commit, final.operation))
        return
    write, final = missing[0]
    said = (
        f"{visible.action.value!r} in {visible.action.partition} is visible, and {write.action.value!r} in "
        f"{write.action.partition} of the same transaction is not ({len(missing)} of {len(transaction.writes)} missing)"
    )
    evidence = (visible.operation, visible.committed_reader, write.operation, commit, final.operation)
    yield Anomaly(Kind.TORN_TRANSACTION, said, evidence)


def _unseen(partition: Partition) -> Iterator[Anomaly]:
    """Final readings that failed, or ended before the end of the log."""
    if partition.failed_final is not None:
        yield from _unseen_by(partition, partition.failed_final, list(partition.writes.values()))
        return
    for final in partition.finals.values():
        position, end = final.action.position, final.action.end
        if position < end:
            beyond = [
                one
                for one in partition.writes.values()
                if (one.place is None or position <= one.place < end)
                and one.action.value not in final.values
                and final in partition.covering(one)
            ]
            yield from _unseen_by(partition, final.operation, beyond)


def _unread(facts: Facts) -> Iterator[Anomaly]:
    """Partitions without a final reading, of topics of which others have one."""
    last: dict[str, Operation] = {}
    for partition in facts.partitions.values():
        for final in partition.finals.values():
            topic, found = partition.name.topic, final.operation
            last[topic] = max(last.get(topic, found), found, key=lambda one: one.invoked)
    for partition in facts.partitions.values():
        reading = last.get(partition.name.topic)
        if reading is not None and not partition.finals and partition.failed_final is None:
            yield from _unseen_by(partition, reading, list(partition.writes.values()))


def _unseen_by(partition: Partition, reading: Operation, writes: list[Write]) -> Iterator[Anomaly]:
    unseen = [
        one
        for one in writes
        if one.acknowledged
        and one.action.acks_all
        and one.operation.completed < reading.invoked
        and (one.transaction is None or one.transaction.committed_by < reading.invoked)
        and not partition.excused(one, one.place or 0)
    ]
    if unseen:
        said = f"{len(unseen)} acknowledged writes of {partition.name} cannot be read, {unseen[0].action.value!r} first"
        yield Anomaly(Kind.UNSEEN, said, (unseen[0].operation, reading))


def _past_reported_high_watermark(facts: Facts) -> Iterator[Anomaly]:
    for polls in facts.consumers.values():
        for poll in polls:
            if not isinstance(poll.action, Poll) or not poll.action.high_watermarks:
                continue
            high_watermarks = dict(poll.action.high_watermarks)
            for name, offset, _, value in poll.action.records:
                end = high_watermarks.get(name)
                write = facts.partitions[name].writes.get(value)
                if end is None or offset < end or write is None or write.suspect:
                    continue
                write.suspect = True
                said = f"{value!r} was read at {name}:{offset} with the high watermark {end}"
                yield Anomaly(Kind.PAST_HIGH_WATERMARK, said, (write.operation, poll))
