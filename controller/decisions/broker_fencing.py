"""Fences a broker whose session timed out: it leaves every ISR, and its partitions get other leaders.

The active controller's timer is the only caller of `decide`. The partition changes are shared by all decisions that
remove a broker from its ISRs or bring it back: heartbeats, registration, unregistration.

Source: `ReplicationControlManager.handleBrokerFenced`, `.handleBrokerUnfenced`.
"""

from collections.abc import Generator
from dataclasses import replace

from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision
from minikafka.controller.decisions.leader_election import NO_LEADER, TopicRules, without
from minikafka.controller.decisions.partition_changes import Changes, changes_where, partition_change
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerChange, BrokerRecord, Record
from minikafka.controller.metadata.steps import partitions_where
from minikafka.storage.directories.directory_ids import is_online
from minikafka.storage.steps import without_pauses

__all__ = [
    "RECORDS_AT_ONCE",
    "decide",
    "deciding",
    "elect_only_broker",
    "elect_with_returned",
    "limited",
    "remove_from_isrs",
]

RECORDS_AT_ONCE = 1_000
"""The most records of one decision to fence a broker, which changes the image of each node in one step."""


def deciding(image: Image, node_id: int, context: Context) -> Generator[None, None, Decision[bool]]:
    """Fence a broker whose session has expired, or remove a broker that is already fenced from its remaining ISRs.

    The reply is True if more changes remain than fit into one decision; then decide again. Contact with the broker
    between the steps is too late: the broker is fenced, as if the contact came after the decision.
    """
    broker = image.brokers.get(node_id)
    if broker is None or (not broker.fenced and context.sessions.is_live(node_id, broker.epoch, context.now_ms)):
        return Decision([], False)
    records: list[Record] = [] if broker.fenced else [BrokerChange(node_id, broker.epoch, fenced=True)]
    records, more = yield from limited(records, remove_from_isrs(image, node_id, context), RECORDS_AT_ONCE)
    return Decision(records, more)


decide = without_pauses(deciding)


def remove_from_isrs(
    image: Image, node_id: int, context: Context, *, unclean_shutdown: bool = False
) -> Changes:
    """Removes a broker from every ISR, and elects leaders for the partitions that it led.

    Args:
        image: the state before the broker is fenced.
        node_id: the broker.
        context: the context of the decision.
        unclean_shutdown: whether the broker may have lost records; then it also leaves the eligible leader replicas.
    """
    rules = TopicRules(
        image,
        context.settings(image),
        may_lead=lambda node: node != node_id and image.may_lead(node),
        unclean_shutdown=node_id if unclean_shutdown else None,
    )
    return changes_where(
        image,
        rules,
        where=lambda state: node_id in state.isr or (unclean_shutdown and node_id in state.elr),
        leaves_isr=node_id,
    )


def elect_with_returned(image: Image, node_id: int, context: Context) -> Changes:
    """Elect leaders for the leaderless partitions of a broker that is being unfenced."""
    rules = TopicRules(
        image, context.settings(image), may_lead=lambda node: node == node_id or image.may_lead(node)
    )
    return changes_where(
        image, rules, where=lambda state: state.leader < 0 and node_id in state.replicas
    )


def elect_only_broker(image: Image, broker: BrokerRecord, context: Context, *, unclean_shutdown: bool) -> Changes:
    """Elect the only broker of a cluster for all partitions that it may lead, where it led after an unclean shutdown
    in a new leader epoch: records that it had not synced may be lost, and their offsets assigned again (KAFKA-7415)."""
    node_id = broker.node_id
    rules = TopicRules(
        image,
        context.settings(image),
        may_lead=lambda node: node == node_id,
        has_online=lambda node, directory: is_online(directory, broker.log_dirs),
    )
    for found in partitions_where(image.topics.values(), lambda state: node_id in state.replicas):
        if found is None:
            yield None
            continue
        topic, index, state = found
        is_usable = is_online(state.directory(node_id), broker.log_dirs)
        before = replace(state, leader=NO_LEADER) if is_usable and unclean_shutdown else state
        target = before if is_usable else replace(state, isr=without(state.isr, node_id))
        change = partition_change(topic.id, index, before, target, rules.of(topic))
        if change is not None:
            yield change


def limited(
    records: list[Record], changes: Changes, count_max: int = RECORDS_MAX
) -> Generator[None, None, tuple[list[Record], bool]]:
    """Collect in steps as many records as fit into one decision; return them, and whether changes remain."""
    found = [*records]
    for change in changes:
        if change is None:
            yield
        elif len(found) == count_max:
            return found, True
        else:
            found.append(change)
    return found, False
