"""Short histories with one anomaly, each with a legal one beside it.

A function writes its history to a `Script` and returns the operations that prove the anomaly. With `legal=True` it
changes one thing, for example an acknowledgement to an unknown outcome, so that there is no anomaly.
"""

from __future__ import annotations

from dataclasses import replace

from chaos.checks.anomaly import Kind
from chaos.checks.counted import COUNTING_GROUP, count_of
from chaos.history import (
    DeleteRecords,
    FetchOffsets,
    Produce,
    Read,
    ReadAll,
    ReplicaLog,
)
from chaos.planted_compaction import HISTORIES as COMPACTION
from chaos.script import COMPACTED, FAIL, FIRST, OK, SECOND, UNKNOWN, Script


def lost(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Truncated and replaced after a change of leaders."""
    it.send("a", 0)
    sent = it.send("b", 1, outcome=UNKNOWN if legal else OK)
    it.send("c", 1, by="q")
    return sent, it.read_all((0, "a"), (1, "c"))


def lost_at_the_end(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The log ends before an acknowledged offset; without acks=all that may happen."""
    it.send("a", 0)
    sent = it.send("b", 1, acks_all=not legal)
    return sent, it.read_all((0, "a"))


def lost_without_an_offset(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The acknowledgement of a retry may have no offset; the record may have been deleted."""
    sent = it.send("a", None)
    it.send("b", 1)
    if legal:
        it.do("admin", DeleteRecords(FIRST, 1), UNKNOWN)
    return sent, it.read_all((1, "b"))


def lost_below_the_log_start(it: Script, *, legal: bool) -> tuple[int, ...]:
    sent = it.send("a", 0)
    it.send("b", 1)
    return sent, it.read_all((1, "b"), start=int(legal))


def read_below_the_log_start(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The reading finds a log start offset, and returns what is below it."""
    sent = it.send("a", 0)
    it.send("b", 1)
    return sent, it.read_all((0, "a"), (1, "b"), start=int(not legal))


def lost_transaction(it: Script, *, legal: bool) -> tuple[int, ...]:
    """A delayed request of an earlier commit may have aborted the transaction; or the commit is unknown."""
    it.begin()
    sent = it.send("a", 0, by="t")
    committed = it.commit(outcome=UNKNOWN if legal else OK)
    return sent, committed, it.read_all(end=2)


def duplicate(it: Script, *, legal: bool) -> tuple[int, ...]:
    """A retry that is stored again, of a producer that is not idempotent in the legal history."""
    sent = it.send("a", 0, outcome=UNKNOWN, idempotent=not legal)
    return sent, it.poll((0, "a"), (1, "a"))


def duplicate_in_the_final_reading(it: Script, *, legal: bool) -> tuple[int, ...]:
    sent = it.send("a", 0)
    read = it.poll((0, "a"))
    it.position(0)
    return sent, read, it.read_all((0, "a")) if legal else it.read_all((0, "a"), (1, "a"))


def reordered_writers(it: Script, *, legal: bool) -> tuple[int, ...]:
    """A write that began after another one's acknowledgement is before it. With a time-out it may be later."""
    first = it.send("a", None, by="p", outcome=UNKNOWN if legal else OK)
    second = it.send("b", None, by="q")
    it.poll((0, "b"), (1, "a"))
    return first, second


def reordered_in_flight(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Both are in flight; the order of the invocations counts for an idempotent producer."""
    actions = [Produce(FIRST, "k", value, idempotent=not legal) for value in ("a", "b")]
    events = [it.recorder.invoke("p", action) for action in actions]
    for event in events:
        it.recorder.complete(event, OK)
    it.poll((0, "b"), (1, "a"))
    return events[0].operation, events[1].operation


def reordered_without_acks_all(it: Script, *, legal: bool) -> tuple[int, ...]:
    """With acks=1 the acknowledged copy may be lost, and a repeated request arrive later."""
    first = it.send("a", None, by="p", idempotent=False, acks_all=not legal)
    second = it.send("b", None, by="q", idempotent=False)
    it.poll((0, "b"), (1, "a"))
    return first, second


def reordered_beside_a_copy(it: Script, *, legal: bool) -> tuple[int, ...]:
    """A producer that is not idempotent may write twice: a copy elsewhere than acknowledged may be behind any other."""
    first = it.send("a", 0 if legal else 2, by="p", idempotent=False)
    second = it.send("b", None, by="q")
    it.poll((1, "b"), (2, "a"))
    return first, second


def two_values(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Two consumers disagree; or they read two partitions."""
    sent = it.send("a", None, outcome=UNKNOWN), it.send("b", None, by="q", to=SECOND if legal else FIRST)
    read = it.poll((5, "a"), by="c"), it.poll((5, "b"), by="d", of=SECOND if legal else FIRST)
    return sent[0], read[0], sent[1], read[1]


def two_acknowledged_values(it: Script, *, legal: bool) -> tuple[int, ...]:
    """An acknowledgement with a wrong offset 0; one of unknown outcome may have any."""
    first = it.send("a", 0)
    second = it.send("b", 0, outcome=UNKNOWN if legal else OK)
    read = it.read_all((0, "a"), (1, "b"))
    assert read
    return first, second


def poll_back(it: Script, *, legal: bool) -> tuple[int, ...]:
    """After a rebalance the committed offset decides."""
    it.send("a", 0)
    it.send("b", 1)
    first = it.poll((0, "a"), (1, "b"))
    if legal:
        it.position(None)
    return first, it.poll((1, "b"))


def poll_back_within_one(it: Script, *, legal: bool) -> tuple[int, ...]:
    it.send("a", 0)
    it.send("b", 1)
    poll = it.poll((0, "a"), (1, "b")) if legal else it.poll((1, "b"), (0, "a"))
    return poll, poll


def poll_back_after_a_deletion(it: Script, *, legal: bool) -> tuple[int, ...]:
    """A leader had deleted the position of the consumer, which got the log start of the next one."""
    it.send("a", 0)
    it.send("b", 1)
    it.send("c", 2)
    first = it.poll((0, "a"), (1, "b"))
    it.do("d", DeleteRecords(FIRST, 3 if legal else 2))
    again = it.poll((0, "a"))
    it.read_all(start=3) if legal else it.read_all((2, "c"), start=2)
    return first, again


def poll_back_before_a_deletion(it: Script, *, legal: bool) -> tuple[int, ...]:
    it.send("a", 0)
    it.send("b", 1)
    it.send("c", 2)
    first = it.poll((0, "a"), (1, "b"))
    if not legal:
        again = it.poll((0, "a"))
    it.do("d", DeleteRecords(FIRST, 3))
    if legal:
        again = it.poll((0, "a"))
    it.read_all(start=3)
    return first, again


def poll_before_a_seek(it: Script, *, legal: bool) -> tuple[int, ...]:
    it.send("a", 0)
    it.send("b", 1)
    moved = it.position(0 if legal else 1, cause="seek")
    return moved, it.poll((0, "a"))


def send_back(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The acknowledged offsets of one producer fall; those of two producers whose requests cross may."""
    events = [it.recorder.invoke(by, Produce(FIRST, "k", value)) for by, value in (("p", "a"), ("p", "b"))]
    if legal:
        events[1] = it.recorder.invoke("q", Produce(FIRST, "k", "c"))
    for event, offset in zip(events, (7, 5), strict=True):
        assert isinstance(event.action, Produce)
        it.recorder.complete(event, OK, replace(event.action, offset=offset))
    return events[0].operation, events[1].operation


def skipped(it: Script, *, legal: bool) -> tuple[int, ...]:
    """A record that was acknowledged is passed over; one of unknown outcome need not be there."""
    it.send("a", 0)
    sent = it.send("b", 1, outcome=UNKNOWN if legal else OK)
    it.send("c", 2)
    first = it.poll((0, "a"))
    return first, it.poll((2, "c")), sent


def skipped_what_another_read(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Of unknown outcome, but another consumer has read it. A failed poll between may have passed over it."""
    it.send("a", 0)
    sent = it.send("b", None, outcome=UNKNOWN)
    it.send("c", 2)
    read = it.poll((0, "a"), (1, "b"), (2, "c"), by="d")
    first = it.poll((0, "a"))
    if legal:
        it.poll(outcome=UNKNOWN)
    return first, it.poll((2, "c")), sent, read


def skipped_transaction(it: Script, *, legal: bool) -> tuple[int, ...]:
    """A committed record is passed over; if the commit's outcome is unknown, it may have been aborted."""
    it.send("a", 0)
    it.begin()
    sent = it.send("b", 1, by="t")
    it.commit(outcome=UNKNOWN if legal else OK)
    it.send("c", 3)
    first = it.poll((0, "a"))
    return first, it.poll((3, "c")), sent


def skipped_after_a_seek(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The first poll after a seek; a deletion of unknown outcome may have removed the record."""
    sent = it.send("a", 0)
    it.send("b", 1)
    if legal:
        it.do("admin", DeleteRecords(FIRST, 1), UNKNOWN)
    moved = it.position(0, cause="seek")
    return moved, it.poll((1, "b")), sent


def aborted(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Read by read_committed, or by read_uncommitted, which may."""
    begun = it.begin()
    sent = it.send("a", 0, by="t")
    it.abort(outcome=UNKNOWN)
    return begun, sent, it.poll((0, "a"), read_committed=not legal)


def aborted_by_a_failed_commit(it: Script, *, legal: bool) -> tuple[int, ...]:
    begun = it.begin()
    sent = it.send("a", 0, by="t")
    committed = it.commit(outcome=UNKNOWN if legal else FAIL)
    return begun, sent, committed, it.poll((0, "a"))


def failed_but_read(it: Script, *, legal: bool) -> tuple[int, ...]:
    sent = it.send("a", None, outcome=UNKNOWN if legal else FAIL)
    return sent, it.poll((0, "a"))


def read_before_its_commit(it: Script, *, legal: bool) -> tuple[int, ...]:
    begun = it.begin()
    sent = it.send("a", 0, by="t")
    if legal:
        committed = it.commit()
        return begun, sent, committed, it.poll((0, "a"))
    read = it.poll((0, "a"))
    return begun, sent, it.commit(), read


def read_and_lost(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Not acknowledged, read, and not in the log at the end; retention may have deleted it."""
    sent = it.send("a", None, outcome=UNKNOWN)
    read = it.poll((0, "a"))
    it.send("b", 1)
    return sent, read, it.read_all((1, "b"), start=int(legal))


def read_and_replaced(it: Script, *, legal: bool) -> tuple[int, ...]:
    sent = it.send("a", None, outcome=UNKNOWN)
    if not legal:
        read = it.poll((0, "a"))
    it.send("b", 0, by="q")
    last = it.read_all((0, "b"))
    return (sent, last) if legal else (sent, read, last)


def read_above_a_high_watermark(it: Script, *, legal: bool) -> tuple[int, ...]:
    sent = it.send("a", 0)
    return sent, it.poll((0, "a"), high_watermark=int(legal))


def torn(it: Script, *, legal: bool) -> tuple[int, ...]:
    """One partition shows the transaction, the other one does not. Legal: the other write's outcome is unknown."""
    it.begin()
    shown = it.send("a", 0, by="t")
    hidden = it.send("b", 0, by="t", to=SECOND, outcome=UNKNOWN if legal else OK)
    committed = it.commit()
    read = it.read_all((0, "a"), end=2)
    return shown, read, hidden, committed, it.read_all(of=SECOND, end=2)


def torn_of_unknown_outcome(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The commit has no answer, but one partition shows it; in the legal history neither does."""
    it.begin()
    shown = it.send("a", 0, by="t")
    hidden = it.send("b", 0, by="t", to=SECOND)
    committed = it.commit(outcome=UNKNOWN)
    read = it.read_all(end=2) if legal else it.read_all((0, "a"), end=2)
    return shown, read, hidden, committed, it.read_all(of=SECOND, end=2)


def committed_offset_back(it: Script, *, legal: bool) -> tuple[int, ...]:
    """A commit of the lower offset without an answer may have taken effect last."""
    it.commit_offset(5, by="old", outcome=UNKNOWN if legal else OK)
    committed = it.commit_offset(10)
    return committed, it.fetch_offset(5)


def committed_offset_vanished(it: Script, *, legal: bool) -> tuple[int, ...]:
    committed = it.commit_offset(10, outcome=UNKNOWN if legal else OK)
    return committed, it.fetch_offset(None)


def committed_offset_of_a_transaction(it: Script, *, legal: bool) -> tuple[int, ...]:
    it.begin()
    committed = it.commit_offset(10, by="t")
    it.commit(outcome=UNKNOWN if legal else OK)
    return committed, it.fetch_offset(None)


def unseen(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The last reader stops before the end; nothing acknowledged is there in the legal history."""
    it.send("a", 0)
    sent = it.send("b", 1, outcome=UNKNOWN if legal else OK)
    return sent, it.read_all((0, "a"), position=1, end=2)


def unreadable(it: Script, *, legal: bool) -> tuple[int, ...]:
    sent = it.send("a", 0)
    read = it.read_all(outcome=UNKNOWN)
    if legal:
        it.read_all((0, "a"))
    return sent, read


def unseen_transaction(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The reader stops before a committed record; legal if the commit is requested after the reading."""
    it.begin()
    sent = it.send("a", 0, by="t")
    if not legal:
        it.commit()
    read = it.read_all(position=0, end=2)
    if legal:
        it.commit()
    return sent, read


def unseen_by_a_later_reader(it: Script, *, legal: bool) -> tuple[int, ...]:
    """A record that is acknowledged after the reading began need not be seen."""
    sent = it.recorder.invoke("p", Produce(FIRST, "k", "a"))
    reading = it.recorder.invoke("last", ReadAll(FIRST)) if legal else None
    it.recorder.complete(sent, OK, Produce(FIRST, "k", "a", 0))
    reading = reading or it.recorder.invoke("last", ReadAll(FIRST))
    it.recorder.complete(reading, OK, ReadAll(FIRST, position=0, end=1))
    return sent.operation, reading.operation


def unread_partition(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The last reader knows one partition of the topic, and not the other one."""
    sent = it.send("a", 0, to=SECOND)
    read = it.read_all()
    if legal:
        it.read_all((0, "a"), of=SECOND)
    return sent, read


def replicas_differ(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Above the high watermark replicas may differ."""
    it.send("a", 0)
    it.send("b", None, outcome=UNKNOWN)
    it.send("c", None, outcome=UNKNOWN, by="q")
    first = it.replica(1, (0, "a"), (1, "b"), high_watermark=2)
    return first, it.replica(2, (0, "a"), (1, "c"), high_watermark=1 if legal else 2)


def a_replica_lacks_a_record(it: Script, *, legal: bool) -> tuple[int, ...]:
    it.send("a", 0)
    first = it.replica(1, (0, "a"), high_watermark=1)
    return first, it.replica(2, high_watermark=0 if legal else 1)


def a_compacted_replica_lacks_a_record(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Each replica compacts its log at its own time."""
    of = COMPACTED if legal else FIRST
    it.send("a", 0, to=of)
    it.send("b", 1, to=of)
    records = [Read(of, 0, "k", "a"), Read(of, 1, "k", "b")]
    first = it.do("disk", ReplicaLog(of, 1, 0, 2, tuple(records)))
    return first, it.do("disk", ReplicaLog(of, 2, 0, 2, tuple(records[1:])))


def counted_twice(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Two outputs name one input, and not two inputs."""
    it.send("a", 0, to=SECOND, key=count_of(FIRST, 7))
    it.send("b", 1, to=SECOND, by="q", key=(other := count_of(FIRST, 8 if legal else 7)))
    reads = (Read(SECOND, 0, count_of(FIRST, 7), "a"), Read(SECOND, 1, other, "b"))
    return (it.do("last", ReadAll(SECOND, 0, 2, 2, reads)),)


def all_counted_twice(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The outputs of many inputs are there twice: one anomaly tells of all."""
    reads = list[Read]()
    for number in range(40):
        key = count_of(FIRST, number if legal else number % 20)
        it.send(f"v{number}", number, to=SECOND, by="q" if number < 20 else "p", key=key)
        reads.append(Read(SECOND, number, key, f"v{number}"))
    return (it.do("last", ReadAll(SECOND, 0, 40, 40, tuple(reads))),)


def not_counted(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The committed offset is behind an input without an output."""
    it.send("a", 0)
    reading = it.read_all((0, "a"))
    return reading, it.do("d", FetchOffsets(COUNTING_GROUP, ((FIRST, 0 if legal else 1),)))


def not_counted_in_an_aborted_transaction(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Nobody reads the partition of the output, whose transaction was aborted; in the legal history it may be there."""
    it.send("a", 0)
    it.begin()
    it.send("b", None, by="t", to=SECOND, key=count_of(FIRST, 0), outcome=UNKNOWN)
    if legal:
        it.commit(outcome=UNKNOWN)
    else:
        it.abort()
    reading = it.read_all((0, "a"))
    return reading, it.do("d", FetchOffsets(COUNTING_GROUP, ((FIRST, 1),)))


def phantom(it: Script, *, legal: bool) -> tuple[int, ...]:
    if legal:
        it.send("a", None, outcome=UNKNOWN)
    return (it.poll((0, "a")),)


def other_key(it: Script, *, legal: bool) -> tuple[int, ...]:
    sent = it.send("a", 0)
    return sent, it.poll((0, "a"), key="k" if legal else "other")


HISTORIES = {
    Kind.LOST_WRITE: [
        *COMPACTION[Kind.LOST_WRITE],
        lost,
        lost_at_the_end,
        lost_without_an_offset,
        lost_below_the_log_start,
        lost_transaction,
    ],
    Kind.DUPLICATE: [duplicate, duplicate_in_the_final_reading],
    Kind.REORDERED: [
        reordered_writers,
        reordered_in_flight,
        reordered_without_acks_all,
        reordered_beside_a_copy,
    ],
    Kind.TWO_VALUES: [two_values, two_acknowledged_values],
    Kind.POLL_BACK: [
        poll_back,
        poll_back_within_one,
        poll_back_after_a_deletion,
        poll_back_before_a_deletion,
        poll_before_a_seek,
    ],
    Kind.SEND_BACK: [send_back],
    Kind.SKIPPED_POLL: [skipped, skipped_what_another_read, skipped_transaction, skipped_after_a_seek],
    Kind.ABORTED_READ: [aborted, aborted_by_a_failed_commit, failed_but_read, read_before_its_commit],
    Kind.PAST_HIGH_WATERMARK: [read_and_lost, read_and_replaced, read_above_a_high_watermark],
    Kind.TORN_TRANSACTION: [torn, torn_of_unknown_outcome],
    Kind.COMMITTED_OFFSET_BACK: [
        committed_offset_back,
        committed_offset_vanished,
        committed_offset_of_a_transaction,
    ],
    Kind.VALUE_RETURNS: COMPACTION[Kind.VALUE_RETURNS],
    Kind.DELETED_READ: [read_below_the_log_start],
    Kind.UNSEEN: [unseen, unreadable, unseen_transaction, unseen_by_a_later_reader, unread_partition],
    Kind.REPLICAS_DIFFER: [replicas_differ, a_replica_lacks_a_record, a_compacted_replica_lacks_a_record],
    Kind.COUNTED_TWICE: [counted_twice, all_counted_twice],
    Kind.NOT_COUNTED: [not_counted, not_counted_in_an_aborted_transaction],
    Kind.PHANTOM: [phantom, other_key],
}
