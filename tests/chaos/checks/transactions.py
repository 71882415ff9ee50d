"""Reads of records that certainly failed, or whose transactions were not committed."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.checks.anomaly import Anomaly, Kind
from chaos.checks.facts import Facts, Transaction, Write
from chaos.history import NEVER, Outcome


def check_aborted_reads(facts: Facts) -> Iterator[Anomaly]:
    """Report each record once that should not have been returned to its first reader."""
    for partition in facts.partitions.values():
        for write in partition.writes.values():
            if write.reader is None:
                continue
            if write.transaction is not None:
                yield from _transactional(write, write.transaction)
            elif write.operation.outcome is Outcome.FAIL:
                said = f"{write.action.value!r} was read from {partition.name} although sending it failed"
                yield Anomaly(Kind.ABORTED_READ, said, (write.operation, write.reader))


def _transactional(write: Write, transaction: Transaction) -> Iterator[Anomaly]:
    """read_uncommitted consumers may read everything that a transaction sent."""
    reader = write.committed_reader
    if reader is None:
        return
    evidence = (transaction.begin, write.operation, *transaction.commits[:1], reader)
    requested = min([one.invoked for one in transaction.commits], default=NEVER)
    if write.operation.outcome is Outcome.FAIL or transaction.aborted:
        said = f"{write.action.value!r} was read from {write.action.partition} although it was not committed"
        yield Anomaly(Kind.ABORTED_READ, said, evidence)
    elif reader.completed < requested:
        said = f"{write.action.value!r} was read from {write.action.partition} before its commit was requested"
        yield Anomaly(Kind.ABORTED_READ, said, evidence)
