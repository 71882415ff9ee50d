"""Whether a read-process-write program has counted each record of its input exactly once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from chaos.checks.anomaly import Anomaly, Kind, unique
from chaos.checks.facts import Facts
from chaos.history import FetchOffsets, Operation, Outcome, Read
from minikafka.protocol.names import TopicPartition

COUNTED = "counted "
COUNTING_GROUP = "counting"


class Output(NamedTuple):
    """A record of the output, and the reading that has it."""

    reading: Operation
    read: Read


def count_of(partition: TopicPartition, offset: int) -> str:
    """The key of the output of a record."""
    return f"{COUNTED}{partition} at {offset}"


def check_counted(facts: Facts) -> Iterator[Anomaly]:
    """Compare the last read_committed readings of outputs and inputs, and the committed offsets of the group.

    A reading has the records of a whole log, and one wrong commit is behind thousands of records that are counted
    twice: there is one anomaly for each partition of the input.
    """
    counted = dict[str, Output]()
    twice = defaultdict[str, list[tuple[Output, Output]]](list)
    for partition in facts.partitions.values():
        final = partition.finals.get(True)
        for read in () if final is None else final.action.records:
            if final is None or read.key is None or not read.key.startswith(COUNTED):
                continue
            output = Output(final.operation, read)
            earlier = counted.setdefault(read.key, output)
            if earlier.read.value != read.value:
                twice[read.key.rpartition(" at ")[0]].append((earlier, output))
    yield from map(_counted_twice, twice.values())
    unread = _outputs_unread(facts)
    for fetched in facts.fetched_offsets:
        action = fetched.action
        if isinstance(action, FetchOffsets) and action.group == COUNTING_GROUP:
            yield from _not_counted(facts, fetched, action, unread | counted.keys())


def _counted_twice(pairs: Sequence[tuple[Output, Output]]) -> Anomaly:
    """`pairs` are of one partition of the input."""
    one, other = pairs[0]
    said = (
        f"{one.read.key!r} is at {one.read.offset} of {one.read.partition}, {one.read.value!r}, and at "
        f"{other.read.offset} of {other.read.partition}, {other.read.value!r}"
    )
    if len(pairs) > 1:
        said += f"; and {len(pairs) - 1} more of its partition"
    return Anomaly(Kind.COUNTED_TWICE, said, unique(one.reading, other.reading))


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
