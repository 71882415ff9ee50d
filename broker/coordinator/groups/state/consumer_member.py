"""`ConsumerMember`: one member of a consumer group (KIP-848), as its records describe it; an immutable value.

Source: Kafka's `ConsumerGroupMember`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from minikafka.broker.coordinator.groups.state.classic_member import protocols_size_bytes, text_size_bytes
from minikafka.broker.coordinator.groups.state.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    OwnedPartitions,
)
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

Assigned = Mapping[bytes, Mapping[int, int]]
"""Assigned partitions: by topic id and number, the epoch in which the member received each of them."""
Target = Mapping[bytes, frozenset[int]]
"""The partitions that a member shall have, by topic id."""

NAME_SIZE_BYTES = 120
"""What a name in a set takes beside its letters."""

LEFT, LEFT_FOR_A_WHILE = -1, -2
"""The epochs of a member that has left, and of a static one that has left and will come back (KIP-345)."""


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment; numbers as in the records.

    Attributes:
        STABLE: It has its target of its epoch.
        UNREVOKED_PARTITIONS: It was told to give partitions up, and has not said yet that it did. It keeps its epoch.
        UNRELEASED_PARTITIONS: It waits for partitions that other members still have.
        UNKNOWN: Written by a later version of Kafka.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicProtocols:
    """What a member that uses the classic protocol sent with its last JoinGroup.

    Attributes:
        protocols: Names and subscriptions, in order of preference.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group.

    Attributes:
        instance_id: Set for static members.
        pattern: The regular expression that it subscribes to; "" for none.
        classic: Set for members of the classic protocol.
        epoch: The epoch of its assignment; 0 for a new member, `LEFT_FOR_A_WHILE` for a static one that left.
        previous_epoch: The epoch before. *Use:* a member that missed the response with its new epoch sends this one.
        revoking: Partitions that it was told to give up.
        size_bytes: What the last record of what it said of itself takes in memory.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicProtocols | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assigned = field(default_factory=dict)
    revoking: Assigned = field(default_factory=dict)
    size_bytes: int = field(default=0, compare=False)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether the member has its target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """The member in another epoch; its own becomes the previous one."""
        return replace(self, epoch=epoch, previous_epoch=self.epoch)

    # -- records -------------------------------------------------------------------------------------------------

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        """The record of what the member said of itself."""
        classic = None
        if self.classic is not None:
            protocols = [ClassicProtocol(name=name, metadata=data) for name, data in self.classic.protocols]
            classic = ClassicMemberMetadata(
                session_timeout_ms=self.classic.session_timeout_ms, supported_protocols=protocols
            )
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
            subscribed_topic_regex=self.pattern,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=classic,
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """The member after such a record."""
        found = value.classic_member_metadata
        classic = None
        if found is not None:
            protocols = tuple((one.name, bytes(one.metadata)) for one in found.supported_protocols)
            classic = ClassicProtocols(found.session_timeout_ms, protocols)
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            pattern=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=classic,
            size_bytes=self._size_bytes_with(value, classic),
        )

    def _size_bytes_with(
        self, value: ConsumerGroupMemberMetadataValue, classic: ClassicProtocols | None
    ) -> int:
        texts = self.member_id, value.instance_id, value.rack_id, value.client_id, value.subscribed_topic_regex
        said = sum(map(text_size_bytes, texts)) + names_size_bytes(value.subscribed_topic_names)
        return said + (protocols_size_bytes(classic.protocols) if classic is not None else 0)

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """The record of the member's epoch and assignment."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_recorded(self.assigned),
            partitions_pending_revocation=_recorded(self.revoking),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        """The member after such a record."""
        known = value.state in MemberState.__members__.values()
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=_assigned(value.assigned_partitions, value.member_epoch),
            revoking=_assigned(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> ConsumerMember:
        """The member after a tombstone of its assignment."""
        return replace(
            self, epoch=LEFT, previous_epoch=LEFT, state=MemberState.STABLE, assigned={}, revoking={}
        )


def heartbeat_size_bytes(request: ConsumerGroupHeartbeatRequest, client_id: str) -> int:
    """What is kept of a request takes so much memory; 0 if it does not say what the member subscribes to."""
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    if request.member_epoch < 0 or (names is None and pattern is None):
        return 0
    texts = request.member_id, request.instance_id, request.rack_id, client_id, pattern
    return sum(map(text_size_bytes, texts)) + names_size_bytes(names or ())


def names_size_bytes(names: Collection[str]) -> int:
    """What a set of names takes in memory at most."""
    letters = sum(map(len, names))
    return NAME_SIZE_BYTES * len(names) + (letters if all(map(str.isascii, names)) else 4 * letters)


def _recorded(assigned: Assigned) -> list[OwnedPartitions]:
    return [
        OwnedPartitions(
            topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values())
        )
        for topic_id, epochs in assigned.items()
    ]


def _assigned(recorded: Iterable[OwnedPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    """Records of Kafka before 4.3 have no epochs of partitions: that of the member stands for them."""
    found: dict[bytes, dict[int, int]] = {}
    for topic in recorded:
        epochs = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
        found[bytes(topic.topic_id)] = dict(zip(topic.partitions, epochs, strict=False))
    return found
