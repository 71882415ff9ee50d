"""Replicas that differ below their high watermarks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from chaos.checks.anomaly import Anomaly, Kind
from chaos.checks.facts import Facts, Partition
from chaos.history import Operation, Read, ReplicaLog

Records = dict[int, Read]


def check_replicas(facts: Facts) -> Iterator[Anomaly]:
    """Compare the last logs of each two nodes; report the first difference."""
    for name, operations in facts.replica_logs.items():
        last = {one.action.node: one for one in operations if isinstance(one.action, ReplicaLog)}
        logs = [(one, {read.offset: read for read in _log(one).records}) for one in last.values()]
        for (one, mine), (other, theirs) in combinations(logs, 2):
            yield from _compare(facts.partition(name), one, other, mine, theirs)


def _log(operation: Operation) -> ReplicaLog:
    assert isinstance(operation.action, ReplicaLog)
    return operation.action


def _compare(
    partition: Partition, one: Operation, other: Operation, mine: Records, theirs: Records
) -> Iterator[Anomaly]:
    first, second = _log(one), _log(other)
    start = max(first.start, second.start)
    end = min(first.high_watermark, second.high_watermark)
    different = [
        offset
        for offset in {**mine, **theirs}
        if start <= offset < end and _differ(partition, mine.get(offset), theirs.get(offset))
    ]
    if different:
        at = min(different)
        said = (
            f"{partition.name}:{at} is {_value(mine.get(at))} on node {first.node} and {_value(theirs.get(at))} "
            f"on node {second.node}; {len(different)} offsets below {end} differ"
        )
        yield Anomaly(Kind.REPLICAS_DIFFER, said, (one, other))


def _differ(partition: Partition, mine: Read | None, theirs: Read | None) -> bool:
    """Each replica compacts its log at its own time, so that a record may be missing on one of them."""
    if mine is not None and theirs is not None:
        return mine[1:] != theirs[1:]
    return not partition.compacted


def _value(read: Read | None) -> str:
    return "missing" if read is None else f"{read.value!r}"
