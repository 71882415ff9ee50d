"""Reconciliation: the next step of a member from its current assignment to its target assignment. Pure.

    STABLE ──────────────► UNREVOKED_PARTITIONS     it must give partitions up; it keeps its epoch until it said so
    any, nothing to revoke ► UNRELEASED_PARTITIONS  it is in the new epoch, and waits for partitions that others have
    any, nothing to revoke ► STABLE                 it has all of its target

Source: Kafka's `CurrentAssignmentBuilder`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from minikafka.broker.coordinator.groups.state.consumer_member import Assigned, ConsumerMember, MemberState, Target

Owned = Mapping[bytes, frozenset[int]]
"""The partitions that a member says it has, by topic id."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a member is reconciled to.

    Attributes:
        epoch: The epoch of the target assignment.
        target: The member's part of it.
        subscribed: The ids of the topics that it subscribes to.
        subscription_changed: With this very heartbeat: topics that it does not subscribe to any more are taken away
            before there is a new target.
        owner_of: Returns the member that has a partition, if any.
    """

    epoch: int
    target: Target
    subscribed: frozenset[bytes]
    subscription_changed: bool
    owner_of: Callable[[bytes, int], str | None]


def reconcile(member: ConsumerMember, goal: Goal, owned: Owned | None) -> ConsumerMember | None:
    """The member after the next step, or the same member if it cannot take one.

    Args:
        owned: None if the heartbeat did not say.

    Returns:
        None if the member must be fenced: its state is not known, and it may still have partitions.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch != goal.epoch:
                return _next(member, member.epoch, goal, owned)
            return _without_unsubscribed(member, goal, owned) if goal.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if not _owns_any(owned, member.revoking):
                return _next(member, member.epoch, goal, owned)
            return _without_unsubscribed(member, goal, owned) if goal.subscription_changed else member
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, member.epoch, goal, owned)
        case _:
            return None if owned is None or owned else _next(member, goal.epoch, goal, owned)


def _owns_any(owned: Owned | None, partitions: Assigned) -> bool:
    """Whether the member has, or may have, one of the partitions."""
    if owned is None:
        return True
    return any(not numbers.isdisjoint(partitions.get(topic_id, ())) for topic_id, numbers in owned.items())


def _without_unsubscribed(member: ConsumerMember, goal: Goal, owned: Owned | None) -> ConsumerMember:
    """Take away the topics that the member does not subscribe to any more."""
    gone = [topic_id for topic_id in member.assigned if topic_id not in goal.subscribed]
    if not gone:
        return member
    assigned = {topic_id: parts for topic_id, parts in member.assigned.items() if topic_id in goal.subscribed}
    revoking = dict(member.revoking)
    for topic_id in gone:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
    member = member.at_epoch(member.epoch)
    if _owns_any(owned, revoking):
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, revoking=revoking)
    return replace(member, assigned=assigned)


def _next(member: ConsumerMember, epoch: int, goal: Goal, owned: Owned | None) -> ConsumerMember:
    assigned: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    pending: dict[bytes, frozenset[int]] = {}
    unreleased = False
    for topic_id in {**goal.target, **member.assigned}:
        target = goal.target.get(topic_id, frozenset()) if topic_id in goal.subscribed else frozenset()
        current = member.assigned.get(topic_id, {})
        kept = {partition: since for partition, since in current.items() if partition in target}
        lost = {partition: since for partition, since in current.items() if partition not in target}
        wanted = target.difference(kept)
        returning = member.revoking.get(topic_id, {})
        free = frozenset(one for one in wanted if one in returning or goal.owner_of(topic_id, one) is None)
        unreleased = unreleased or len(free) < len(wanted)
        if kept:
            assigned[topic_id] = kept
        if lost:
            revoking[topic_id] = lost
        if free:
            pending[topic_id] = free
    if revoking and _owns_any(owned, revoking):
        member = member.at_epoch(epoch)
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=assigned, revoking=revoking)
    for topic_id, partitions in pending.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(sorted(partitions), goal.epoch))
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return replace(member.at_epoch(goal.epoch), state=state, assigned=assigned, revoking={})
