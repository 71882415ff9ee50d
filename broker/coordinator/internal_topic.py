"""`InternalTopic`: a coordinator's access to the partitions of its internal topic, and to the clock."""

from collections.abc import Callable

from minikafka.broker.partitions.partition_table import Partitions
from minikafka.controller.metadata.image import Image
from minikafka.protocol.names import TopicPartition


class InternalTopic:
    """The environment of a coordinator on a node: implements `environment.Environment` with the node's partitions."""

    def __init__(self, image: Image, partitions: Partitions, now_ms: Callable[[], int]) -> None:
        self._image = image
        self._partitions = partitions
        self._now_ms = now_ms
        self._counts: dict[bytes, int] = {}
        """By topic id, the number of partitions at the first call of `partition_count`."""

    def now_ms(self) -> int:
        """The node's wall clock."""
        return self._now_ms()

    def partition_count(self, topic: str) -> int | None:
        """The partition count that keys are mapped with; None while the topic does not exist.

        The count is that of the first call. Partitions that are added later receive no keys before the node is started
        again. Otherwise groups and transactions would move to other partitions at once, without their offsets and
        states. Source: Kafka's `GroupCoordinatorService.startup`.
        """
        known = self._image.topics.get(topic)
        if known is None:
            return None
        if known.id not in self._counts:
            self._counts = {known.id: len(known.partitions)}
        return self._counts[known.id]

    def start_offset(self, partition: TopicPartition) -> int:
        """The log start offset of a partition led by this node."""
        return self._partitions.find(*partition).log.start_offset

    async def read(self, partition: TopicPartition, offset: int, max_bytes: int) -> bytes:
        """Read batches from `offset` on, committed or not; empty at the log end."""
        found = self._partitions.find(*partition).log.read(offset, max_bytes=max_bytes)
        return b"" if found is None else found.read()

    def append(self, partition: TopicPartition, batch: bytearray, verification: object | None = None) -> int:
        """Append one batch as leader; returns the offset of its last record."""
        return self._partitions.find(*partition).append_internal(batch, verification=verification).last_offset

    def append_marker(self, partition: TopicPartition, batch: bytearray, transaction_version: int) -> int:
        """Append a transaction marker as leader; returns its offset."""
        found = self._partitions.find(*partition)
        return found.append_internal(batch, transaction_version=transaction_version).last_offset

    def is_committed(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the record at `offset` is committed."""
        return self._partitions.find(*partition).is_committed(offset + 1)

    async def committed(self, partition: TopicPartition, offset: int) -> None:
        """Wait until the record at `offset` is committed."""
        await self._partitions.find(*partition).committed(offset + 1)


def leader_of(image: Image, topic: str, partition: int) -> int:
    """The leader of a partition of an internal topic; -1 if there is no leader, topic or partition.

    `partition` may be -1, which is no partition.
    """
    known = image.topics.get(topic)
    if known is None or not 0 <= partition < len(known.partitions):
        return -1
    return known.partitions[partition].leader
