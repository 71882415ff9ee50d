"""What readers of the Spark sink see of each micro-batch, by the offsets that the checkpoint has for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from support.bank.ledger import Auditor
from support.bank.transfers import Torn
from support.logins import Login

Row = tuple[int, int]
"""The partition and the offset of a record in the source topic, which its value also has."""


def value_of(row: Row) -> bytes:
    return b"%d:%d" % row


def rows_of(snapshot: Mapping[int, list[tuple[int, bytes]]]) -> Counter[Row]:
    """How often each row is in a snapshot of the target."""
    found: Counter[Row] = Counter()
    for records in snapshot.values():
        for _, value in records:
            partition, offset = value.split(b":")
            found[int(partition), int(offset)] += 1
    return found


def micro_batches(checkpoint: Path) -> dict[int, set[Row]]:
    """The rows of each micro-batch that has been planned."""
    ends: dict[int, dict[int, int]] = {}
    for path in (checkpoint / "offsets").glob("[0-9]*"):
        (offsets,) = json.loads(path.read_text().splitlines()[-1]).values()
        ends[int(path.name)] = {int(partition): int(offset) for partition, offset in offsets.items()}
    before: dict[int, int] = {}
    found = {}
    for number in sorted(ends):
        found[number] = {
            (partition, offset)
            for partition, end in ends[number].items()
            for offset in range(before.get(partition, 0), end)
        }
        before = ends[number]
    return found


class MicroBatchAudit:
    """Checks snapshots of the target.

    Attributes:
        whole: whether a micro-batch must be visible as a whole.
        snapshots: how many were checked.
    """

    def __init__(self, checkpoint: Path, *, once: bool, whole: bool) -> None:
        self.whole = whole
        self.snapshots = 0
        self._checkpoint = checkpoint
        self._once = once

    def check(self, snapshot: Mapping[int, list[tuple[int, bytes]]]) -> None:
        """Raises AssertionError for doubled rows, Torn for micro-batches that are visible in part."""
        self.snapshots += 1
        found = rows_of(snapshot)
        doubled = [row for row, count in found.items() if count > 1]
        assert not self._once or not doubled, f"{len(doubled)} rows are doubled: {doubled[:10]}"
        if self.whole:
            parts = [
                str(number)
                for number, rows in micro_batches(self._checkpoint).items()
                if 0 < len(rows & found.keys()) < len(rows)
            ]
            if parts:
                raise Torn(parts)


class SinkAuditor(Auditor):
    """Takes snapshots of the target until the block is left."""

    def __init__(self, login: Login, target: str, partitions: int, audit: MicroBatchAudit) -> None:
        super().__init__(login, target, partitions)
        self.audit = audit
