"""SubscriberCounts: how many members of a consumer group subscribe to a topic, by name and by regular expression.

A member that joins, changes or leaves costs its own names, and not those of all others.
Source: Kafka's `ModernGroup` (subscribedTopicNames).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from minikafka.broker.coordinator.groups.state.consumer_member import ConsumerMember


@dataclass(slots=True)
class SubscriberCounts:
    """The counts of some members; what has no subscriber is not in them.

    Attributes:
        names: Members that name a topic, by topic.
        matched: Members whose regular expression is resolved to a topic, by topic.
        patterns: Members by regular expression.
    """

    names: dict[str, int] = field(default_factory=dict)
    matched: dict[str, int] = field(default_factory=dict)
    patterns: dict[str, int] = field(default_factory=dict)

    def add(self, member: ConsumerMember, matched: Iterable[str]) -> None:
        """Count a member, whose regular expression is resolved to `matched`."""
        self._change(member, matched, 1)

    def remove(self, member: ConsumerMember, matched: Iterable[str]) -> None:
        """Count a member no more; `matched` is what its expression is resolved to now."""
        self._change(member, matched, -1)

    def resolve(self, pattern: str, before: Iterable[str], after: Iterable[str]) -> None:
        """A regular expression is resolved to other topics."""
        subscribers = self.patterns.get(pattern, 0)
        if subscribers:
            _count(self.matched, before, -subscribers)
            _count(self.matched, after, subscribers)

    def of(self, topic: str) -> int:
        """The subscribers of a topic; one that subscribes by name and by expression counts twice."""
        return self.names.get(topic, 0) + self.matched.get(topic, 0)

    def _change(self, member: ConsumerMember, matched: Iterable[str], by: int) -> None:
        _count(self.names, member.topics, by)
        if member.pattern:
            _count(self.patterns, (member.pattern,), by)
            _count(self.matched, matched, by)


def _count(counts: dict[str, int], keys: Iterable[str], by: int) -> None:
    for key in keys:
        count = counts.get(key, 0) + by
        if count:
            counts[key] = count
        else:
            del counts[key]
