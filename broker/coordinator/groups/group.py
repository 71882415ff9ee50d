"""A classic group: who is in it, in which state and generation it is, and what of that the log knows.

Durable facts come from `GroupMetadataValue` records by `install`, live and after a restart alike. What a rebalance
leaves no record of (who waits, who was given an id, protocols that were not chosen) is changed by the decisions
themselves and dies with the coordinator, as in Kafka. Source: Kafka's `ClassicGroup`.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from minikafka.broker.coordinator.groups.group_states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREVIOUS,
    STABLE,
    GroupState,
)
from minikafka.broker.coordinator.groups.member import Member, Protocols, member_of_record
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.message import MalformedMessage, decode
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from minikafka.protocol.messages.group_records import GroupMetadataValue

CONSUMER = "consumer"
"""The protocol type whose metadata the coordinator can read: subscriptions."""


@dataclass(slots=True)
class InitialDelay:
    """The time in which a first rebalance collects members (KIP-134).

    Attributes:
        delay_ms: The part that runs now.
        remaining_ms: How much longer it may be put off if more members come.
    """

    delay_ms: int
    remaining_ms: int


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """One group.

    Attributes:
        state_timestamp: Time of day of the last change of state, milliseconds; None in groups of old records. *Use:*
            the offsets of an Empty group expire counting from here (KIP-211).
        protocol_type: What kind of members; None until somebody has joined.
        protocol_name: The protocol that the current generation has chosen.
        members: By member id, oldest first.
        static_members: Member id by instance id. *Invariant:* exactly the static ones of `members`.
        pending_joins: Ids that were handed out to members that have not come back with them yet (KIP-394).
        pending_syncs: Members of this generation that have not asked for their assignment yet.
        subscribed_topics: Of the current generation; None where the members are no consumers or cannot be read.
        member_came: Somebody joined since the running initial delay began.
    """

    group_id: str
    state: GroupState = EMPTY
    previous_state: GroupState = DEAD
    state_timestamp: int | None = None
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_joins: dict[str, None] = field(default_factory=dict)
    pending_syncs: dict[str, None] = field(default_factory=dict)
    subscribed_topics: frozenset[str] | None = None
    initial_delay: InitialDelay | None = None
    member_came: bool = False
    _knowing: Counter[str] = field(default_factory=Counter)

    # -- records -------------------------------------------------------------------------------------------------

    def value(
        self, *, assignments: dict[str, bytes] | None = None, members: Iterable[Member] | None = None
    ) -> GroupMetadataValue:
        """The record of this generation.

        Args:
            assignments: By member id, in place of the members' own; whoever is not in it gets nothing.
            members: In place of the group's own.
        """
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=-1 if self.state_timestamp is None else self.state_timestamp,
            members=[
                member.record(
                    self.protocol_name,
                    member.assignment if assignments is None else assignments.get(member.member_id, b""),
                )
                for member in (self.members.values() if members is None else members)
            ],
        )

    def install(self, value: GroupMetadataValue) -> None:
        """Take over what a record says. Members that stay keep what only the living know of them."""
        before = self.members
        instances = self.static_members
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.generation = value.generation
        self.leader = value.leader
        self.state_timestamp = None if value.current_state_timestamp == -1 else value.current_state_timestamp
        self.previous_state, self.state = self.state, STABLE if value.members else EMPTY
        self.members, self.static_members = {}, {}
        self._knowing = Counter()
        for record in value.members:
            old_id = instances.get(record.group_instance_id or "", record.member_id)
            member = member_of_record(record, value.protocol)
            known = before.get(old_id)
            if known is not None:
                known.become(member, value.protocol)
            self._enter(known or member)
            if old_id != record.member_id and old_id in self.pending_syncs:
                del self.pending_syncs[old_id]
                self.pending_syncs[record.member_id] = None
        self.subscribed_topics = self.read_subscriptions()

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Let a member in; the first one leads and says what type the group is."""
        assert member.instance_id not in self.static_members, f"{member.instance_id} is a member already"
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self._enter(member)
        self.pending_joins.pop(member.member_id, None)

    def _enter(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._knowing.update(member.protocol_names)

    def remove(self, member_id: str) -> None:
        """Forget a member, or an id that was handed out. The oldest of the others leads if the leader goes."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._knowing.subtract(member.protocol_names)
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """A member has joined again and says what it can do now."""
        self._knowing.subtract(member.protocol_names)
        member.protocols = protocols
        self._knowing.update(member.protocol_names)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def rename(self, old_id: str, new_id: str) -> Member:
        """A static member goes on under a new id, in its old place."""
        member = self.members[old_id]
        member.member_id = new_id
        self.members = {new_id if known == old_id else known: member for known, member in self.members.items()}
        if member.instance_id is not None:
            self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_syncs:
            del self.pending_syncs[old_id]
            self.pending_syncs[new_id] = None
        return member

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE if there is such a member; a static one is meant by both its names (KIP-345)."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def joining_count(self) -> int:
        """Members whose JoinGroup waits."""
        return sum(member.joining is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        """Whether nobody is left to wait for, not even one who was only given an id."""
        return not self.pending_joins and self.joining_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for; 0 in a group without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Have a leader that takes part in this rebalance; False if nobody does."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is None:
            joined = next((m.member_id for m in self.members.values() if m.joining is not None), None)
            self.leader = joined or self.leader
            return joined is not None
        return True

    # -- protocols -----------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Sequence[str]) -> bool:
        """Whether somebody with these protocols, each named once, can join the members that are there."""
        if len(set(protocols)) < len(protocols):
            return False
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(self._knowing[name] == count for name in protocols)

    def select_protocol(self, members: Iterable[Member] | None = None) -> str:
        """Of the protocols that all members know, the one that most put first; of equals the one voted for first."""
        voters = list(self.members.values() if members is None else members)
        knowing = Counter(name for member in voters for name in member.protocol_names)
        candidates = [name for name, count in knowing.items() if count == len(voters)]
        votes = Counter(member.vote(candidates) for member in voters)
        return max(votes, key=lambda name: votes[name])

    @property
    def is_consumer(self) -> bool:
        return self.protocol_type == CONSUMER

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read `topic`; consumers whose subscriptions cannot be read are taken to read everything."""
        return self.is_consumer if self.subscribed_topics is None else topic in self.subscribed_topics

    def read_subscriptions(self) -> frozenset[str] | None:
        """The topics of all members under the chosen protocol; None where that cannot be told."""
        if not self.is_consumer:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            try:
                topics.update(_subscription(member.metadata(self.protocol_name)).topics)
            except (MalformedMessage, struct.error):
                return None
        return frozenset(topics)

    # -- states --------------------------------------------------------------------------------------------------

    def enter(self, state: GroupState, clock_ms: int) -> None:
        """Change the state by a step of the table in `states`."""
        assert self.state in PREVIOUS[state], f"{self.group_id} cannot go from {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp = clock_ms
        assert state is not COMPLETING_REBALANCE or self.members, f"{self.group_id} has nobody to assign to"

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> ErrorCode:
        """Whether offsets may be committed so. Source: Kafka's `ClassicGroup.validateOffsetCommit`."""
        if generation < 0 and self.state is EMPTY:
            return ErrorCode.NONE  # from an administrator, or a consumer that does without groups
        if generation >= 0 or member_id or instance_id is not None:
            fault = self.check_member(member_id, instance_id)
            if fault:
                return fault
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not transactional and self.state is not EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and self.state is COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE


def _subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Read as version 0, which begins every other; two bytes of version stand before.

    Raises:
        MalformedMessage: It is none.
    """
    struct.unpack_from(">h", metadata)
    return decode(ConsumerProtocolSubscription, 0, metadata, 2)
