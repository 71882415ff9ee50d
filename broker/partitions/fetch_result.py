"""What a fetch of one partition finds, and where a reader's log and this one part."""

from dataclasses import dataclass

from minikafka.protocol.errors import OffsetOutOfRangeError
from minikafka.storage.disk import FileSlice
from minikafka.storage.log import Log

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NO_EPOCH = -1
NO_REPLICA = -1
NO_RECORDS = b""


@dataclass(slots=True)
class FetchResult:
    """What a fetch of one partition found; offsets at the moment of reading."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: FileSlice | bytes
    aborted: list[tuple[int, int]] | None = None
    """(producer id, first offset) of aborted transactions among the records; None when uncommitted is asked for."""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where the reader's log and this one part (KIP-595); then there are no records."""
    preferred_replica: int = NO_REPLICA
    """Whom a consumer should rather ask (KIP-392); then there are no records."""


def divergence(log: Log, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
    """Does the reader's log, which ends in `last_fetched_epoch` at `offset`, part from this one before? (KIP-595)

    Returns:
        The largest epoch up to the reader's that is known here, and where it ends; None where the logs agree.

    Raises:
        OffsetOutOfRangeError: Before the log's start, even if the logs part (KAFKA-10554); or no such epoch is known.
    """
    if offset < log.start_offset:
        raise OffsetOutOfRangeError(f"{log.topic_partition} starts at {log.start_offset}, not {offset}")
    epoch, end_offset = log.epochs.end_offset_for(last_fetched_epoch, log.end_offset)
    if epoch == NO_EPOCH or end_offset < 0:
        raise OffsetOutOfRangeError(
            f"{log.topic_partition} has no records of epoch {last_fetched_epoch} or before"
        )
    return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < offset else None
