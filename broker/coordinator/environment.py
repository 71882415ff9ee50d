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
        """The number of partitions of an internal topic; None while the topic does not exist."""
        ...

    def start_offset(self, partition: TopicPartition) -> int:
        """The log start offset of a partition led by this node."""
        ...

    async def read(self, partition: TopicPartition, offset: int, max_bytes: int) -> bytes | memoryview:
        """Read batches, committed or not, beginning with the first batch that ends after `offset`.

        Returns:
            At least one whole batch; the last batch may be incomplete. Empty at the log end.
        """
        ...

    def append(self, partition: TopicPartition, batch: bytearray, verification: object | None = None) -> int:
        """Append one batch as leader, as with acks=all; its offsets and leader epoch are set in place.

        Args:
            verification: See `decision.Producer`.

        Returns:
            The offset of the last record of the batch.

        Raises:
            KafkaError: Nothing was written, for example NotLeaderOrFollowerError, NotEnoughReplicasError,
                MessageTooLargeError or KafkaStorageError.
        """
        ...

    def append_marker(self, partition: TopicPartition, batch: bytearray, transaction_version: int) -> int:
        """Append a transaction marker as leader, and return its offset.

        Raises:
            KafkaError: As `append`.
            InvalidProducerEpochError: The marker belongs to an earlier transaction than the open one.
            TransactionCoordinatorFencedError: An earlier coordinator has sent the marker.
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
