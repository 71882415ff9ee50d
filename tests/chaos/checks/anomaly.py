"""A violated guarantee, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chaos.history import Operation


class Kind(StrEnum):
    """The kinds of anomalies; the package's docstring explains each."""

    LOST_WRITE = "lost acknowledged write"
    DUPLICATE = "duplicate"
    REORDERED = "reordered records"
    TWO_VALUES = "two values at one offset"
    POLL_BACK = "poll that goes back"
    SEND_BACK = "acknowledged offset that goes back"
    SKIPPED_POLL = "skipped poll"
    ABORTED_READ = "aborted read"
    PAST_HIGH_WATERMARK = "read past the high watermark"
    TORN_TRANSACTION = "torn transaction"
    COMMITTED_OFFSET_BACK = "committed offset that goes back"
    VALUE_RETURNS = "deleted value that returns"
    DELETED_READ = "deleted record that is read"
    UNSEEN = "write unseen after healing"
    REPLICAS_DIFFER = "replicas that differ below the high watermark"
    COUNTED_TWICE = "input counted twice"
    NOT_COUNTED = "input not counted"
    PHANTOM = "record that nobody produced"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A violated guarantee: its kind, a sentence with the facts, and the operations that prove it."""

    kind: Kind
    sentence: str
    evidence: tuple[Operation, ...]

    def __str__(self) -> str:
        return "\n  ".join([f"{self.kind}: {self.sentence}", *(str(one)[:300] for one in self.evidence)])


def unique(*operations: Operation) -> tuple[Operation, ...]:
    """Each operation once. They are told apart by id: a reading of a whole log takes a second to hash."""
    return tuple({one.id: one for one in operations}.values())
