"""`balanced`: the uniform assignor for members whose subscriptions differ.

Each topic is balanced among its subscribers: members keep what they have, partitions without an owner go to those with
the fewest partitions, then partitions move from those with the most to those with the fewest, topic by topic, until
nothing moves or `ROUNDS_MAX` is reached. As in Kafka 4.3 (`UniformHeterogeneousAssignmentBuilder`). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from minikafka.broker.coordinator.groups.state.java_order import uuid_order

ROUNDS_MAX = 16
NOBODY = -1


def balanced(
    subscriptions: Sequence[AbstractSet[bytes]],
    targets: Sequence[Mapping[bytes, frozenset[int]]],
    counts: Mapping[bytes, int],
) -> list[dict[bytes, frozenset[int]]]:
    """The new target of each member.

    Args:
        subscriptions: The topic ids that each member subscribes to.
        targets: The target of each member until now.
        counts: The number of partitions by topic id.
    """
    work = _Work(subscriptions, targets, counts)
    work.assign_those_without_owner()
    work.balance()
    return work.assignments()


class _Work:
    """The assignment while it is computed; members are numbers.

    Attributes:
        sizes: the number of partitions of each member.
        owners: the owner of each partition, by topic.
        subscribers: the subscribers of each topic.
        order: the topics with the most partitions per subscriber first.
    """

    def __init__(
        self,
        subscriptions: Sequence[AbstractSet[bytes]],
        targets: Sequence[Mapping[bytes, frozenset[int]]],
        counts: Mapping[bytes, int],
    ) -> None:
        self.sizes = [0] * len(subscriptions)
        self.subscribers: dict[bytes, list[int]] = {}
        for member, topic_ids in enumerate(subscriptions):
            for topic_id in topic_ids:
                self.subscribers.setdefault(topic_id, []).append(member)
        self.owners = {topic_id: [NOBODY] * counts[topic_id] for topic_id in self.subscribers}
        for member, target in enumerate(targets):
            for topic_id in target.keys() & subscriptions[member]:
                self._keep(member, self.owners[topic_id], target[topic_id])
        self.order = sorted(self.subscribers, key=self._topic_order)

    def assign_those_without_owner(self) -> None:
        for topic_id in self.order:
            owners = self.owners[topic_id]
            without = [partition for partition, owner in enumerate(owners) if owner == NOBODY]
            if not without:
                continue
            levels = _Levels(self.sizes, self.subscribers[topic_id])
            for partition in without:
                owners[partition] = member = levels.next_lowest()
                self.sizes[member] += 1

    def balance(self) -> None:
        """Balance each topic until none has changed since its last turn."""
        order = [topic_id for topic_id in self.order if len(self.subscribers[topic_id]) > 1]
        last_moved = None
        for _ in range(ROUNDS_MAX):
            for topic_id in order:
                if topic_id == last_moved:
                    return
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = topic_id

    def assignments(self) -> list[dict[bytes, frozenset[int]]]:
        found: list[dict[bytes, set[int]]] = [{} for _ in self.sizes]
        for topic_id, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                found[owner].setdefault(topic_id, set()).add(partition)
        return [{topic_id: frozenset(those) for topic_id, those in one.items()} for one in found]

    def _keep(self, member: int, owners: list[int], partitions: frozenset[int]) -> None:
        for partition in partitions:
            owners[partition] = member
        self.sizes[member] += len(partitions)

    def _topic_order(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        subscribers = len(self.subscribers[topic_id])
        return -len(self.owners[topic_id]) / subscribers, subscribers, uuid_order(topic_id)

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Move partitions of one topic from members with many to members with few; whether one moved."""
        owners = self.owners[topic_id]
        sizes = [self.sizes[member] for member in self.subscribers[topic_id]]
        if max(sizes) - min(sizes) <= 1:
            return False
        levels = _Levels(self.sizes, self.subscribers[topic_id])
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        moved = False
        while not levels.are_balanced():
            giver = levels.next_highest()
            while giver != NOBODY and not owned.get(giver):
                levels.exclude_highest()
                giver = levels.next_highest()
            if giver == NOBODY:
                break
            partition = owned[giver].pop()
            taker = levels.next_lowest()
            if levels.are_balanced():
                break
            owners[partition] = taker
            self.sizes[giver] -= 1
            self.sizes[taker] += 1
            moved = True
        return moved


class _Levels:
    """The members of a topic, sorted by their number of partitions, seen from both ends.

    At the low end the members with equally few partitions take turns to receive one; when each has, the level rises,
    and those that were above it join. At the high end it is the reverse. Turns end when the levels differ by one.
    """

    def __init__(self, sizes: list[int], members: list[int]) -> None:
        self._sizes = sizes
        self._members = sorted(members, key=sizes.__getitem__)  # Stable: equals stay in order.
        self._low_level, self._low_end, self._low_next = sizes[self._members[0]] - 1, 0, 0
        self._high_level = sizes[self._members[-1]] + 1
        self._high_start = self._high_end = len(members)
        self._high_next = len(members) - 1

    def are_balanced(self) -> bool:
        return self._high_level - self._low_level <= 1

    def next_lowest(self) -> int:
        """The member that receives a partition next."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._members) and self._size_at(self._low_end) == self._low_level:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._members[self._low_next - 1]

    def next_highest(self) -> int:
        """The member that gives a partition next; NOBODY if all were excluded."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = self._size_at(self._high_start - 1)
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._size_at(self._high_start - 1) == self._high_level:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return NOBODY
        self._high_next -= 1
        return self._members[self._high_next + 1]

    def exclude_highest(self) -> None:
        """Leave out the member that `next_highest` returned last: it has no partition of the topic."""
        at, last = self._high_next + 1, self._high_end - 1
        self._members[at], self._members[last] = self._members[last], self._members[at]
        self._high_end = last

    def _size_at(self, index: int) -> int:
        return self._sizes[self._members[index]]
