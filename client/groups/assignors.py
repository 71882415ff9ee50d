"""The partition assignors range, roundrobin and cooperative-sticky, as in the JVM client, and their wire format.

A group's leader runs one of the assignors on the members' subscriptions. Names, metadata and the order of members are
those of Kafka's assignors, so that Python and Java members can share a group with a leader of either kind. The
interface is in `client/assignor.py`. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from minikafka.client.assignor import Assignment, Assignor, Subscription
from minikafka.protocol.message import MalformedMessage, decode, encode
from minikafka.protocol.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)
from minikafka.protocol.names import TopicPartition

_SUBSCRIPTION_VERSION = 3
_ASSIGNMENT_VERSION = 3
_GENERATION = struct.Struct(">i")


class RangeAssignor:
    """Assigns each member a range of consecutive partitions of each topic (Kafka's `RangeAssignor`)."""

    name = "range"
    cooperative = False

    def user_data(self, generation: int) -> bytes | None:
        return None

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        assignment: Assignment = {member: [] for member in members}
        for topic in sorted(partition_counts):
            readers = [member for member in in_order(members) if topic in members[member].topics]
            if not readers:
                continue
            each, more = divmod(partition_counts[topic], len(readers))
            start = 0
            for position, member in enumerate(readers):
                end = start + each + (position < more)
                assignment[member] += [TopicPartition(topic, number) for number in range(start, end)]
                start = end
        return assignment


class RoundRobinAssignor:
    """Assigns all partitions of all topics to the members in turn (Kafka's `RoundRobinAssignor`)."""

    name = "roundrobin"
    cooperative = False

    def user_data(self, generation: int) -> bytes | None:
        return None

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        assignment: Assignment = {member: [] for member in members}
        order = in_order(members)
        turn = 0
        for tp in _all_partitions(partition_counts):
            if not any(tp.topic in members[member].topics for member in order):
                continue
            while tp.topic not in members[order[turn % len(order)]].topics:
                turn += 1
            assignment[order[turn % len(order)]].append(tp)
            turn += 1
        return assignment


class CooperativeStickyAssignor:
    """Balances partitions with as few moves as possible; a partition that moves is first revoked, then assigned.

    Kafka's `CooperativeStickyAssignor` (KIP-429): a partition that is to move and still has an owner is assigned to
    no member in this generation; its owner revokes it and joins again.
    """

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, generation: int) -> bytes | None:
        return _GENERATION.pack(generation)

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        owners = self._owners(partition_counts, members)
        assignment = self._balanced(partition_counts, members, owners)
        for member, partitions in assignment.items():
            assignment[member] = sorted(tp for tp in partitions if owners.get(tp, member) == member)
        return assignment

    @staticmethod
    def _owners(
        partition_counts: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> dict[TopicPartition, str]:
        """The owner of each partition in the newest generation; a partition that two members claim has none."""
        claims: dict[TopicPartition, tuple[int, str | None]] = {}
        for member in in_order(members):
            subscription = members[member]
            generation = _generation_of(subscription)
            for tp in subscription.owned:
                if tp.topic not in subscription.topics or tp.partition >= partition_counts.get(tp.topic, 0):
                    continue
                newest, claimant = claims.get(tp, (-2, None))
                if generation > newest:
                    claims[tp] = (generation, member)
                elif generation == newest and claimant != member:
                    claims[tp] = (generation, None)
        return {tp: member for tp, (_, member) in claims.items() if member is not None}

    @staticmethod
    def _balanced(
        partition_counts: Mapping[str, int],
        members: Mapping[str, Subscription],
        owners: Mapping[TopicPartition, str],
    ) -> Assignment:
        order = in_order(members)
        partitions = _all_partitions(partition_counts)
        readers = {topic: [one for one in order if topic in members[one].topics] for topic in partition_counts}
        placement: dict[TopicPartition, str] = {tp: owners[tp] for tp in partitions if tp in owners}
        load = dict.fromkeys(order, 0)
        for member in placement.values():
            load[member] += 1
        for tp in partitions:
            if tp not in placement and readers[tp.topic]:
                placement[tp] = min(readers[tp.topic], key=load.__getitem__)
                load[placement[tp]] += 1
        moved = True
        while moved:
            moved = False
            for tp in reversed(partitions):
                if tp not in placement:
                    continue
                idlest = min(readers[tp.topic], key=load.__getitem__)
                if load[idlest] + 1 < load[placement[tp]]:
                    load[placement[tp]] -= 1
                    load[idlest] += 1
                    placement[tp] = idlest
                    moved = True
        assignment: Assignment = {member: [] for member in members}
        for tp, member in placement.items():
            assignment[member].append(tp)
        return assignment


ASSIGNORS: dict[str, Assignor] = {
    one.name: one for one in (RangeAssignor(), RoundRobinAssignor(), CooperativeStickyAssignor())
}


def in_order(members: Mapping[str, Subscription]) -> list[str]:
    """Members in Kafka's order: static members by instance id, then the others by member id."""

    def key(member: str) -> tuple[bool, str]:
        instance_id = members[member].instance_id
        return (instance_id is None, instance_id or member)

    return sorted(members, key=key)


def _all_partitions(partition_counts: Mapping[str, int]) -> list[TopicPartition]:
    return [
        TopicPartition(topic, number)
        for topic in sorted(partition_counts)
        for number in range(partition_counts[topic])
    ]


def _generation_of(subscription: Subscription) -> int:
    """The generation of a subscription; older Java members send it in the assignor's user data."""
    if subscription.generation >= 0 or not subscription.user_data:
        return subscription.generation
    if len(subscription.user_data) < _GENERATION.size:
        return -1
    return int(_GENERATION.unpack_from(subscription.user_data)[0])


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode a subscription as JoinGroup's protocol metadata."""
    owned = [
        SubscriptionTopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in _by_topic(subscription.owned).items()
    ]
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=owned,
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _SUBSCRIPTION_VERSION.to_bytes(2, "big") + encode(message, _SUBSCRIPTION_VERSION)


def decode_subscription(data: bytes, instance_id: str | None = None) -> Subscription:
    """Decode a subscription of any version. Raises MalformedMessage."""
    version = min(_version_of(data), _SUBSCRIPTION_VERSION)
    message = decode(ConsumerProtocolSubscription, version, data, 2)
    return Subscription(
        topics=message.topics,
        owned=[TopicPartition(one.topic, number) for one in message.owned_partitions for number in one.partitions],
        generation=message.generation_id,
        instance_id=instance_id,
        user_data=None if message.user_data is None else bytes(message.user_data),
        rack=message.rack_id,
    )


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """Encode an assignment for SyncGroup."""
    topics = [
        AssignmentTopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in _by_topic(partitions).items()
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=topics)
    return _ASSIGNMENT_VERSION.to_bytes(2, "big") + encode(message, _ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Decode an assignment of any version; empty data means no partitions. Raises MalformedMessage."""
    if not data:
        return []
    version = min(_version_of(data), _ASSIGNMENT_VERSION)
    message = decode(ConsumerProtocolAssignment, version, data, 2)
    return [TopicPartition(one.topic, number) for one in message.assigned_partitions for number in one.partitions]


def _version_of(data: bytes) -> int:
    version = int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else -1
    if version < 0:
        raise MalformedMessage("consumer protocol data without a version")
    return version


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics
