"""Whether a read-process-write program has counted each record of its input exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Set

from chaos.checks.anomaly import Anomaly, Kind
from chaos.checks.facts import Facts
from chaos.history import FetchOffsets, Operation, Outcome, Read
from minikafka.protocol.names import TopicPartition

COUNTED = "counted "
COUNTING_GROUP = "counting"


def count_of(partition: TopicPartition, offset: int) -> str:
    """The key of the output of a record."""
    return f"{COUNTED}{partition} at {offset}"


def check_counted(facts: Facts) -> Iterator[Anomaly]:
    """Compare the last read_committed readings of outputs and inputs, and the committed offsets of the group."""
    counted: dict[str, tuple[Operation, Read]] = {}
    for partition in facts.partitions.values():
        final = partition.finals.get(True)
        for read in () if final is None else final.action.records:
            if final is None or read.key is None or not read.key.startswith(COUNTED):
                continue
            earlier = counted.setdefault(read.key, (final.operation, read))
            if earlier[1].value != read.value:
                said = f"{read.key!r} is at {earlier[1].offset} of {earlier[1].partition}, and at {read.offset} too"
                evidence = dict.fromkeys((earlier[0], final.operation))
                yield Anomaly(Kind.COUNTED_TWICE, said, tuple(evidence))
    unread = _outputs_unread(facts)
    for fetched in facts.fetched_offsets:
        action = fetched.action
        if isinstance(action, FetchOffsets) and action.group == COUNTING_GROUP:
            yield from _not_counted(facts, fetched, action, unread | counted.keys())


def _outputs_unread(facts: Facts) -> Set[str]:
    """The keys of outputs that may be in partitions without a reading."""
    return {
        write.action.key
        for partition in facts.partitions.values()
        if True not in partition.finals
        for write in partition.writes.values()
        if write.action.key is not None and write.action.key.startswith(COUNTED)
        if write.operation.outcome is not Outcome.FAIL
        if write.transaction is None or not write.transaction.aborted
    }


def _not_counted(facts: Facts, fetched: Operation, action: FetchOffsets, counted: Set[str]) -> Iterator[Anomaly]:
    """`counted` has the keys of the outputs."""
    for name, committed in action.offsets:
        final = facts.partition(name).finals.get(True)
        if final is None or committed is None or fetched.invoked < final.operation.completed:
            continue
        for read in final.action.records:
            if read.offset < committed and count_of(name, read.offset) not in counted:
                said = f"{read.value!r} at {read.offset} of {name} has no output, and {committed} is committed"
                yield Anomaly(Kind.NOT_COUNTED, said, (final.operation, fetched))
                break
