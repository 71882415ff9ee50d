"""Deleted records that are returned: below the log start offset."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.checks.anomaly import Anomaly, Kind
from chaos.checks.facts import Facts, Final, Partition


def check_deleted(facts: Facts) -> Iterator[Anomaly]:
    """Look in the final readings for records below the log start offset that the same reading found."""
    for partition in facts.partitions.values():
        for final in partition.finals.values():
            yield from _returned(partition, final)


def _returned(partition: Partition, final: Final) -> Iterator[Anomaly]:
    start = final.action.start
    for read in final.action.records:
        write = partition.writes.get(read.value)
        if read.offset >= start or write is None or write.suspect:
            continue
        write.suspect = True
        said = f"{read.value!r} was read at {partition.name}:{read.offset}, and the log starts at {start}"
        yield Anomaly(Kind.DELETED_READ, said, (write.operation, final.operation))
