"""Completes a reassignment once every added replica is in sync (KIP-455).

Source: `PartitionReassignmentReplicas.maybeCompleteReassignment`.
"""

from dataclasses import replace

from minikafka.controller.decisions.leader_election import without
from minikafka.controller.metadata.image import PartitionState

__all__ = ["with_reassignment_completed"]


def with_reassignment_completed(target: PartitionState) -> PartitionState:
    """`target` without the replicas being removed, if all added replicas and at least one that stays are in sync."""
    if not (target.adding_replicas or target.removing_replicas):
        return target
    staying = without(target.isr, *target.removing_replicas)
    if not staying or any(replica not in staying for replica in target.adding_replicas):
        return target
    return replace(
        target,
        isr=staying,
        replicas=without(target.replicas, *target.removing_replicas),
        adding_replicas=(),
        removing_replicas=(),
    )
