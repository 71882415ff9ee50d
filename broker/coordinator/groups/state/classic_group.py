"""`ClassicGroup`: state, generation, members and protocols of one classic group.

Logged state changes only through `apply` of `GroupMetadataValue` records, live and after a restart. Waiting requests,
pending member ids and protocols that were not selected are not in the log: decisions change them directly, and they
are lost with the coordinator, as in Kafka. Source: Kafka's `ClassicGroup`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikafka.broker.coordinator.groups.state.classic_group_states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREVIOUS,
    STABLE,
    GroupState,
)
from minikafka.broker.coordinator.groups.state.classic_member import Member, Protocols, member_of_record
from minikafka.broker.coordinator.groups.state.classic_subscriptions import subscribed_topics
from minikafka.broker.coordinator.groups.state.group import Committer
from minikafka.broker.coordinator.groups.state.java_order import in_map_order
from minikafka.broker.coordinator.groups.state.offset_table import CommittedOffset
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue

CONSUMER = "consumer"
"""The protocol type whose metadata the coordinator can decode: subscriptions."""


@dataclass(slots=True)
class InitialDelay:
    """The initial rebalance delay, in which an empty group collects members (KIP-134).

    Attributes:
        delay_ms: The delay that is running.
        remaining_ms: The time by which the delay may still be extended if more members join.
    """

    delay_ms: int
    remaining_ms: int


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """One classic group.

    Attributes:
        state_timestamp: The time of the last change of state, in milliseconds since 1970; None in groups of old
            records. *Use:* the retention of the offsets of an Empty group counts from this time (KIP-211).
        protocol_type: The protocol type of the members; None until the first member has joined.
        protocol_name: The selected protocol of the current generation.
        members: The members by member id, oldest first.
        static_members: The member id of each static member, by instance id. *Invariant:* exactly the static members
            of `members`.
        pending_joins: The member ids that were assigned and not yet used in a JoinGroup (KIP-394).
        pending_syncs: The members of this generation that have not sent SyncGroup yet.
        subscribed_topics: The topics of the current generation; None if members are not consumers, or if the topics
            are unknown (`classic_subscriptions`).
        new_member_added: Whether a member has joined since the running initial delay began.
        size_bytes: The memory for the data that members gave in JoinGroup.
        assigned_size_bytes: The size of all assignments in the log. They stay counted while a rebalance has cleared
            them.
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
    new_member_added: bool = False
    size_bytes: int = 0
    assigned_size_bytes: int = 0
    _supporters: Counter[str] = field(default_factory=Counter)

    # -- records -------------------------------------------------------------------------------------------------

    def value(
        self, *, assignments: dict[str, bytes] | None = None, members: Iterable[Member] | None = None
    ) -> GroupMetadataValue:
        """The record of this generation.

        Args:
            assignments: The assignments by member id, in place of the members' own; the assignment of a missing member
                is empty.
            members: The members, in place of the group's members.
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

    def apply(self, value: GroupMetadataValue) -> None:
        """Apply a record. Remaining members keep their state that is not in the log.

        Of members with the same id, or the same instance id, the first one counts. A leader that is no member is
        replaced by the oldest member.
        """
        before = self.members
        instances = self.static_members
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.generation = value.generation
        self.state_timestamp = None if value.current_state_timestamp == -1 else value.current_state_timestamp
        self.previous_state, self.state = self.state, STABLE if value.members else EMPTY
        self.members, self.static_members = {}, {}
        self._supporters = Counter()
        self.size_bytes = self.assigned_size_bytes = 0
        for record in value.members:
            if record.member_id in self.members or record.group_instance_id in self.static_members:
                continue
            old_id = instances.get(record.group_instance_id or "", record.member_id)
            member = member_of_record(record, value.protocol)
            known = before.get(old_id)
            if known is not None:
                known.update_from_record(member, value.protocol)
            self._enter(known or member)
            self.assigned_size_bytes += len(record.assignment)
            if old_id != record.member_id and old_id in self.pending_syncs:
                del self.pending_syncs[old_id]
                self.pending_syncs[record.member_id] = None
        self.leader = value.leader if value.leader in self.members else next(iter(self.members), None)
        self.subscribed_topics = self.read_subscriptions()

    @property
    def kept(self) -> tuple[int, int]:
        return self.size_bytes + self.assigned_size_bytes, len(self.members) + len(self.pending_joins)

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one becomes leader and sets the protocol type."""
        assert member.instance_id not in self.static_members, f"{member.instance_id} is already a member"
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
        self._supporters.update(member.protocol_names)
        self.size_bytes += member.size_bytes

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id. If it was the leader, the oldest remaining member becomes leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supporters.subtract(member.protocol_names)
            self.size_bytes -= member.size_bytes
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """Update a member that has joined again."""
        self._supporters.subtract(member.protocol_names)
        self.size_bytes -= member.size_bytes
        member.protocols = protocols
        self._supporters.update(member.protocol_names)
        self.size_bytes += member.size_bytes
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def rename(self, old_id: str, new_id: str) -> Member:
        """Give a static member a new id; its position stays."""
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
        """NONE if the member exists; a static member must match both its ids (KIP-345)."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def joining_count(self) -> int:
        """The number of members with a waiting JoinGroup."""
        return sum(member.joining is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        """Whether all members have joined and no id is pending."""
        return not self.pending_joins and self.joining_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Replace a leader that has not joined this rebalance; False if no member has joined."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is None:
            joined = next((m.member_id for m in self.members.values() if m.joining is not None), None)
            self.leader = joined or self.leader
            return joined is not None
        return True

    # -- protocols -----------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Sequence[str]) -> bool:
        """Whether a member with these protocols can join; a duplicate name is refused."""
        if len(set(protocols)) < len(protocols):
            return False
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(self._supporters[name] == count for name in protocols)

    def select_protocol(self, members: Iterable[Member] | None = None) -> str:
        """The protocol with most votes among those that all members support.

        With equally many votes, the first protocol in the order of Java's `HashMap` is selected, as in Kafka. The time
        is linear in the number of protocols of all members, which `size_bytes` bounds.
        """
        voters = list(self.members.values() if members is None else members)
        candidates = set(voters[0].protocol_names)
        for voter in voters:
            candidates.intersection_update(voter.protocol_names)
        votes = Counter(member.vote(candidates) for member in voters)
        return max(in_map_order(votes), key=lambda name: votes[name])

    @property
    def is_consumer(self) -> bool:
        return self.protocol_type == CONSUMER

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to `topic`; True for consumers whose subscriptions are not known."""
        return self.is_consumer if self.subscribed_topics is None else topic in self.subscribed_topics

    def read_subscriptions(self) -> frozenset[str] | None:
        """The topics of all members under the selected protocol; None if they are not known."""
        if not self.is_consumer:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        return subscribed_topics(member.metadata(self.protocol_name) for member in self.members.values())

    # -- states --------------------------------------------------------------------------------------------------

    def enter(self, state: GroupState, clock_ms: int) -> None:
        """Change the state by a transition of `classic_group_states.PREVIOUS`."""
        assert self.state in PREVIOUS[state], f"{self.group_id} cannot go from {self.state} to {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp = clock_ms
        assert state is not COMPLETING_REBALANCE or self.members, f"{self.group_id} has no members"

    # -- as a Group ----------------------------------------------------------------------------------------------

    type_name = "classic"

    @property
    def state_name(self) -> str:
        return str(self.state)

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def allows_offset_deletion(self) -> bool:
        return self.is_consumer

    def check_commit(self, committer: Committer) -> ErrorCode:
        """Check member and generation of a commit. Source: Kafka's `ClassicGroup.validateOffsetCommit`."""
        member_id, instance_id, generation, transactional, _ = committer
        if generation < 0 and self.state is EMPTY:
            return ErrorCode.NONE  # an admin client, or a consumer without group management
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

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Permit every fetch: any client may fetch the offsets of a classic group."""
        return ErrorCode.NONE

    def retention_starts_ms(self, committed: CommittedOffset) -> int | None:
        """The time from which the retention of a committed offset counts; None while it does not count.

        For an Empty group it is the time when the group became Empty; for a simple group the time of the commit. While
        a group of consumers has members, it is the time of the commit: the caller expires only offsets of topics
        without a subscriber.
        """
        since_ms = committed.commit_timestamp
        if self.protocol_type is not None:
            if self.state is EMPTY:
                since_ms = since_ms if self.state_timestamp is None else self.state_timestamp
            elif self.state is not STABLE or self.subscribed_topics is None:
                return None
        return since_ms

    def tombstones(self) -> list[tuple[Any, None]]:
        return [(GroupMetadataKey(group=self.group_id), None)]
