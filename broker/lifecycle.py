"""What happens to partitions over time: metadata makes, changes and removes them; housekeeping runs beside.

`MetadataFollower` is told every committed metadata record before the controller answers the request that caused it, so
that a topic which was created can be used. Housekeeping (retention, flushes, checkpoints, expiry of producers) is a
handful of loops, each with its own setting for how often.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import structlog
import trio

from minikafka.broker.partition import Partition
from minikafka.broker.partitions import Partitions
from minikafka.controller.image import Image
from minikafka.controller.records import ConfigRecord, PartitionChange, PartitionRecord, RemoveTopic
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.log import LogConfig
from minikafka.storage.logs import LogManager

if TYPE_CHECKING:
    from minikafka.broker.config import NodeConfig

log = structlog.get_logger("minikafka.lifecycle")

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


class MetadataFollower:
    """Keeps this node's partitions as the metadata says.

    Args:
        node_id: This node.
        image: The cluster's metadata, already changed when `apply` is called.
        logs: Where partitions are kept on disk.
        partitions: What is served.
        log_config: The settings of a topic's logs, by its name.
    """

    def __init__(
        self,
        node_id: int,
        image: Image,
        logs: LogManager,
        partitions: Partitions,
        log_config: Callable[[str], LogConfig],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._logs = logs
        self._partitions = partitions
        self._log_config = log_config

    def start(self) -> None:
        """Serve what the image has for this node; logs of topics that are gone or were created again are removed."""
        for topic in self._image.topics.values():
            for index, state in enumerate(topic.partitions):
                if self._node_id in state.replicas:
                    self._serve(topic.name, index)
        for stray in self._logs.logs():
            if self._partitions.get(*stray.topic_partition) is None:
                log.warning("removing the log of a partition that is not this node's", partition=str(stray.topic_partition))
                self._logs.delete(stray.topic_partition)

    def apply(self, records: Iterable[Any]) -> None:
        """Follow committed records, in order."""
        for record in records:
            match record:
                case PartitionRecord() | PartitionChange():
                    topic = self._image.topics_by_id.get(record.topic_id)
                    if topic is not None:
                        self._serve(topic.name, record.partition)
                case RemoveTopic():
                    self._remove(record.topic_id)
                case ConfigRecord():
                    self._configure(record.resource_type, record.resource_name)
                case _:
                    pass  # nothing that a partition would see

    def _serve(self, topic: str, index: int) -> None:
        known = self._image.topics[topic]
        state = known.partitions[index]
        partition = self._partitions.get(topic, index)
        if partition is None and self._node_id in state.replicas:
            name = TopicPartition(topic, index)
            kept = self._logs.get_or_create(name, known.id, self._log_config(topic))
            partition = Partition(self._node_id, known.id, name, kept)
            self._partitions.add(partition)
        if partition is not None:
            partition.become(state)

    def _remove(self, topic_id: bytes) -> None:
        for partition in [partition for partition in self._partitions if partition.topic_id == topic_id]:
            self._partitions.remove(partition.topic_partition)
            partition.resign()
            self._logs.delete(partition.topic_partition)

    def _configure(self, resource_type: int, name: str) -> None:
        if resource_type not in (TOPIC_RESOURCE, BROKER_RESOURCE):
            return
        for partition in self._partitions:
            if resource_type == BROKER_RESOURCE or partition.topic_partition.topic == name:
                partition.configure(self._log_config(partition.topic_partition.topic))


async def repeat(interval_ms: int, work: Callable[[], Awaitable[None]], name: str) -> None:
    """Run `work` again and again; what it refuses is logged, and tried again next time.

    Args:
        interval_ms: Between the end of one run and the start of the next.
    """
    while True:
        await trio.sleep(interval_ms / 1000)
        try:
            await work()
        except (KafkaError, OSError) as error:
            log.error("housekeeping failed", task=name, error=str(error))


class Housekeeping:
    """The loops that keep the logs in order."""

    def __init__(self, config: "NodeConfig", logs: LogManager, partitions: Partitions) -> None:
        self._settings = config.settings
        self._logs = logs
        self._partitions = partitions

    def tasks(self) -> list[tuple[int, Callable[[], Awaitable[None]], str]]:
        """(interval in ms, work, name) of each loop."""
        settings = self._settings
        return [
            (settings["log.retention.check.interval.ms"], self.retain, "retention"),
            (min(settings["log.flush.scheduler.interval.ms"], FLUSH_CHECK_MS_MAX), self.flush, "flush"),
            (settings["log.flush.offset.checkpoint.interval.ms"], self.checkpoint, "recovery points"),
            (settings["log.flush.start.offset.checkpoint.interval.ms"], self.checkpoint_starts, "log starts"),
            (settings["producer.id.expiration.check.interval.ms"], self.expire_producers, "producers"),
            (DELETION_CHECK_MS, self.remove_deleted, "deletion"),
        ]

    async def retain(self) -> None:
        """Delete segments that are too old or too many; never past the high watermark."""
        for partition in self._partitions:
            partition.log.delete_old_segments(partition.high_watermark)
            await trio.lowlevel.checkpoint()

    async def flush(self) -> None:
        """Sync logs whose `flush.ms` is over."""
        await self._logs.flush_due()

    async def checkpoint(self) -> None:
        """Write the recovery points and high watermarks."""
        watermarks = {partition.topic_partition: partition.high_watermark for partition in self._partitions}
        await self._logs.checkpoint(watermarks)

    async def checkpoint_starts(self) -> None:
        """Write where logs begin that begin later than their first segment."""
        await self._logs.checkpoint_start_offsets()

    async def expire_producers(self) -> None:
        """Forget idempotent producers that have been silent for `producer.id.expiration.ms`."""
        for partition in self._partitions:
            partition.log.expire_producers()

    async def remove_deleted(self) -> None:
        """Free the disk of what was deleted `file.delete.delay.ms` ago."""
        await self._logs.remove_deleted()


FLUSH_CHECK_MS_MAX = 1000
DELETION_CHECK_MS = 1000
