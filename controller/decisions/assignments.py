"""Which brokers keep a partition: assignments made by hand are checked, others are made.

Source: `ReplicationControlManager.validateManualPartitionAssignment`.
"""

from collections.abc import Sequence
from random import Random

from minikafka.controller.decisions.replica_placement import UsableBroker, place
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import InvalidReplicaAssignmentError, InvalidReplicationFactorError

__all__ = ["check_assignment", "in_sync_at_first", "place_partitions"]

FENCED = "are fenced or in controlled shutdown."


def check_assignment(image: Image, broker_ids: Sequence[int], replication_factor: int | None) -> None:
    """Refuse replicas that a partition cannot have.

    Args:
        image: knows the brokers.
        broker_ids: the leader first.
        replication_factor: of the topic's other partitions, None where there are none.

    Raises:
        InvalidReplicaAssignmentError: in Kafka's words.
    """
    if not broker_ids:
        raise InvalidReplicaAssignmentError("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(broker_ids):
        if broker_id not in image.brokers:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous = broker_id
    if replication_factor is not None and len(broker_ids) != replication_factor:
        raise InvalidReplicaAssignmentError(
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this "
            f"is not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def in_sync_at_first(image: Image, broker_ids: Sequence[int], partition: int) -> tuple[int, ...]:
    """The replicas of a new partition that are alive and stay, the leader first.

    Raises:
        InvalidReplicaAssignmentError: none is.
    """
    isr = tuple(broker_id for broker_id in broker_ids if image.may_lead(broker_id))
    if not isr:
        raise InvalidReplicaAssignmentError(
            f"All brokers specified in the manual partition assignment for partition {partition} {FENCED}"
        )
    return isr


def place_partitions(
    image: Image, *, partitions: int, replication_factor: int, random: Random
) -> list[tuple[int, ...]]:
    """Replicas for so many new partitions, not on brokers that are about to go.

    Raises:
        InvalidReplicationFactorError: in Kafka's words.
    """
    brokers = [
        UsableBroker(node_id, broker.rack, broker.fenced)
        for node_id, broker in sorted(image.brokers.items())
        if not broker.in_controlled_shutdown or broker.fenced
    ]
    try:
        return place(brokers, partitions=partitions, replication_factor=replication_factor, random=random)
    except InvalidReplicationFactorError as error:
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {replication_factor} time(s): {error.message}"
        ) from None
