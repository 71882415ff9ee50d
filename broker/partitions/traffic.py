"""`Traffic`: what a node has appended to a topic, and sent of it. Counted once a batch or read, for the metrics."""

__all__ = ["Traffic"]


class Traffic:
    """The partitions of a topic with a replica here.

    Attributes:
        bytes_in: The sizes of the batches that this node appended as leader.
        messages_in: The records in them.
        batches_in: How many they are.
        rejected, rejected_bytes: Batches of producers that were not appended.
        bytes_out: What consumers were sent.
        reads, failed_reads: How often a Fetch read a partition, and how often that was an error.
        followed_bytes_in: What this node appended as follower.
        followed_bytes_out: What followers were sent.
        partitions: The replicas that share this object.
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
        """A batch was appended."""
        self.bytes_in += size_bytes
        self.messages_in += messages
        self.batches_in += 1
