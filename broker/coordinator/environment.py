"""`Environment`: the services that the coordinator runtime needs from its node."""

from __future__ import annotations

from typing import Protocol

from minikafka.protocol.names import TopicPartition


class Environment(Protocol):
    """The partitions of internal topics, and the clock. Partition errors are raised as `KafkaError`."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970."""
        ...

    def partition_count(self, topic: str) -> int | None:
        """The number of partitions of an internal topic; None while it does not exist."""
        ...

    def start_offset(self, partition: TopicPartition) -> int:
        """The log start offset of a partition led by this node."""
        ...

    async def read(self, partition: TopicPartition, offset: int, max_bytes: int) -> bytes | memoryview:
        """Read batches from the first one that ends after `offset`, committed or not, at least one whole batch.

        Empty at the log end. The last batch may be incomplete.
        """
        ...

    def append(self, partition: TopicPartition, batch: bytearray, verification: object | None = None) -> int:
        """Append one batch as leader, as with acks=all; its offsets and leader epoch are set in place.

        Args:
            verification: See `decision.Producer`.

        Returns:
            The offset of its last record.

        Raises:
            KafkaError: Nothing was written, for example NotLeaderOrFollowerError, NotEnoughReplicasError,
                MessageTooLargeError or KafkaStorageError.
        """
        ...

    def append_marker(self, partition: TopicPartition, batch: bytearray, transaction_version: int) -> int:
        """Append a transaction marker; as `append`.

        Raises:
            InvalidProducerEpochError: The marker is of an earlier transaction than the open one.
            TransactionCoordinatorFencedError: It is of an earlier coordinator.
        """
        ...

    def is_committed(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the record at `offset` is committed. Raises KafkaError, as `committed`."""
        ...

    async def committed(self, partition: TopicPartition, offset: int) -> None:
        """Wait until the record at `offset` is committed, that is below the high watermark.

        Raises:
            NotLeaderOrFollowerError: Leadership ended first.
        """
        ...
