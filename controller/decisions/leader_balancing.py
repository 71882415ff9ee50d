"""The elections that the active controller starts on a timer: preferred leaders, and leaders of leaderless partitions.

As in KRaft, there is no tolerated percentage of imbalance.

Source: `ReplicationControlManager.maybeBalancePartitionLeaders`, `.maybeElectUncleanLeaders`.
"""

from collections.abc import Generator

from minikafka.controller.decisions.broker_fencing import limited
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.decisions.leader_election import Election, TopicRules
from minikafka.controller.decisions.partition_changes import Changes, changes_where, partition_change
from minikafka.controller.metadata.image import Image, PartitionState
from minikafka.controller.metadata.steps import partitions_where
from minikafka.storage.steps import without_pauses

__all__ = ["ELECTIONS_MAX", "electing_leaderless", "electing_preferred", "leaderless", "preferred"]

ELECTIONS_MAX = 1000
"""The most elections of one decision: each of them makes clients look up the new leader."""


def electing_preferred(image: Image, context: Context) -> Generator[None, None, Decision[bool]]:
    """Elect the preferred leader of each partition where it is in sync and may lead; reply whether more remain.

    The active controller calls it every `leader.imbalance.check.interval.seconds` if `auto.leader.rebalance.enable` is
    set.
    """
    return _limited(_to_preferred(image, context))


def electing_leaderless(image: Image, context: Context) -> Generator[None, None, Decision[bool]]:
    """Elect a leader for each leaderless partition that can have one; reply whether more remain.

    Usually there is no such partition, since a change that makes an election possible includes the election. The
    exception is a topic whose `unclean.leader.election.enable` was set after it had lost all members of its ISR.
    """
    rules = TopicRules(image, context.settings(image))
    return _limited(changes_where(image, rules, where=lambda state: state.leader < 0))


leaderless = without_pauses(electing_leaderless)
preferred = without_pauses(electing_preferred)


def _to_preferred(image: Image, context: Context) -> Changes:
    rules = TopicRules(image, context.settings(image))

    def usable(state: PartitionState) -> bool:
        first = state.replicas[0]
        in_sync = state.leader != first and first in state.isr
        return in_sync and image.may_lead(first) and image.has_online(first, state.directory(first))

    for found in partitions_where(image.topics.values(), usable):
        if found is None:
            yield None
            continue
        topic, index, state = found
        change = partition_change(topic.id, index, state, state, rules.of(topic, Election.PREFERRED))
        if change is not None:
            yield change


def _limited(changes: Changes) -> Generator[None, None, Decision[bool]]:
    return Decision(*(yield from limited([], changes, ELECTIONS_MAX)))
