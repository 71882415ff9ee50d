"""Sends transaction markers to the leaders of partitions, repeatedly until each partition has its marker.

Markers for one broker share a request (WriteTxnMarkers); markers for this node take no request. Source: Kafka's
`TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import structlog
import trio

from minikafka.broker.coordinator.transactions.broker_requests import Batcher, BrokerConnections, items_of
from minikafka.broker.coordinator.transactions.marker_log import Marker, MarkerLog, Results
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import ErrorCode, KafkaError, TransactionCoordinatorFencedError
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage.waits import in_task

log = structlog.get_logger("minikafka.coordinator")

RETRY_S = 0.1
SUPERSEDED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""A later coordinator or a later transaction of the producer has written to the partition."""
Sent = tuple[Marker, Sequence[TopicPartition]]


class MarkerChannel:
    """Writes markers wherever the partitions are led.

    Args:
        node_id: The id of this node.
        image: The metadata, with the leaders and the existing topics.
        marker_log: Writes the markers of partitions that this node leads.
        connections: The connections to the other brokers.
    """

    def __init__(self, node_id: int, image: Image, marker_log: MarkerLog, connections: BrokerConnections) -> None:
        self._node_id = node_id
        self._image = image
        self._marker_log = marker_log
        self._connections = connections
        self._batcher = Batcher[Sent, Results](connections, self._send, lambda sent: sent[1])

    async def write(self, marker: Marker, partitions: Iterable[TopicPartition]) -> None:
        """Write a marker to every partition. Returns when each partition has the marker, or is deleted.

        There is no wait if this node leads all partitions, and no marker has to be waited for. After cancellation some
        partitions have no marker.

        Raises:
            TransactionCoordinatorFencedError: A later coordinator writes the markers.
        """
        missing = set(partitions)
        attempts = 0
        while True:
            by_leader = self._by_leader(missing)
            if not by_leader and not missing:
                return
            _remove_written(missing, await self._write_to_leaders(marker, by_leader))
            if not missing:
                return
            attempts += 1
            if attempts % 100 == 1:
                waiting = sorted(str(name) for name in missing)[:5]
                log.info("transaction markers delayed", producer=marker.producer_id, partitions=waiting)
            await in_task()
            await trio.sleep(RETRY_S)

    def _by_leader(self, missing: set[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Group partitions by leader, and drop those that are deleted from `missing`."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for name in sorted(missing):
            topic = self._image.topics.get(name.topic)
            if topic is None or name.partition >= len(topic.partitions):
                missing.discard(name)
                continue
            leader = topic.partitions[name.partition].leader
            if leader >= 0:
                by_leader.setdefault(leader, []).append(name)
        return by_leader

    async def _write_to_leaders(self, marker: Marker, by_leader: dict[int, list[TopicPartition]]) -> Results:
        results: Results = {}

        async def write_to(leader: int, names: list[TopicPartition]) -> None:
            results.update(await self._write_to(leader, marker, names))

        if len(by_leader) == 1:
            await write_to(*next(iter(by_leader.items())))
            return results
        await in_task()
        async with trio.open_nursery() as nursery:
            for leader, names in by_leader.items():
                nursery.start_soon(write_to, leader, names)
        return results

    async def _write_to(self, leader: int, marker: Marker, names: list[TopicPartition]) -> Results:
        if leader == self._node_id:
            return await self._marker_log.write(marker, names)
        results: Results = {}
        for some in items_of(names):
            try:
                results |= await self._batcher.ask(leader, (marker, some))
            except KafkaError as error:
                results |= dict.fromkeys(some, ErrorCode(error.code))
        return results

    async def _send(self, node_id: int, batch: Sequence[Sent]) -> list[Results]:
        request = WriteTxnMarkersRequest(markers=[_message(marker, names) for marker, names in batch])
        response: WriteTxnMarkersResponse = await self._connections.request(node_id, request)
        by_producer: dict[int, Results] = {}
        for result in response.markers:
            known = by_producer.setdefault(result.producer_id, {})
            for topic in result.topics:
                for partition in topic.partitions:
                    known[TopicPartition(topic.name, partition.partition_index)] = ErrorCode(partition.error_code)
        return [by_producer.get(marker.producer_id, {}) for marker, _ in batch]


def _remove_written(missing: set[TopicPartition], results: Results) -> None:
    """Remove the partitions with a marker from `missing`. Raises TransactionCoordinatorFencedError."""
    for name, error in results.items():
        if error in SUPERSEDED:
            raise TransactionCoordinatorFencedError(f"{name} refused the marker: {error.name}")
        if not error:
            missing.discard(name)


def _message(marker: Marker, names: Sequence[TopicPartition]) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=[one.partition for one in some])
            for topic, some in groupby(sorted(names), lambda name: name.topic)
        ],
    )
