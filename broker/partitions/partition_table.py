"""`Partitions`: all replicas of this node, by topic name and partition number, and the lookup of topic ids."""

from collections.abc import Callable, Iterator

from minikafka.broker.partitions.large_batches import LargeBatches
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.traffic import Traffic
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import (
    InconsistentTopicIdError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.names import TopicPartition


class Partitions:
    """The node's replicas.

    Args:
        image: The metadata, to distinguish partitions of other nodes from unknown ones.
        clock, rounds: The arguments of `LargeBatches`.

    Attributes:
        large_batches: Validates batches that take long.
        traffic: Counters of appends and reads on this node, by topic; only topics with a replica on this node.
    """

    def __init__(self, image: Image, clock: Callable[[], float] = float, rounds: Callable[[], int] = int) -> None:
        self.large_batches = LargeBatches(clock, rounds)
        self.traffic: dict[str, Traffic] = {}
        self._image = image
        self._by_name: dict[tuple[str, int], Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, partition: Partition) -> None:
        """Serve a partition."""
        self.remove(partition.topic_partition)
        self._by_name[partition.topic_partition] = partition
        partition.traffic = self.traffic.setdefault(partition.topic_partition.topic, partition.traffic)
        partition.traffic.partitions += 1

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """Stop serving a partition, and return it; None if the partition was not served."""
        removed = self._by_name.pop(topic_partition, None)
        if removed is not None:
            removed.traffic.partitions -= 1
            if not removed.traffic.partitions:
                self.traffic.pop(topic_partition[0], None)
        return removed

    def get(self, topic: str, partition: int) -> Partition | None:
        """Return the replica of a partition; None if this node has no replica of it."""
        return self._by_name.get((topic, partition))

    def find(self, topic: str, partition: int) -> Partition:
        """Return the replica of a requested partition.

        Raises:
            UnknownTopicOrPartitionError: The partition does not exist.
            NotLeaderOrFollowerError: This node has no replica of it.
        """
        found = self._by_name.get((topic, partition))
        if found is not None:
            return found
        known = self._image.topics.get(topic)
        if known is not None and 0 <= partition < len(known.partitions):
            raise NotLeaderOrFollowerError(f"{topic}-{partition} is not on this node")
        raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")

    def name_of(self, topic_id: bytes) -> str:
        """Return the name of the topic with this id.

        Raises:
            UnknownTopicIdError: No topic has this id.
        """
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicIdError("This server does not host this topic ID.")
        return topic.name

    def check_id(self, topic: str, topic_id: bytes) -> None:
        """Check that a topic name still has the id stored in a fetch session (KIP-516).

        Raises:
            InconsistentTopicIdError: The name now belongs to another topic.
            UnknownTopicOrPartitionError: The topic was deleted.
        """
        known = self._image.topics.get(topic)
        if known is None:
            raise UnknownTopicOrPartitionError(f"topic {topic} was deleted")
        if known.id != topic_id:
            raise InconsistentTopicIdError(f"topic {topic} was deleted and recreated")
