"""What a report shows, computed from the history and the journal. Times are in nanoseconds by the clock of the run."""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.history import INVOKE, Event, Outcome, Produce
from chaos.journal import Deed, Entry, Fault, State
from minikafka.protocol.names import TopicPartition

AROUND_NS = 5_000_000_000
"""How long "before" and "after" a fault are, unless another fault is nearer."""

BEGINS = {
    "kill": "dead",
    "stop": "stopped",
    "pause": "paused",
    "isolate": "cut off",
    "cut_link": "link cut",
    "cut_clients": "cut off from clients",
    "fill_disk": "disk full",
    "wrong_clock": "wrong clock",
}
"""The deeds that begin something, and what the node or link is from then on."""
ENDS = {
    "start": ("dead", "stopped"),
    "resume": ("paused",),
    "rejoin": ("cut off",),
    "mend_link": ("link cut",),
    "mend_clients": ("cut off from clients",),
    "empty_disk": ("disk full",),
    "right_clock": ("wrong clock",),
    "kill": ("paused", "stopped"),
    "stop": ("paused",),
}


@dataclass(frozen=True, slots=True)
class Write:
    """A record that was sent, and has a result."""

    sent_ns: int
    ended_ns: int
    outcome: Outcome

    @property
    def acknowledged(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def latency_ns(self) -> int:
        """From the call to its result."""
        return self.ended_ns - self.sent_ns


@dataclass(frozen=True, slots=True)
class Band:
    """A node, or a link between two, is something for a while."""

    nodes: tuple[int, ...]
    what: str
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """The state of a partition for a while."""

    leader: int
    in_sync: tuple[int, ...]
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class Phase:
    """The writes that were acknowledged in a period. Latencies are in seconds, 0 if there is no write."""

    seconds: float
    count: int
    median_s: float
    worst_s: float

    @property
    def rate(self) -> float:
        """Acknowledged writes per second."""
        return self.count / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Effect:
    """A fault, and the writes around it.

    Attributes:
        gap_s: The longest time without any acknowledgement, from the beginning of the fault to the end of "after".
    """

    fault: Fault
    nodes: tuple[int, ...]
    before: Phase
    during: Phase
    after: Phase
    gap_s: float


def writes_of(events: Iterable[Event]) -> list[Write]:
    """All records that were sent and have a result, by the time of the result."""
    sent: dict[int, int] = {}
    found: list[Write] = []
    for event in events:
        if isinstance(event.action, Produce):
            if event.type == INVOKE:
                sent[event.operation] = event.at_ns
            else:
                found.append(Write(sent[event.operation], event.at_ns, Outcome(event.type)))
    return sorted(found, key=lambda one: one.ended_ns)


def bands_of(entries: Iterable[Entry], end_ns: int) -> list[Band]:
    """What nodes and links were, and for how long; what did not end lasts until `end_ns`."""
    open_: dict[tuple[tuple[int, ...], str], int] = {}
    found: list[Band] = []
    for deed in (one for one in entries if isinstance(one, Deed)):
        of_link = deed.action.endswith("_link")
        for nodes in [tuple(sorted(deed.nodes))] if of_link else [(one,) for one in deed.nodes]:
            for what in ENDS.get(deed.action, ()):
                if (nodes, what) in open_:
                    found.append(Band(nodes, what, open_.pop((nodes, what)), deed.at_ns))
            if deed.action in BEGINS:
                open_.setdefault((nodes, BEGINS[deed.action]), deed.at_ns)
    found += [Band(nodes, what, began, end_ns) for (nodes, what), began in open_.items()]
    return sorted(found, key=lambda one: (one.began_ns, one.nodes))


def stretches_of(entries: Iterable[Entry], end_ns: int) -> dict[TopicPartition, list[Stretch]]:
    """The states of each partition, one after the other, until `end_ns`."""
    states: dict[TopicPartition, list[State]] = defaultdict(list)
    for one in entries:
        if isinstance(one, State):
            states[one.partition].append(one)
    return {
        tp: [
            Stretch(one.leader, one.in_sync, one.at_ns, following.at_ns if following else end_ns)
            for one, following in itertools.zip_longest(some, some[1:])
        ]
        for tp, some in sorted(states.items())
    }


def effects_of(entries: Sequence[Entry], writes: Sequence[Write], began_ns: int, ended_ns: int) -> list[Effect]:
    """Each fault with the writes before, during and after it."""
    faults = [one for one in entries if isinstance(one, Fault)]
    deeds = [one for one in entries if isinstance(one, Deed)]
    acknowledged = [one for one in writes if one.acknowledged]
    found = []
    for index, fault in enumerate(faults):
        earliest = faults[index - 1].ended_ns if index else began_ns
        latest = faults[index + 1].began_ns if index + 1 < len(faults) else ended_ns
        begin, end = max(earliest, fault.began_ns - AROUND_NS), min(latest, fault.ended_ns + AROUND_NS)
        nodes = {node for one in deeds if fault.began_ns <= one.at_ns <= fault.ended_ns for node in one.nodes}
        found.append(
            Effect(
                fault,
                tuple(sorted(nodes)),
                phase(acknowledged, begin, fault.began_ns),
                phase(acknowledged, fault.began_ns, fault.ended_ns),
                phase(acknowledged, fault.ended_ns, end),
                gap_s(acknowledged, fault.began_ns, end),
            )
        )
    return found


def phase(acknowledged: Sequence[Write], begin_ns: int, end_ns: int) -> Phase:
    """The writes whose acknowledgement came in a period; they are in order of that."""
    latencies = [one.latency_ns / 1e9 for one in between(acknowledged, begin_ns, end_ns)]
    if not latencies:
        return Phase((end_ns - begin_ns) / 1e9, 0, 0.0, 0.0)
    return Phase((end_ns - begin_ns) / 1e9, len(latencies), statistics.median(latencies), max(latencies))


def gap_s(acknowledged: Sequence[Write], begin_ns: int, end_ns: int) -> float:
    """The longest time without an acknowledgement in a period, in seconds."""
    moments = [begin_ns, *(one.ended_ns for one in between(acknowledged, begin_ns, end_ns)), end_ns]
    return max(b - a for a, b in itertools.pairwise(moments)) / 1e9


def between(writes: Sequence[Write], begin_ns: int, end_ns: int) -> Sequence[Write]:
    """The writes that ended in a period."""
    first = bisect_left(writes, begin_ns, key=lambda one: one.ended_ns)
    return writes[first : bisect_left(writes, end_ns, key=lambda one: one.ended_ns)]


def buckets(begin_ns: int, end_ns: int, count: int) -> list[tuple[int, int]]:
    """So many periods of equal length."""
    edges = [begin_ns + (end_ns - begin_ns) * index // count for index in range(count + 1)]
    return list(itertools.pairwise(edges))
