"""The elections that the active controller starts on a timer: preferred leaders, and leaders of leaderless partitions.

As in KRaft, there is no tolerated percentage of imbalance.

Source: `ReplicationControlManager.maybeBalancePartitionLeaders`, `.maybeElectUncleanLeaders`.
"""

from collections.abc import Iterator
from itertools import islice

from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.decisions.leader_election import Election, TopicRules
from minikafka.controller.decisions.partition_changes import changes_where, partition_change
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import PartitionChange

__all__ = ["ELECTIONS_MAX", "leaderless", "preferred"]

ELECTIONS_MAX = 1000
"""The most elections of one decision: each of them makes clients look up the new leader."""


def preferred(image: Image, context: Context) -> Decision[bool]:
    """Elects the preferred leader of each partition where it is in sync and unfenced; replies whether more remain.

    Called every `leader.imbalance.check.interval.seconds` if `auto.leader.rebalance.enable` is set.
    """
    return _limited(_to_preferred(image, context))


def leaderless(image: Image, context: Context) -> Decision[bool]:
    """Elects a leader for each leaderless partition that can have one; replies whether more remain.

    Usually there is none, since a change that makes an election possible includes it. The exception is a topic whose
    `unclean.leader.election.enable` was set after it had lost all members of its ISR.
    """
    rules = TopicRules(image, context.settings(image))
    return _limited(changes_where(image, rules, where=lambda state: state.leader < 0))


def _to_preferred(image: Image, context: Context) -> Iterator[PartitionChange]:
    rules = TopicRules(image, context.settings(image))
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            first = state.replicas[0]
            usable = image.may_lead(first) and image.has_online(first, state.directory(first))
            if state.leader != first and first in state.isr and usable:
                change = partition_change(topic.id, index, state, state, rules.of(topic, Election.PREFERRED))
                if change is not None:
                    yield change


def _limited(changes: Iterator[PartitionChange]) -> Decision[bool]:
    found = list(islice(changes, ELECTIONS_MAX + 1))
    return Decision([*found[:ELECTIONS_MAX]], len(found) > ELECTIONS_MAX)
