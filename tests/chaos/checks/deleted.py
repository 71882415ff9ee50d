"""Deleted records that are returned: below the log start offset."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.checks.anomaly import Anomaly, Kind
from chaos.checks.facts import Facts, Final, Partition
from chaos.history import Operation


def check_deleted(facts: Facts) -> Iterator[Anomaly]:
    """Look in the final readings for records below the log start offset that was known when they began."""
    for partition in facts.partitions.values():
        for final in partition.finals.values():
            yield from _returned(partition, final)


def _returned(partition: Partition, final: Final) -> Iterator[Anomaly]:
    start, shown_by = _known_start(partition, final)
    for read in final.action.records:
        write = partition.writes.get(read.value)
        if read.offset >= start or write is None or write.suspect:
            continue
        write.suspect = True
        said = f"{read.value!r} was read at {partition.name}:{read.offset}, and the log starts at {start}"
        evidence = (write.operation, shown_by, final.operation)
        yield Anomaly(Kind.DELETED_READ, said, tuple(dict.fromkeys(evidence)))


def _known_start(partition: Partition, final: Final) -> tuple[int, Operation]:
    """The log start offset that the reading found, or a higher one that was known before, and what shows it."""
    known = [(final.action.start, final.operation)]
    known += [(start, one) for start, one in partition.log_starts if one.completed < final.operation.invoked]
    return max(known, key=lambda one: one[0])
