"""What a coordinator decides: records for the log, answers for those who asked, and what follows.

Decide, then apply. A decision is made from state without waiting for anything; the runtime appends its records as one
batch, applies them, hands out the answers and goes on with `then`. Nothing is answered before what it rests on is
committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minikafka.protocol.errors import KafkaError

Ticket = object
"""Stands for one request that wants an answer, now or later. The core keeps it and compares it, nothing else."""


class Now(NamedTuple):
    """The time, twice.

    Attributes:
        clock_ms: Time of day, milliseconds since 1970: what goes into records. It can jump.
        steady_ms: A clock that only runs forward, from anywhere: what deadlines are measured by.
    """

    clock_ms: int
    steady_ms: int


class Producer(NamedTuple):
    """The transactional producer in whose name records are written."""

    producer_id: int
    epoch: int


@dataclass(slots=True)
class Decision:
    """One step of a coordinator.

    Attributes:
        records: Key and value messages, in order; a value of None is a tombstone. All or none are written.
        replies: Who is answered, and with what, once the records are in the log.
        then: The next step, decided from the state to which the records have been applied.
        refused: Taken instead of `replies` and `then` where the log did not take the records. Without it the error
            goes to whoever asked.
        producer: Set for records that are part of a transaction.
    """

    records: list[tuple[Any, Any | None]] = field(default_factory=list)
    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    then: Callable[[], Decision] | None = None
    refused: Callable[[KafkaError], Decision] | None = None
    producer: Producer | None = None
