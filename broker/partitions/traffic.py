"""`Traffic`: counts the records and bytes of a topic that a node has appended and sent, for the metrics."""

__all__ = ["Traffic"]


class Traffic:
    """Counters of one topic, for the partitions that have a replica on this node. Updated once for each batch or read.

    Attributes:
        bytes_in: The bytes of the batches that this node appended as leader.
        messages_in: The number of records in these batches.
        batches_in: The number of these batches.
        rejected, rejected_bytes: The number and the bytes of producers' batches that were not appended.
        bytes_out: The bytes of records that consumers were sent.
        reads, failed_reads: How often a Fetch read a partition, and how often the result was an error.
        followed_bytes_in: The bytes that this node appended as follower.
        followed_bytes_out: The bytes of records that followers were sent.
        partitions: The number of replicas that share this object.
    """

    __slots__ = (
        "batches_in",
        "bytes_in",
        "bytes_out",
        "failed_reads",
        "followed_bytes_in",
        "followed_bytes_out",
        "messages_in",
        "partitions",
        "reads",
        "rejected",
        "rejected_bytes",
    )

    def __init__(self) -> None:
        self.bytes_in = self.messages_in = self.batches_in = self.rejected = self.rejected_bytes = 0
        self.bytes_out = self.reads = self.failed_reads = self.followed_bytes_in = self.followed_bytes_out = 0
        self.partitions = 0

    def appended(self, size_bytes: int, messages: int) -> None:
        """Count a batch that this node appended as leader."""
        self.bytes_in += size_bytes
        self.messages_in += messages
        self.batches_in += 1
