"""Selects the replica that a consumer should fetch from: one in its own rack that has the offset (KIP-392). Pure.

Source: Kafka's `RackAwareReplicaSelector`, `ReplicaManager.findPreferredReadReplica`.
"""

from collections.abc import Mapping

from minikafka.broker.partitions.follower_progress import LeaderState
from minikafka.controller.metadata.records import BrokerRecord

RACK_AWARE = "RackAwareReplicaSelector"


def is_rack_aware(selector: str | None) -> bool:
    """Whether `replica.selector.class` is Kafka's rack-aware selector, the only one supported."""
    return selector is not None and selector.rpartition(".")[2] == RACK_AWARE


def preferred_replica(
    leader_state: LeaderState, brokers: Mapping[int, BrokerRecord], *, leader_id: int, rack: str, offset: int
) -> int | None:
    """Select the in-sync follower in the consumer's rack with the highest log end offset; None stands for the leader.

    Args:
        rack: The consumer's rack, or "".
        offset: The fetch offset.
    """
    if not rack or _rack(brokers, leader_id) == rack:
        return None
    nearby = [
        (follower.end_offset, follower.last_caught_up_ms, -node_id)
        for node_id, follower in leader_state.followers.items()
        if node_id in leader_state.isr
        and follower.log_start_offset <= offset <= follower.end_offset
        and _rack(brokers, node_id) == rack
    ]
    return -max(nearby)[2] if nearby else None


def _rack(brokers: Mapping[int, BrokerRecord], node_id: int) -> str | None:
    """The rack of an unfenced broker."""
    broker = brokers.get(node_id)
    return None if broker is None or broker.fenced else broker.rack
