"""What the active controller sees to by itself, now and then: preferred leaders, and partitions without any.

Source: `ReplicationControlManager.maybeBalancePartitionLeaders`, `.maybeElectUncleanLeaders`. As in Kafka since KRaft
there is no percentage of imbalance that is put up with.
"""

from collections.abc import Iterator
from itertools import islice

from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.decisions.partition_changes import Election, TopicRules, changes_of_each, partition_change
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import PartitionChange

__all__ = ["ELECTIONS_MAX", "leaderless", "preferred"]

ELECTIONS_MAX = 1000
"""At a time: each makes clients look for another leader."""


def preferred(image: Image, context: Context) -> Decision[bool]:
    """Back to the first replica wherever that is in sync and alive; the reply is whether there is more to do.

    To be asked every `leader.imbalance.check.interval.seconds` where `auto.leader.rebalance.enable` says so.
    """
    return _some(_to_preferred(image, context))


def leaderless(image: Image, context: Context) -> Decision[bool]:
    """A leader for each partition that has none and may have one; the reply is whether there is more to do.

    Mostly there is nothing: elections follow from whatever makes them possible. What remains are partitions of topics
    whose `unclean.leader.election.enable` was set after they had lost everybody.
    """
    rules = TopicRules(image, context.in_force(image))
    return _some(changes_of_each(image, rules, where=lambda state: state.leader < 0))


def _to_preferred(image: Image, context: Context) -> Iterator[PartitionChange]:
    rules = TopicRules(image, context.in_force(image))
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            first = state.replicas[0]
            if state.leader != first and first in state.isr and image.may_lead(first):
                change = partition_change(topic.id, index, state, state, rules.of(topic, Election.PREFERRED))
                if change is not None:
                    yield change


def _some(changes: Iterator[PartitionChange]) -> Decision[bool]:
    found = list(islice(changes, ELECTIONS_MAX + 1))
    return Decision([*found[:ELECTIONS_MAX]], len(found) > ELECTIONS_MAX)
