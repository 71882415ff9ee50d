"""Validates the replicas that a client assigns to a partition, and makes the record of a new partition.

Source: `ReplicationControlManager.validateManualPartitionAssignment`.
"""

from collections.abc import Generator, Sequence

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import PartitionRecord
from minikafka.controller.metadata.steps import RECORDS_IN_A_STEP
from minikafka.protocol.errors import InvalidReplicaAssignmentError

__all__ = ["check_assignment", "initial_isr", "new_partition", "new_partitions"]

FENCED = "are fenced or in controlled shutdown."


def check_assignment(image: Image, broker_ids: Sequence[int], replication_factor: int | None) -> None:
    """Validates the replicas of one partition.

    Args:
        image: the registered brokers.
        broker_ids: the ids of the brokers, the preferred leader first.
        replication_factor: the replication factor of the topic's other partitions; None without other partitions.

    Raises:
        InvalidReplicaAssignmentError: the replicas are invalid, with Kafka's message.
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


def new_partition(image: Image, topic_id: bytes, index: int, replicas: tuple[int, ...]) -> PartitionRecord:
    """The record of a new partition. Raises the errors of `initial_isr`."""
    isr = initial_isr(image, replicas, index)
    directories = tuple(image.new_directory(node) for node in replicas)
    return PartitionRecord(topic_id, index, replicas, isr, isr[0], directories=directories)


def new_partitions(
    image: Image, topic_id: bytes, first: int, replicas: Sequence[tuple[int, ...]]
) -> Generator[None, None, list[PartitionRecord]]:
    """Make the records of new partitions, from index `first` on, in steps. Raises the errors of `initial_isr`."""
    records: list[PartitionRecord] = []
    for index, broker_ids in enumerate(replicas, first):
        records.append(new_partition(image, topic_id, index, broker_ids))
        if len(records) % RECORDS_IN_A_STEP == 0:
            yield
    return records


def initial_isr(image: Image, broker_ids: Sequence[int], partition: int) -> tuple[int, ...]:
    """The replicas of a new partition that are unfenced and not in controlled shutdown; the first one leads.

    Raises:
        InvalidReplicaAssignmentError: no replica is.
    """
    isr = tuple(broker_id for broker_id in broker_ids if image.may_lead(broker_id))
    if not isr:
        raise InvalidReplicaAssignmentError(
            f"All brokers specified in the manual partition assignment for partition {partition} {FENCED}"
        )
    return isr
