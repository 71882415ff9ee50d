"""Decision: the records, replies and next step that a coordinator's operation results in.

A decision is made from state without waiting. The runtime appends its records as one batch, applies them, sends the
replies and continues with `then`. No reply is sent before the records it depends on are committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minikafka.protocol.errors import KafkaError

Ticket = object
"""Identifies a request that is answered now or later. The state machine only stores and compares it."""


class Now(NamedTuple):
    """The current time on two clocks.

    Attributes:
        clock_ms: Wall clock, milliseconds since 1970, for records. It can jump.
        steady_ms: Monotonic clock with an arbitrary origin, for deadlines.
    """

    clock_ms: int
    steady_ms: int


class Producer(NamedTuple):
    """The transactional producer of the records.

    `verification` shows that the partition belongs to the producer's transaction (`broker/partitions/verification.py`).
    """

    producer_id: int
    epoch: int
    verification: object | None = None


@dataclass(slots=True)
class Decision:
    """One step of a coordinator.

    Attributes:
        records: (key, value) in order; a value of None is a tombstone. Written all or none.
        replies: (ticket, reply), sent once the records are committed.
        then: The next step, made after the records were applied.
        refused: The next step after a failed append, in place of `replies` and `then`. Without it the tickets in
            `replies` receive the error.
        producer: Set for records that are part of a transaction.
    """

    records: list[tuple[Any, Any | None]] = field(default_factory=list)
    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    then: Callable[[], Decision] | None = None
    refused: Callable[[KafkaError], Decision] | None = None
    producer: Producer | None = None
