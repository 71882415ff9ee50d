"""The interface of a partition assignor, which users may implement, and its arguments and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from minikafka.protocol.names import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id."""


@dataclass(slots=True)
class Subscription:
    """A member's subscription, as sent in JoinGroup.

    Attributes:
        owned: the partitions that the member had in `generation`.
        user_data: what the member's assignor returned from `user_data`.
    """

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = -1
    instance_id: str | None = None
    user_data: bytes | None = None
    rack: str | None = None


@runtime_checkable
class Assignor(Protocol):
    """Assigns a group's partitions to its members.

    Attributes:
        name: the protocol name sent in JoinGroup; all members must share at least one.
        cooperative: whether members keep their partitions while they join (KIP-429).
    """

    name: str
    cooperative: bool

    def user_data(self, generation: int) -> bytes | None:
        """The data that a member adds to its subscription for the leader's assignor."""

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        """Return the partitions of each member. A topic that is not in `partition_counts` does not exist (yet)."""
