"""Writes transaction markers to the partitions that this node leads: WriteTxnMarkers, from this node or from another.

Markers of `__consumer_offsets` go through the group coordinator, whose pending offsets they commit or drop. Source:
Kafka's `KafkaApis.handleWriteTxnMarkersRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import trio

from minikafka.broker.connections.pauses import Pauses
from minikafka.broker.coordinator.groups.group_coordinator import TOPIC as OFFSETS_TOPIC
from minikafka.broker.coordinator.groups.group_coordinator import GroupCoordinator
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.protocol.errors import ErrorCode, KafkaError, UnknownTopicOrPartitionError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction

NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors of the group coordinator, for which a transaction coordinator gets NOT_LEADER_OR_FOLLOWER, and tries again."""

MARKERS_AT_ONCE = 64
"""How many markers are appended between two pauses; about 5 ms."""

Results = dict[TopicPartition, ErrorCode]


class Marker(NamedTuple):
    """The end of a transaction, as every partition of it gets it."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


class _Appended(NamedTuple):
    """A marker that is appended, and waits until it is committed."""

    name: TopicPartition
    partition: Partition
    end_offset: int
    leadership_term: int


class MarkerLog:
    """Appends markers as leader, and waits until they are committed.

    Args:
        partitions: The node's replicas.
        groups: The group coordinator of this node.
        now_ms: The wall clock.
        timeout_ms: How long a marker may take to be committed.
    """

    def __init__(
        self, partitions: Partitions, groups: GroupCoordinator, now_ms: Callable[[], int], timeout_ms: int
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms

    async def write_all(self, markers: Sequence[tuple[Marker, Sequence[TopicPartition]]]) -> list[Results]:
        """Write each marker to its partitions; for each an error code for each. Cancellation leaves some partitions
        without a marker, or with one that is not yet committed."""
        results: list[Results] = [{} for _ in markers]
        pauses = Pauses(MARKERS_AT_ONCE)
        appended: list[tuple[Results, _Appended]] = []
        for result, (marker, names) in zip(results, markers, strict=True):
            appended += [(result, written) for written in await self._append(marker, names, result, pauses)]
        for result, (marker, names) in zip(results, markers, strict=True):
            for name in names:
                if name.topic == OFFSETS_TOPIC:
                    result[name] = await self._write_to_group_coordinator(name, marker)
        deadline = trio.current_time() + self._timeout_ms / 1000
        for result, written in appended:
            result[written.name] = await _committed(written, deadline)
        return results

    async def _append(
        self, marker: Marker, names: Sequence[TopicPartition], results: Results, pauses: Pauses
    ) -> list[_Appended]:
        """Append to the partitions that are not the group coordinator's; errors are added to `results`."""
        appended: list[_Appended] = []
        for name in names:
            if name.topic == OFFSETS_TOPIC:
                continue
            await pauses()
            try:
                partition = self._find(name)
                written = partition.append_internal(
                    bytearray(self._encode(marker)), transaction_version=marker.transaction_version
                )
                appended.append(_Appended(name, partition, written.last_offset + 1, written.leadership_term))
            except KafkaError as error:
                results[name] = ErrorCode(error.code)
        return appended

    def _find(self, name: TopicPartition) -> Partition:
        """The replica of this node; without one, the partition is unknown, in other requests NOT_LEADER_OR_FOLLOWER."""
        partition = self._partitions.get(*name)
        if partition is None:
            raise UnknownTopicOrPartitionError(f"{name} is not on this node")
        return partition

    async def _write_to_group_coordinator(self, name: TopicPartition, marker: Marker) -> ErrorCode:
        try:
            await self._groups.runtime.end_transaction(
                name.partition,
                self._encode(marker),
                marker.producer_id,
                committed=marker.committed,
                transaction_version=marker.transaction_version,
            )
        except KafkaError as error:
            code = ErrorCode(error.code)
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in NOT_READY else code
        return ErrorCode.NONE

    def _encode(self, marker: Marker) -> bytes:
        kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
        return encode_end_transaction(
            EndTxnMarker(kind, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=self._now_ms(),
        )


async def _committed(written: _Appended, deadline: float) -> ErrorCode:
    try:
        if written.partition.is_committed(written.end_offset, written.leadership_term):
            return ErrorCode.NONE
        with trio.move_on_at(deadline) as scope:
            await written.partition.committed(written.end_offset, written.leadership_term)
    except KafkaError as error:
        return ErrorCode(error.code)
    return ErrorCode.REQUEST_TIMED_OUT if scope.cancelled_caught else ErrorCode.NONE
