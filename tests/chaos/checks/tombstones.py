"""Deleted values that return: the tombstone has been removed, and a record that it deletes has not."""

from __future__ import annotations

from collections.abc import Iterator, Set

from chaos.checks.anomaly import Anomaly, Kind
from chaos.checks.facts import Facts, Final, Partition, Write


def check_tombstones(facts: Facts, forgetting: Set[str]) -> Iterator[Anomaly]:
    """Look in the final readings of these topics for records before a tombstone of their key that is missing.

    A log may be cleaned while it is read: then one reading has the beginning as it was before, and the end as it is
    afterwards. So each final reading must have the record, and none the tombstone.
    """
    for partition in facts.partitions.values():
        finals = list(partition.finals.values())
        if partition.name.topic in forgetting and finals:
            found = set[str]().union(*(final.values for final in finals))
            always = set(finals[0].values).intersection(*(final.values for final in finals[1:]))
            yield from _returned(partition, min(finals, key=lambda final: final.operation.invoked), found, always)


def _returned(partition: Partition, final: Final, found: Set[str], always: Set[str]) -> Iterator[Anomaly]:
    gone = _last_gone(partition, final, found)
    for read in final.action.records:
        tombstone = gone.get(read.key) if read.value in always else None
        write = partition.writes.get(read.value)
        if tombstone is None or write is None or write.suspect or read.offset >= (tombstone.place or 0):
            continue
        write.suspect = True
        said = (
            f"{read.value!r} of key {read.key!r} is at {partition.name}:{read.offset}, and the tombstone "
            f"{tombstone.action.value!r} behind it, at {tombstone.place}, has been removed"
        )
        yield Anomaly(Kind.VALUE_RETURNS, said, (write.operation, tombstone.operation, final.operation))


def _last_gone(partition: Partition, final: Final, values: Set[str]) -> dict[str | None, Write]:
    """The last tombstone of each key that was certainly in the log when the reading began, and is not in `values`."""
    found: dict[str | None, Write] = {}
    for write in partition.writes.values():
        if not write.action.tombstone or write.suspect or not write.settled or not write.acknowledged:
            continue
        if write.action.value in values or write.operation.completed >= final.operation.invoked:
            continue
        if write.transaction is not None and write.transaction.committed_by >= final.operation.invoked:
            continue
        last = found.get(write.action.key)
        if last is None or (last.place or 0) < (write.place or 0):
            found[write.action.key] = write
    return found
