"""`Fault`: what shall happen to which requests, how often, and how often it has happened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.errors import ErrorCode
from minikafka.testing.faults.named_things import NamedThings

__all__ = ["APPLIES", "Action", "Fault", "Limits", "Selection", "first_of"]

APPLIES = ("fail", "drop", "disconnect")
"""The verbs that decide the outcome of a request: of several faults the first one does. Others add up."""


@dataclass(frozen=True)
class Selection:
    """Which requests a fault concerns: those of which everything that is not None is true.

    Attributes:
        api: Kafka's name of the API, such as `Produce`; None for all but ApiVersions.
        topic, partition: What the request names; only this part of the request fails.
        client_id: The client id in the header of the request.
        node: The id of the node that receives the request.
        group, transactional_id: What the request names.
    """

    api: str | None = None
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    node: int | None = None
    group: str | None = None
    transactional_id: str | None = None

    @property
    def is_of_a_part(self) -> bool:
        """Whether it may concern some partitions of a request and not others."""
        return self.topic is not None or self.partition is not None

    def names(self, topic: str, partition: int | None) -> bool:
        """Whether a partition of a topic is concerned; the partition is None in requests that name topics only."""
        if self.topic is not None and topic != self.topic:
            return False
        return self.partition is None or partition is None or partition == self.partition

    def matches(self, api: str, node: int, request: Any, context: RequestContext[Any], things: NamedThings) -> bool:
        """Whether a request is concerned, wholly or in part."""
        if api != self.api if self.api is not None else api == "ApiVersions":
            return False
        if self.node not in (None, node) or self.client_id not in (None, context.client_id):
            return False
        if self.group is not None and self.group not in things.groups:
            return False
        if self.transactional_id is not None and self.transactional_id not in things.transactional_ids:
            return False
        return not self.is_of_a_part or any(self.names(*named) for named in things.partitions)


@dataclass(frozen=True)
class Action:
    """What happens to a request.

    Attributes:
        verb: `fail`, `delay`, `drop`, `disconnect` or `throttle`.
        error: Of `fail`: the code in the response.
        applied: Of `fail` and `drop`: whether the request takes effect all the same.
        seconds: Of `delay`: the time before the request is handled.
        when: Of `disconnect`: `before` the request is handled, `halfway` through its response, or `after` it is
            handled, without a response.
        throttle_ms: Of `throttle`: the throttle time in the response, for which the connection is muted.
    """

    verb: str
    error: ErrorCode = ErrorCode.NONE
    applied: bool = False
    seconds: float = 0.0
    when: str = "before"
    throttle_ms: int = 0


@dataclass(frozen=True)
class Limits:
    """How often a fault hits the requests that it concerns.

    Attributes:
        times: How many it hits; None for all until it is removed.
        after: How many pass first.
        every: It hits every so many-th.
        probability: With which it hits one.
        seed: Of the randomness of `probability`.
    """

    times: int | None = None
    after: int = 0
    every: int = 1
    probability: float = 1.0
    seed: int = 0


@dataclass
class Fault:
    """A fault in force, or one that is over.

    Attributes:
        hits: How many requests it has hit.
        is_removed: Whether it was removed.
    """

    fault_id: int
    selection: Selection
    action: Action
    limits: Limits
    hits: int = 0
    is_removed: bool = False
    _met: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _at_end: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.limits.seed)

    @property
    def is_over(self) -> bool:
        """Whether it hits no more requests."""
        return self.is_removed or (self.limits.times is not None and self.hits >= self.limits.times)

    def hit(self) -> bool:
        """Count a request that it concerns; returns whether the request is hit."""
        limits = self.limits
        with self._changed:
            if self.is_over:
                return False
            self._met += 1
            if self._met <= limits.after or (self._met - limits.after) % limits.every:
                return False
            if limits.probability < 1 and self._random.random() >= limits.probability:
                return False
            self.hits += 1
            self._changed.notify_all()
            return True

    def wait(self, hits: int, timeout_s: float) -> bool:
        """Wait until it has hit so many requests; returns whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: self.hits >= hits, timeout_s)

    def remove(self) -> None:
        """End it. Requests that it holds are given up: their connections are closed."""
        with self._changed:
            self.is_removed = True
            ended, self._at_end = self._at_end, []
        for call in ended:
            call()

    def at_end(self, call: Callable[[], None]) -> None:
        """Have `call` called when it is removed; at once if it is removed already."""
        with self._changed:
            if not self.is_removed:
                self._at_end.append(call)
                return
        call()


def first_of(faults: Iterable[Fault]) -> Fault | None:
    """Of the faults that decide the outcome of a request, the first that hits it."""
    return next((fault for fault in faults if fault.action.verb in APPLIES and fault.hit()), None)
