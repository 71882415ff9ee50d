"""`Traffic`: what leaders on this node have appended to a topic. Counted once a batch, read by the metrics."""

__all__ = ["Traffic"]


class Traffic:
    """The appends to the partitions of a topic that this node led.

    Attributes:
        bytes_in: The sizes of all batches.
        messages_in: The records in them.
        partitions: The replicas that share this object.
    """

    __slots__ = ("bytes_in", "messages_in", "partitions")

    def __init__(self) -> None:
        self.bytes_in = self.messages_in = self.partitions = 0

    def appended(self, size_bytes: int, messages: int) -> None:
        """A batch was appended."""
        self.bytes_in += size_bytes
        self.messages_in += messages
