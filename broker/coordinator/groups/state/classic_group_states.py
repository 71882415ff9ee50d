"""The states of a classic group and the transitions between them.

    from                   to                     when
    -                      Empty                  a first JoinGroup or a first commit
    Empty                  PreparingRebalance     a member joins
    PreparingRebalance     CompletingRebalance    all members have joined, or the rebalance timeout has passed
    PreparingRebalance     Empty                  the last member has left
    CompletingRebalance    Stable                 the leader's assignment is in the log
    CompletingRebalance    PreparingRebalance     a member joins, changes, leaves or times out
    Stable                 PreparingRebalance     as above, or the leader joins again
    any                    Dead                   the group is deleted, or this node no longer coordinates it

Only Empty and Stable are in the log. A new coordinator does not know the states between; members detect that from
their next heartbeat. Source: Kafka's `ClassicGroupState`.
"""

from __future__ import annotations

from enum import StrEnum


class GroupState(StrEnum):
    """A group's state, spelled as in ListGroups and DescribeGroups."""

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
"""The valid previous states of each state."""
