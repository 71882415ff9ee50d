"""The history of a run: operations of clients, their outcomes, and the reading and writing of both as JSON lines.

An operation is two events: its invocation and its completion. The order of the events is their order in real time, so
one recorder must write them all. An operation without a completion has an unknown outcome.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple

from minikafka.protocol.names import TopicPartition

NEVER = sys.maxsize
"""The position of an event that did not happen."""


class Outcome(StrEnum):
    """Whether an operation took effect: yes; no, neither now nor later; unknown, perhaps later."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


INVOKE = "invoke"


class Read(NamedTuple):
    """A record that was read, as the value of its key at an offset of a partition."""

    partition: TopicPartition
    offset: int
    key: str | None
    value: str


@dataclass(frozen=True, slots=True)
class Produce:
    """Sends one record. It belongs to the transaction that its process has begun and not ended.

    `value` names the record: no other record of the partition has it. A tombstone carries this name in a header.
    `offset` is that of the acknowledgement, None if there is none. `acks_all` and `idempotent` are the producer's
    settings; without them, loss or duplicates are no anomalies.
    """

    partition: TopicPartition
    key: str | None
    value: str
    offset: int | None = None
    acks_all: bool = True
    idempotent: bool = True
    tombstone: bool = False


@dataclass(frozen=True, slots=True)
class Poll:
    """Returns records to a consumer. `high_watermarks` are those of the fetch responses, if the harness has them.

    Records that a consumer received count even if the poll failed.
    """

    records: tuple[Read, ...] = ()
    read_committed: bool = True
    high_watermarks: tuple[tuple[TopicPartition, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """A consumer's positions change other than by polling: assignment, rebalance, seek, or reset.

    The operation must complete before the poll that first returns records from the new position. An offset of None
    is unknown, for example that of a rebalance, where the committed offset decides.
    """

    positions: tuple[tuple[TopicPartition, int | None], ...]
    cause: str = "seek"


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """Begins a transaction of the process."""


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    """Commits the transaction of the process."""


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    """Aborts the transaction of the process."""


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commits offsets of a group, inside the transaction of the process if it has begun one."""

    group: str
    offsets: tuple[tuple[TopicPartition, int], ...]


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """Reads committed offsets of a group; None where there is none."""

    group: str
    offsets: tuple[tuple[TopicPartition, int | None], ...]


@dataclass(frozen=True, slots=True)
class ReadAll:
    """Reads a partition from its log start to its end, after all faults have been healed.

    Attributes:
        start: The log start offset.
        position: Where reading ended; `end`, unless the reader made no progress.
        end: The high watermark when reading began, also for read_committed.
    """

    partition: TopicPartition
    start: int = 0
    position: int = 0
    end: int = 0
    records: tuple[Read, ...] = ()
    read_committed: bool = True


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """Reads the log of one replica from its disk. A value may be a digest of the record's bytes."""

    partition: TopicPartition
    node: int
    start: int = 0
    high_watermark: int = 0
    records: tuple[Read, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Deletes the records of a partition below an offset; -1 is the high watermark."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class LogStart:
    """Reads the log start offset of a partition, which retention may have moved."""

    partition: TopicPartition
    offset: int = 0


Action = (
    Produce
    | Poll
    | Position
    | BeginTransaction
    | CommitTransaction
    | AbortTransaction
    | CommitOffsets
    | FetchOffsets
    | ReadAll
    | ReplicaLog
    | DeleteRecords
    | LogStart
)

ACTIONS: dict[str, type[Any]] = {
    "produce": Produce,
    "poll": Poll,
    "position": Position,
    "begin": BeginTransaction,
    "commit": CommitTransaction,
    "abort": AbortTransaction,
    "commit_offsets": CommitOffsets,
    "fetch_offsets": FetchOffsets,
    "read_all": ReadAll,
    "replica_log": ReplicaLog,
    "delete_records": DeleteRecords,
    "log_start": LogStart,
}
NAMES = {action: name for name, action in ACTIONS.items()}


@dataclass(frozen=True, slots=True)
class Event:
    """An invocation or a completion. The action of a completion has the results, that of an invocation has not.

    Attributes:
        operation: Names the operation; the two events have the same.
        process: One incarnation of a client: after a restart it has another name.
        type: "invoke" or an outcome.
        at_ns: The time by the recorder's clock. Only the order of the events counts for the checks.
        info: The error message or another remark.
    """

    operation: int
    process: str
    type: str
    action: Action
    at_ns: int = 0
    info: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation with its outcome; `invoked` and `completed` are positions of its events in the history."""

    id: int
    process: str
    action: Action
    outcome: Outcome
    invoked: int
    completed: int
    at_ns: int = 0
    info: str = ""

    @property
    def ends(self) -> int:
        """The position up to which it may take effect."""
        return NEVER if self.outcome is Outcome.UNKNOWN else self.completed

    def __str__(self) -> str:
        info = f" ({self.info})" if self.info else ""
        return f"{self.process}, at {self.at_ns} ns: {self.outcome} {self.action}{info}"


@dataclass(slots=True)
class Recorder:
    """Records the events of a run. `clock` gives nanoseconds; `next_number` is that of the next operation."""

    clock: Callable[[], int] = lambda: 0
    events: list[Event] = field(default_factory=list[Event])
    next_number: int = 0

    def invoke(self, process: str, action: Action) -> Event:
        """Record an invocation; the event is the argument of `complete`."""
        event = Event(self.next_number, process, INVOKE, action, self.clock())
        self.next_number += 1
        self.events.append(event)
        return event

    def complete(self, invocation: Event, outcome: Outcome, action: Action | None = None, info: str = "") -> None:
        """Record a completion, with the results in `action`."""
        known = invocation.action if action is None else action
        self.events.append(
            Event(invocation.operation, invocation.process, outcome.value, known, self.clock(), info)
        )


def partitions_named(events: Iterable[Event]) -> frozenset[TopicPartition]:
    """The partitions that operations name, also those of unknown outcome: the clients have known them."""
    return frozenset(name for event in events for name in _named(event.action))


def _named(action: Action) -> Iterable[TopicPartition]:
    match action:
        case Poll(records):
            return (one.partition for one in records)
        case Position(positions):
            return (name for name, _ in positions)
        case CommitOffsets(_, offsets) | FetchOffsets(_, offsets):
            return (name for name, _ in offsets)
        case BeginTransaction() | CommitTransaction() | AbortTransaction():
            return ()
        case _:
            return (action.partition,)


def operations(events: Iterable[Event]) -> list[Operation]:
    """The operations in the order of their completions; those without one come last.

    Raises:
        ValueError: A completion has no invocation, or an operation has two invocations.
    """
    started: dict[int, tuple[int, Event]] = {}
    done: list[Operation] = []
    for position, event in enumerate(events):
        if event.type == INVOKE:
            if event.operation in started:
                raise ValueError(f"operation {event.operation} is invoked twice")
            started[event.operation] = (position, event)
            continue
        if event.operation not in started:
            raise ValueError(f"operation {event.operation} completes without an invocation")
        invoked, first = started.pop(event.operation)
        done.append(_operation(event, Outcome(event.type), invoked, position, first.at_ns))
    done += [_operation(event, Outcome.UNKNOWN, at, NEVER, event.at_ns) for at, event in started.values()]
    return done


def _operation(event: Event, outcome: Outcome, invoked: int, completed: int, at_ns: int) -> Operation:
    return Operation(event.operation, event.process, event.action, outcome, invoked, completed, at_ns, event.info)


def write_lines(events: Iterable[Event]) -> Iterator[str]:
    """One JSON object for each event."""
    for event in events:
        results = {each.name: getattr(event.action, each.name) for each in fields(event.action)}
        yield json.dumps(
            {
                "operation": event.operation,
                "process": event.process,
                "type": event.type,
                "at_ns": event.at_ns,
                "info": event.info,
                "action": NAMES[type(event.action)],
                **results,
            }
        )


def read_lines(lines: Iterable[str]) -> Iterator[Event]:
    """The events that `write_lines` wrote.

    Raises:
        ValueError: A line is no event.
    """
    for number, line in enumerate(lines, 1):
        try:
            yield _event(json.loads(line))
        except (KeyError, TypeError, ValueError) as why:
            raise ValueError(f"line {number} is no event: {why!r}") from why


def _event(parts: dict[str, Any]) -> Event:
    about = {name: parts.pop(name) for name in ("operation", "process", "type", "at_ns", "info")}
    action = ACTIONS[parts.pop("action")]
    results = {name: FROM_JSON[name](value) if name in FROM_JSON else value for name, value in parts.items()}
    return Event(**about, action=action(**results))


def _pairs(values: list[Any]) -> tuple[tuple[TopicPartition, Any], ...]:
    return tuple((TopicPartition(*partition), offset) for partition, offset in values)


FROM_JSON: dict[str, Callable[[Any], Any]] = {
    "partition": lambda value: TopicPartition(*value),
    "records": lambda values: tuple(Read(TopicPartition(*one[0]), *one[1:]) for one in values),
    "offsets": _pairs,
    "positions": _pairs,
    "high_watermarks": _pairs,
}
