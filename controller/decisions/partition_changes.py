"""Computes the record that changes a partition: its leader, ISR, eligible leader replicas and reassignment.

Every decision about an existing partition states the target state (another ISR, other replicas, an election) and gets
the record that changes the partition to the target, or None if nothing changes. The steps, in this order:

1. `reassignment_completion.py`: a reassignment is completed if its added replicas are in sync; new replicas get the
   only directory of their broker, or none yet (KIP-858);
2. `eligible_leader_replicas.py`: members that leave an ISR below min.insync.replicas become eligible leader replicas;
3. `leader_election.py`: a leader is elected if the current one may not lead;
4. `eligible_leader_replicas.py`: a partition without a leader remembers its last leader.

The leader epoch is incremented with every new leader, and when replicas are removed, so that these replicas are fenced.

Source: `PartitionChangeBuilder`, `ReplicationControlManager.generateLeaderAndIsrUpdates`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from minikafka.controller.decisions.eligible_leader_replicas import with_eligible_replicas, with_last_known_leader
from minikafka.controller.decisions.leader_election import ElectionRules, TopicRules, with_leader, without
from minikafka.controller.decisions.reassignment_completion import with_reassignment_completed
from minikafka.controller.metadata.image import Image, PartitionState, moved_directories
from minikafka.controller.metadata.records import PartitionChange
from minikafka.controller.metadata.steps import partitions_where

__all__ = ["Changes", "changes_where", "partition_change"]

Changes = Iterator[PartitionChange | None]
"""Changes of partitions, and None where a pause is due, because many partitions may be read between two changes."""


def changes_where(
    image: Image,
    rules: TopicRules,
    *,
    where: Callable[[PartitionState], bool],
    leaves_isr: int | None = None,
) -> Changes:
    """The changes of every partition that satisfies `where`: `leaves_isr` leaves the ISR, and a leader is elected."""
    for found in partitions_where(image.topics.values(), where):
        if found is None:
            yield None
            continue
        topic, index, state = found
        target = state if leaves_isr is None else replace(state, isr=without(state.isr, leaves_isr))
        change = partition_change(topic.id, index, state, target, rules.of(topic))
        if change is not None:
            yield change


def partition_change(
    topic_id: bytes, index: int, state: PartitionState, target: PartitionState, rules: ElectionRules
) -> PartitionChange | None:
    """The record that changes a partition to its target; None if nothing changes.

    Args:
        topic_id: the id of the topic.
        index: the index of the partition in the topic.
        state: the current state of the partition.
        target: the state with the requested replicas, ISR and reassignment. The leader, the epochs, the eligible leader
            replicas and the directories of new replicas are derived from them.
        rules: the election rules of the topic.
    """
    target = _with_directories(state, with_reassignment_completed(target), rules)
    target = with_eligible_replicas(state, target, rules)
    target = with_leader(state, target, rules)
    target = with_last_known_leader(state, target)
    moved = target.leader != state.leader
    removed = any(replica not in target.replicas for replica in state.replicas)
    change = PartitionChange(
        topic_id,
        index,
        isr=_if_changed(target.isr, state.isr),
        leader=target.leader if moved or removed else None,
        replicas=_if_changed(target.replicas, state.replicas),
        adding_replicas=_if_changed(target.adding_replicas, state.adding_replicas),
        removing_replicas=_if_changed(target.removing_replicas, state.removing_replicas),
        elr=_if_changed(target.elr, state.elr),
        last_known_elr=_if_changed(target.last_known_elr, state.last_known_elr),
        directories=None if target.directories == state.directories else target.directories,
    )
    return None if change == PartitionChange(topic_id, index) else change


def _with_directories(state: PartitionState, target: PartitionState, rules: ElectionRules) -> PartitionState:
    if target.replicas == state.replicas:
        return target
    new = [rules.new_directory(node) for node in target.replicas]
    return replace(target, directories=moved_directories(state, target.replicas, new))


def _if_changed(new: tuple[int, ...], old: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if new == old else new
