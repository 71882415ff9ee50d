"""What a change of a partition was: a clean or an unclean election, a completed reassignment. Pure.

Source: Kafka's `PartitionRegistration.electionWasUnclean`, which reads the leader recovery state from the record of the
change. A `PartitionChange` has none, so that it follows from the state before.
"""

from minikafka.controller.metadata.image import PartitionState

__all__ = ["completes_reassignment", "elects_cleanly"]


def elects_cleanly(before: PartitionState, after: PartitionState) -> bool:
    """Whether the leader after a change has every committed record.

    A change that completes a reassignment may elect a replica that its ISR has just got: the leader that hands over had
    proposed it, in the same request.
    """
    return after.leader in before.isr or after.leader in before.elr or completes_reassignment(before, after)


def completes_reassignment(before: PartitionState, after: PartitionState) -> bool:
    """Whether a change ends a reassignment, and all replicas are as it was to make them."""
    if after.adding_replicas or after.removing_replicas or not (before.adding_replicas or before.removing_replicas):
        return False
    added, replicas = set(before.adding_replicas), set(after.replicas)
    return added <= replicas and replicas.isdisjoint(before.removing_replicas)
