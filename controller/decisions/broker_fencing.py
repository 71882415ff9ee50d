"""A broker that was not heard of for a session is fenced: its partitions get other leaders, and it is in sync no more.

Nobody asks for this but the active controller's timer. Source: `ReplicationControlManager.handleBrokerFenced`.
"""

from collections.abc import Iterator
from itertools import islice

from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision
from minikafka.controller.decisions.partition_changes import TopicRules, changes_of_each
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerChange, PartitionChange, Record

__all__ = ["at_most", "decide", "leaving", "returning"]


def decide(image: Image, node_id: int, context: Context) -> Decision[bool]:
    """Fence a broker; of one that is fenced already, take what is left.

    The reply is whether there is more than fits into one decision: then decide again.
    """
    broker = image.brokers.get(node_id)
    if broker is None:
        return Decision([], False)
    records: list[Record] = [] if broker.fenced else [BrokerChange(node_id, broker.epoch, fenced=True)]
    records, more = at_most(records, leaving(image, node_id, context))
    return Decision(records, more)


def leaving(image: Image, node_id: int, context: Context, *, crashed: bool = False) -> Iterator[PartitionChange]:
    """Every partition that the node is in sync for goes on without it.

    Args:
        image: still says that the node is there.
        node_id: the node.
        context: of the decision.
        crashed: whether what it had may be gone; then it is not eligible either.
    """
    rules = TopicRules(
        image,
        context.in_force(image),
        may_lead=lambda node: node != node_id and image.may_lead(node),
        crashed=node_id if crashed else None,
    )
    yield from changes_of_each(
        image,
        rules,
        where=lambda state: node_id in state.isr or (crashed and node_id in state.elr),
        leaves=node_id,
    )


def returning(image: Image, node_id: int, context: Context) -> Iterator[PartitionChange]:
    """Partitions without a leader get one, now that the node is there."""
    rules = TopicRules(
        image, context.in_force(image), may_lead=lambda node: node == node_id or image.may_lead(node)
    )
    yield from changes_of_each(
        image, rules, where=lambda state: state.leader < 0 and node_id in state.replicas
    )


def at_most(records: list[Record], changes: Iterator[PartitionChange]) -> tuple[list[Record], bool]:
    """As many as fit into one decision, and whether there are more."""
    found = [*records, *islice(changes, RECORDS_MAX - len(records))]
    return found, len(found) == RECORDS_MAX and next(changes, None) is not None
