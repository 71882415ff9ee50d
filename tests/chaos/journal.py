"""`Journal`: what is known of a run besides its history: deeds of the nemesis, faults, and the state of partitions."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from minikafka.protocol.names import TopicPartition


@dataclass(frozen=True, slots=True)
class Deed:
    """Something was done to nodes. `action` is the name of the cluster's method: kill, start, pause, …"""

    at_ns: int
    action: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the nemesis, from the first deed to the last one."""

    began_ns: int
    ended_ns: int
    name: str


@dataclass(frozen=True, slots=True)
class State:
    """A partition as most brokers with the latest leader epoch described it; `leader` is -1 if there is none."""

    at_ns: int
    partition: TopicPartition
    leader: int
    in_sync: tuple[int, ...]


Entry = Deed | Fault | State
KINDS: dict[str, type[Any]] = {"deed": Deed, "fault": Fault, "state": State}
NAMES = {kind: name for name, kind in KINDS.items()}


@dataclass(slots=True)
class Journal:
    """Entries in the order in which they were recorded, by several threads. `clock` is that of the history."""

    clock: Callable[[], int]
    entries: list[Entry] = field(default_factory=list[Entry])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def deed(self, action: str, nodes: Iterable[int]) -> None:
        """Record that something is about to be done."""
        self._add(Deed(self.clock(), action, tuple(nodes)))

    def fault(self, began_ns: int, name: str) -> None:
        """Record a fault that has ended."""
        self._add(Fault(began_ns, self.clock(), name))

    def state(self, partition: TopicPartition, leader: int, in_sync: Iterable[int]) -> None:
        """Record the state of a partition."""
        self._add(State(self.clock(), partition, leader, tuple(sorted(in_sync))))

    def _add(self, entry: Entry) -> None:
        with self._lock:
            self.entries.append(entry)


def write_journal(entries: Iterable[Entry]) -> Iterator[str]:
    """One JSON object for each entry."""
    for entry in entries:
        yield json.dumps({"entry": NAMES[type(entry)], **asdict(entry)})


def read_journal(lines: Iterable[str]) -> Iterator[Entry]:
    """The entries that `write_journal` wrote. Raises ValueError if a line is none."""
    for number, line in enumerate(lines, 1):
        try:
            parts = json.loads(line)
            yield KINDS[parts.pop("entry")](**{name: _value(name, value) for name, value in parts.items()})
        except (KeyError, TypeError, ValueError) as why:
            raise ValueError(f"line {number} is no entry: {why!r}") from why


def _value(name: str, value: Any) -> Any:
    if name == "partition":
        return TopicPartition(*value)
    return tuple(value) if isinstance(value, list) else value
