"""The states of a classic group.

    from                   to                     when
    -                      Empty                  a first JoinGroup or a first commit
    Empty                  PreparingRebalance     a member joins
    PreparingRebalance     CompletingRebalance    all members have joined, or the rebalance time-out is over
    PreparingRebalance     Empty                  the last member is gone
    CompletingRebalance    Stable                 the leader's assignment is in the log
    CompletingRebalance    PreparingRebalance     a member joins, changes, leaves or falls silent
    Stable                 PreparingRebalance     likewise, or the leader joins again
    any                    Dead                   the group is deleted, or this node coordinates it no longer

Only Empty and Stable are ever in the log; what lies between is forgotten by a new coordinator, whose members
find out by their next heartbeat. Source: Kafka's `ClassicGroupState`.
"""

from __future__ import annotations

from enum import StrEnum


class GroupState(StrEnum):
    """A group's state, spelled as ListGroups and DescribeGroups do."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, DEAD = GroupState

PREVIOUS: dict[GroupState, tuple[GroupState, ...]] = {
    EMPTY: (PREPARING_REBALANCE,),
    PREPARING_REBALANCE: (STABLE, COMPLETING_REBALANCE, EMPTY),
    COMPLETING_REBALANCE: (PREPARING_REBALANCE,),
    STABLE: (COMPLETING_REBALANCE,),
    DEAD: tuple(GroupState),
}
"""From where each state can be reached."""
