"""Writes transaction markers to the partitions that this node leads (WriteTxnMarkers), for this or another node.

Markers of `__consumer_offsets` go through the group coordinator, whose pending offsets they commit or drop. Source:
Kafka's `KafkaApis.handleWriteTxnMarkersRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import trio

from minikafka.broker.coordinator.groups.group_coordinator import TOPIC as OFFSETS_TOPIC
from minikafka.broker.coordinator.groups.group_coordinator import GroupCoordinator
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.request_waiters import before
from minikafka.protocol.errors import (
    ErrorCode,
    KafkaError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction
from minikafka.storage.steps import Pauses, pause
from minikafka.storage.waits import Several

NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors of the group coordinator, for which a transaction coordinator gets NOT_LEADER_OR_FOLLOWER, and tries again."""

MARKERS_AT_ONCE = 64
"""How many markers are appended between two pauses; about 5 ms."""

NO_PRODUCER_ID = NO_EPOCH = -1
Results = dict[TopicPartition, ErrorCode]


class Marker(NamedTuple):
    """A transaction marker: the end of a transaction, which is written to every partition of the transaction."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


class MarkerLog:
    """Appends markers as leader, and waits until they are committed.

    Args:
        partitions: The node's replicas.
        groups: The group coordinator of this node.
        now_ms: The wall clock.
        timeout_ms: The longest time until a marker is committed.
    """

    def __init__(
        self, partitions: Partitions, groups: GroupCoordinator, now_ms: Callable[[], int], timeout_ms: int
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms

    async def write_all(self, markers: Sequence[tuple[Marker, Sequence[TopicPartition]]]) -> list[Results]:
        """Write each marker to its partitions. Returns, for each marker, an error code for each of its partitions.

        After cancellation some partitions have no marker, or a marker that is not committed yet.
        """
        results: list[Results] = [{} for _ in markers]
        pauses = Pauses(MARKERS_AT_ONCE)
        deadline = trio.current_time() + self._timeout_ms / 1000
        written: list[tuple[Results, TopicPartition]] = []
        with Several[ErrorCode]() as writes:
            for result, (marker, names) in zip(results, markers, strict=True):
                if _is_invalid(marker):
                    result |= self._refusals(names)
                    continue
                for name in names:
                    if pauses.is_due():
                        await pause()
                    writes.begin(self._write_one(marker, name, deadline))
                    written.append((result, name))
            for (result, name), error in zip(written, await writes.results(), strict=True):
                result[name] = error
        return results

    def _refusals(self, names: Sequence[TopicPartition]) -> Results:
        """Kafka's error codes for a marker that no batch can hold: if any partition is here, all fail alike."""
        appends = any(self._partitions.get(*name) is not None for name in names)
        error = ErrorCode.UNKNOWN_SERVER_ERROR if appends else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return dict.fromkeys(names, error)

    async def write(self, marker: Marker, names: Sequence[TopicPartition]) -> Results:
        """As `write_all` for one marker."""
        (results,) = await self.write_all([(marker, names)])
        return results

    async def _write_one(self, marker: Marker, name: TopicPartition, deadline: float) -> ErrorCode:
        """Append a marker, and wait until it is committed. Returns its error code."""
        write = self._write_to_group_coordinator if name.topic == OFFSETS_TOPIC else self._write_to_partition
        try:
            await write(name, marker, deadline)
        except KafkaError as error:
            return ErrorCode(error.code)
        return ErrorCode.NONE

    async def _write_to_partition(self, name: TopicPartition, marker: Marker, deadline: float) -> None:
        partition = self._find(name)
        written = partition.append_internal(
            bytearray(self._encode(marker)), transaction_version=marker.transaction_version
        )
        if not partition.is_committed(written.last_offset + 1, written.leadership_term):
            committed = partial(partition.committed, written.last_offset + 1, written.leadership_term)
            if not await before(deadline, committed):
                raise RequestTimedOutError(f"the marker in {partition} was not committed in time")

    def _find(self, name: TopicPartition) -> Partition:
        """The replica of this node. Raises UnknownTopicOrPartitionError without one, unlike other requests.

        In other requests the error is NOT_LEADER_OR_FOLLOWER.
        """
        partition = self._partitions.get(*name)
        if partition is None:
            raise UnknownTopicOrPartitionError(f"{name} is not on this node")
        return partition

    async def _write_to_group_coordinator(self, name: TopicPartition, marker: Marker, _: float) -> None:
        """Write a marker by means of the group coordinator, which has its own time limit."""
        try:
            await self._groups.runtime.end_transaction(
                name.partition,
                self._encode(marker),
                marker.producer_id,
                committed=marker.committed,
                transaction_version=marker.transaction_version,
            )
        except KafkaError as error:
            raise _for_transactions(error) from error

    def _encode(self, marker: Marker) -> bytes:
        kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
        return encode_end_transaction(
            EndTxnMarker(kind, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=self._now_ms(),
        )


def _is_invalid(marker: Marker) -> bool:
    return marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch == NO_EPOCH or marker.transaction_version < 0


def _for_transactions(error: KafkaError) -> KafkaError:
    return NotLeaderOrFollowerError(error.message) if error.code in NOT_READY else error
