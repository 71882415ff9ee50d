"""Classifies a change of a partition: a clean or an unclean election, a completed reassignment. Pure.

Source: Kafka's `PartitionRegistration.electionWasUnclean`, which reads the leader recovery state from the record of the
change. A `PartitionChange` has no such field, so the result is derived from the states before and after the change.
"""

from minikafka.controller.metadata.image import PartitionState

__all__ = ["completes_reassignment", "elects_cleanly"]


def elects_cleanly(before: PartitionState, after: PartitionState) -> bool:
    """Whether the leader after a change has every committed record.

    A change that completes a reassignment may elect a replica that joins the ISR in the same change; the previous
    leader proposed this ISR, so the election is clean.
    """
    return after.leader in before.isr or after.leader in before.elr or completes_reassignment(before, after)


def completes_reassignment(before: PartitionState, after: PartitionState) -> bool:
    """Whether a change ends a reassignment with all added replicas kept and all removed replicas gone."""
    if after.adding_replicas or after.removing_replicas or not (before.adding_replicas or before.removing_replicas):
        return False
    added, replicas = set(before.adding_replicas), set(after.replicas)
    return added <= replicas and replicas.isdisjoint(before.removing_replicas)
