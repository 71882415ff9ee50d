"""`FetchResult`: the result of reading one partition for a fetch; `divergence`: where two logs diverge (KIP-595)."""

from dataclasses import dataclass
from typing import Protocol

from minikafka.protocol.errors import OffsetOutOfRangeError
from minikafka.storage.disks.disk import FileSlice
from minikafka.storage.logs.log import Log

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NO_EPOCH = -1
NO_REPLICA = -1
NO_RECORDS = b""


class Names(Protocol):
    """A set of names: `name in names`."""

    def __contains__(self, name: str, /) -> bool: ...


@dataclass(slots=True)
class Fetcher:
    """The client of a fetch.

    Attributes:
        replica_id: The node id of a follower; -1 for a consumer.
        broker_epoch: The broker epoch of a follower; -1 if not given.
        rack: The rack of a consumer; "" if not given, or if no replica selector is configured.
        leader_only: Whether only the leader may serve the fetch.
        readable: The topics that the client may read; None if it may read all.
        first_read: Whether the partitions are read for the first time.
    """

    replica_id: int
    broker_epoch: int
    rack: str
    leader_only: bool
    readable: Names | None = None
    first_read: bool = True


@dataclass(slots=True)
class FetchResult:
    """The records read from one partition, with its offsets at that moment."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: FileSlice | bytes
    aborted: list[tuple[int, int]] | None = None
    """(producer id, first offset) of aborted transactions in the records; None for read_uncommitted."""
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) if the follower's log diverges from this one (KIP-595); there are no records then."""
    preferred_replica: int = NO_REPLICA
    """The node that the consumer should fetch from (KIP-392); there are no records then."""


def divergence(log: Log, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
    """Check whether a follower's log, which ends at `offset` in `last_fetched_epoch`, diverges from this one (KIP-595).

    Returns:
        (epoch, end offset) of the largest known epoch up to the follower's; None if the logs agree.

    Raises:
        OffsetOutOfRangeError: `offset` is before the log start, even if the logs diverge (KAFKA-10554); or no epoch
            up to the follower's is known.
    """
    if offset < log.start_offset:
        raise OffsetOutOfRangeError(f"{log.topic_partition} starts at {log.start_offset}, not {offset}")
    epoch, end_offset = log.epochs.end_offset_for(last_fetched_epoch, log.end_offset)
    if epoch == NO_EPOCH or end_offset < 0:
        raise OffsetOutOfRangeError(
            f"{log.topic_partition} has no records of epoch {last_fetched_epoch} or earlier"
        )
    return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < offset else None
