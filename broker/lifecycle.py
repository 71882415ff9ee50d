"""What happens to partitions over time: metadata makes, changes and removes them; housekeeping runs beside.

`MetadataFollower` is told every committed metadata record before the controller answers the request that caused it, so
that a topic which was created can be used. Housekeeping (retention, flushes, checkpoints, expiry of producers) is a
handful of loops, each with its own setting for how often.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog
import trio

from minikafka.broker.config import NodeConfig
from minikafka.broker.partition import Partition
from minikafka.broker.partitions import Partitions
from minikafka.controller.image import Image
from minikafka.controller.records import ConfigRecord, PartitionChange, PartitionRecord, RemoveTopic
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.logs import LogManager
from minikafka.storage.recovery import CorruptLog

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
        led: Told of each partition that this node begins to lead.
        gone: Told which partitions here were removed.
    """

    def __init__(
        self,
        node_id: int,
        image: Image,
        logs: LogManager,
        partitions: Partitions,
        log_config: Callable[[str], LogConfig],
        *,
        led: Callable[[Partition], None],
        gone: Callable[[list[TopicPartition]], None],
    ) -> None:
        self._led = led
        self._gone = gone
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
        for stray in [key for key in self._logs.logs if self._partitions.get(*key) is None]:
            log.warning("removing the log of a partition that is not this node's", partition=str(stray))
            self._logs.delete(stray)

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
            partition = self._open(TopicPartition(topic, index), known.id)
            if partition is not None:
                self._partitions.add(partition)
        if partition is not None and partition.become(state) and partition.is_leader:
            self._led(partition)

    def _open(self, key: TopicPartition, topic_id: bytes) -> Partition | None:
        """The replica's log, new or as it was; one of an earlier topic of the same name goes first (KAFKA-14616).

        A log that cannot be opened leaves its partition unserved, and says so; the others go on.
        """
        kept = self._logs.get(key)
        if kept is not None and kept.topic_id not in (None, topic_id):
            self._logs.delete(key)
        try:
            return Partition(self._node_id, topic_id, key, self._logs.create(key, topic_id=topic_id))
        except (KafkaError, CorruptLog) as error:
            log.error("a partition is not served", partition=str(key), reason=str(error))
            return None

    def _remove(self, topic_id: bytes) -> None:
        removed = [partition for partition in self._partitions if partition.topic_id == topic_id]
        for partition in removed:
            self._partitions.remove(partition.topic_partition)
            partition.resign()
            self._logs.delete(partition.topic_partition)
        self._gone([partition.topic_partition for partition in removed])

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
    """The loops that keep the logs in order.

    Args:
        config: How often.
        logs: What is kept in order.
        partitions: For the high watermarks, past which nothing is deleted.
    """

    def __init__(self, config: NodeConfig, logs: LogManager, partitions: Partitions) -> None:
        self._config = config
        self._logs = logs
        self._partitions = partitions

    def tasks(self) -> list[tuple[int, Callable[[], Awaitable[None]], str]]:
        """(interval in ms, work, name) of each loop."""
        number = self._config.number
        return [
            (number("log.retention.check.interval.ms"), self.retain, "retention"),
            (min(number("log.flush.scheduler.interval.ms"), FLUSH_CHECK_MS_MAX), self.flush, "flush"),
            (number("log.flush.offset.checkpoint.interval.ms"), self.checkpoint, "recovery points"),
            (number("replica.high.watermark.checkpoint.interval.ms"), self.checkpoint_watermarks, "watermarks"),
            (PRODUCER_CHECK_MS, self.expire_producers, "producers"),
            (DELETION_CHECK_MS, self.remove_deleted, "deletion"),
        ]

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """As far as each partition here is committed."""
        return {partition.topic_partition: partition.high_watermark for partition in self._partitions}

    async def retain(self) -> None:
        """Delete segments that are too old or too many."""
        self._logs.run_retention(self.high_watermarks().get)

    async def flush(self) -> None:
        """Sync logs whose `flush.ms` is over, and segments that were rolled."""
        await self._logs.flush_due()

    async def checkpoint(self) -> None:
        """Write recovery points and where logs start."""
        self._logs.write_checkpoints()

    async def checkpoint_watermarks(self) -> None:
        """Write the high watermarks."""
        await self._logs.write_high_watermarks(self.high_watermarks())

    async def expire_producers(self) -> None:
        """Forget idempotent producers that have been silent for `producer.id.expiration.ms`."""
        self._logs.expire_producers()

    async def remove_deleted(self) -> None:
        """Free the disk of what was deleted `file.delete.delay.ms` ago."""
        self._logs.remove_deleted()


FLUSH_CHECK_MS_MAX = 1000
DELETION_CHECK_MS = 1000
PRODUCER_CHECK_MS = 600_000
