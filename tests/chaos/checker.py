"""Finds the anomalies of a history; the package's docstring explains them."""

from __future__ import annotations

from collections.abc import Iterable, Set

from chaos.checks.anomaly import Anomaly, Kind
from chaos.checks.counted import check_counted
from chaos.checks.deleted import check_deleted
from chaos.checks.facts import Facts
from chaos.checks.missing import check_missing
from chaos.checks.offsets import check_committed_offsets
from chaos.checks.order import check_order
from chaos.checks.records import check_records
from chaos.checks.replicas import check_replicas
from chaos.checks.tombstones import check_tombstones
from chaos.checks.transactions import check_aborted_reads
from chaos.history import Event, operations

__all__ = ["Anomaly", "Kind", "check"]


def check(
    history: Iterable[Event],
    *,
    compacted: Set[str] = frozenset(),
    keeping: Set[str] = frozenset(),
    forgetting: Set[str] = frozenset(),
) -> list[Anomaly]:
    """The anomalies of a history.

    The order of the checks matters: a record that is part of one anomaly is not evidence of a later one.

    Args:
        compacted: The topics with cleanup.policy=compact.
        keeping: Those of them whose delete.retention.ms is longer than the history: a tombstone stays, unless a later
            record of its key replaces it.
        forgetting: Those of them of which no replica was ever away for longer than delete.retention.ms: a tombstone
            goes only after what it deletes.

    Raises:
        ValueError: The history is malformed: a completion without an invocation, or a value sent twice to a partition.
    """
    facts = Facts(operations(history), compacted, keeping)
    return [
        *check_missing(facts),
        *check_tombstones(facts, forgetting),
        *check_deleted(facts),
        *check_records(facts),
        *check_aborted_reads(facts),
        *check_order(facts),
        *check_committed_offsets(facts),
        *check_counted(facts),
        *check_replicas(facts),
    ]
