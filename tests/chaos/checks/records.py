"""Records in the wrong place: two values at one offset, duplicates, and records that nobody produced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from chaos.checks.anomaly import Anomaly, Kind, unique
from chaos.checks.facts import Facts, Partition, Write
from chaos.history import NEVER, Operation


def check_records(facts: Facts) -> Iterator[Anomaly]:
    """Compare the offsets and values that were read with those that were sent and acknowledged."""
    for partition in facts.partitions.values():
        yield from _phantoms(partition)
        yield from _two_values(partition)
        for write in partition.writes.values():
            yield from _duplicates(write, partition.log_starts)


def _phantoms(partition: Partition) -> Iterator[Anomaly]:
    for read, reader in partition.phantoms.values():
        said = f"{read.value!r} with key {read.key!r} was read at {partition.name}:{read.offset}, and nobody sent it"
        write = partition.writes.get(read.value)
        yield Anomaly(Kind.PHANTOM, said, (reader,) if write is None else (write.operation, reader))


def _two_values(partition: Partition) -> Iterator[Anomaly]:
    """Offsets with two values, unless one of these is known to be missing: that is another kind."""
    found: dict[int, tuple[Write, Write, Operation]] = {}
    for offset, write, said_by in partition.conflicts:
        first = partition.at[offset]
        if not first.suspect and not write.suspect:
            found.setdefault(offset, (first, write, said_by))
    for offset, (first, write, said_by) in found.items():
        first.suspect = write.suspect = True
        said = f"{partition.name}:{offset} has {first.action.value!r} and {write.action.value!r}"
        yield Anomaly(Kind.TWO_VALUES, said, unique(*_claim(first, offset), write.operation, said_by))


def _claim(write: Write, offset: int) -> tuple[Operation, ...]:
    """The operations that say that a write is at an offset."""
    if write.acked == offset:
        return (write.operation,)
    reader = write.reader if write.seen == offset else (write.elsewhere or {})[offset]
    return (write.operation,) if reader is None else (write.operation, reader)


def _duplicates(write: Write, log_starts: Mapping[int, int]) -> Iterator[Anomaly]:
    if write.suspect or not write.action.idempotent or write.seen is None:
        return
    others = dict(write.elsewhere or {})
    if write.acked is not None and write.acked != write.seen:
        others.setdefault(write.acked, write.operation)
    if not others:
        return
    write.suspect = True
    found = {write.seen: write.reader, **others}
    offsets = sorted(found)
    if not all(_written_anew(first, last, found[last], log_starts) for first, last in pairwise(offsets)):
        said = f"{write.action.value!r} is in {write.action.partition} at the offsets {', '.join(map(str, offsets))}"
        yield Anomaly(Kind.DUPLICATE, said, unique(*write.evidence, *others.values()))


def _written_anew(first: int, last: int, said_by: Operation | None, log_starts: Mapping[int, int]) -> bool:
    """Whether the first copy may have been deleted before the last one was found.

    A replica that is made anew then has no batch of the producer below the log start, and no state of the producer: it
    takes a late request for the first one, as in Kafka.
    """
    found = NEVER if said_by is None else said_by.completed
    return any(first < start <= last and since < found for start, since in log_starts.items())
