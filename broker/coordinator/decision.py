"""`Decision`: the result of a coordinator's operation, which is records, replies and the next step.

A decision is made from state without waiting. The runtime appends its records as one batch, applies the records, sends
the replies and continues with `then`. No reply is sent before the records that the reply depends on are committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minikafka.protocol.errors import KafkaError

Ticket = object
"""Identifies a request that is answered now or later. The state machine only stores and compares tickets."""


class Now(NamedTuple):
    """The current time on two clocks.

    Attributes:
        clock_ms: Wall clock, milliseconds since 1970, for records. It can jump.
        steady_ms: Monotonic clock with an arbitrary origin, for deadlines.
    """

    clock_ms: int
    steady_ms: int


class Producer(NamedTuple):
    """The transactional producer on whose behalf the coordinator writes records.

    `verification` shows that the partition belongs to the producer's transaction (`broker/partitions/verification.py`).
    """

    producer_id: int
    epoch: int
    verification: object | None = None


@dataclass(slots=True)
class Decision:
    """One step of a coordinator: the records to write and the replies to send.

    Attributes:
        records: (key, value) in order; a value of None is a tombstone. Either all records are written or none.
        replies: (ticket, reply), sent once the records are committed.
        then: Makes the next decision, after the records were applied.
        refused: Makes the next decision after a failed append, in place of `replies` and `then`. If it is None, the
            tickets in `replies` receive the error.
        producer: Set for records that are part of a transaction.
    """

    records: list[tuple[Any, Any | None]] = field(default_factory=list)
    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    then: Callable[[], Decision] | None = None
    refused: Callable[[KafkaError], Decision] | None = None
    producer: Producer | None = None
