"""What happens to partitions over time: metadata makes, changes and removes them; housekeeping runs beside.

`MetadataFollower` is told every committed metadata record before the controller answers the request that caused it, so
that a topic which was created can be used. Housekeeping (retention, flushes, checkpoints, expiry of producers) is a
handful of loops, each with its own setting for how often.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

import structlog
import trio

from minikafka.broker.partitions.follower_progress import Surroundings
from minikafka.broker.partitions.partition import ALONE, Partition
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.metadata.image import Image, Topic
from minikafka.controller.metadata.records import (
    BrokerChange,
    BrokerRecord,
    ConfigRecord,
    PartitionChange,
    PartitionRecord,
    RemoveTopic,
)
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.log_config import LogConfig
from minikafka.storage.log_manager import LogManager
from minikafka.storage.recovery import CorruptLog

log = structlog.get_logger("minikafka.lifecycle")

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


class Copies(Protocol):
    """What copies partitions from their leaders; see `replication.Replication`."""

    def follow(self, partition: Partition) -> None: ...

    def leave(self, partition: Partition) -> None: ...

    def broker_changed(self, node_id: int) -> None: ...


class NoCopies:
    """Where there are no other nodes."""

    def follow(self, partition: Partition) -> None:
        """Nobody to copy from."""

    def leave(self, partition: Partition) -> None:
        """Nothing to stop."""

    def broker_changed(self, node_id: int) -> None:
        """Nobody to try again."""


class MetadataFollower:
    """Keeps this node's partitions as the metadata says.

    Args:
        node_id: This node.
        image: The cluster's metadata, already changed when `apply` is called.
        logs: Where partitions are kept on disk.
        partitions: What is served.
        log_config: The settings of a topic's logs, by its name.
        led: Told of each partition that this node begins to lead, and of each new epoch in which it goes on to.
        resigned: Told of each that it leads no longer, after it has become a follower or was taken away.
        copies: What fetches partitions from their leaders.
        gone: Told which partitions of the cluster were removed, with their topic.
        surroundings, isr_change_wanted: For each `Partition`.
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
        resigned: Callable[[Partition], None] = lambda partition: None,
        copies: Copies | None = None,
        surroundings: Surroundings = ALONE,
        isr_change_wanted: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        self._led = led
        self._resigned = resigned
        self._gone = gone
        self._copies: Copies = copies or NoCopies()
        self._surroundings = surroundings
        self._isr_change_wanted = isr_change_wanted
        self._topics: dict[bytes, Topic] = {}
        self._node_id = node_id
        self._image = image
        self._logs = logs
        self._partitions = partitions
        self._log_config = log_config

    def start(self) -> None:
        """Serve what the image has for this node; logs of topics that are gone or were created again are removed.

        The image must be that of a caught-up node: by an old one, logs that were given to this node since look stray.
        """
        for topic in self._image.topics.values():
            self._topics[topic.id] = topic
            for index in range(len(topic.partitions)):
                self._follow(topic, index)
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
                        self._topics[topic.id] = topic
                        self._follow(topic, record.partition)
                case RemoveTopic():
                    self._remove(record.topic_id)
                case ConfigRecord():
                    self._configure(record.resource_type, record.resource_name)
                case BrokerRecord() | BrokerChange():
                    self._copies.broker_changed(record.node_id)
                    self._reconsider(record.node_id)
                case _:
                    pass  # nothing that a partition would see

    def _reconsider(self, node_id: int) -> None:
        """A follower that is caught up may come in now that its broker is alive; it need not say so again."""
        for partition in self._partitions:
            replicas = partition.replicas
            if replicas is not None and node_id in replicas.followers and node_id not in replicas.isr:
                self._isr_change_wanted(partition)

    def _follow(self, topic: Topic, index: int) -> None:
        """Have the replica here as the image says: made, changed in its role, or taken away."""
        state = topic.partitions[index]
        partition = self._partitions.get(topic.name, index)
        if self._node_id not in state.replicas:
            if partition is not None:
                log.info("a replica was moved away", partition=str(partition), replicas=state.replicas)
                self._take_away(partition)
            return
        if partition is None:
            partition = self._open(TopicPartition(topic.name, index), topic.id)
            if partition is None:
                return
            self._partitions.add(partition)
        led_before = partition.is_leader
        if not partition.become(state):
            return
        if partition.is_leader:
            self._copies.leave(partition)
            self._led(partition)
        else:
            self._copies.follow(partition)
            if led_before:
                self._resigned(partition)

    def _open(self, key: TopicPartition, topic_id: bytes) -> Partition | None:
        """The replica's log, new or as it was; one of an earlier topic of the same name goes first (KAFKA-14616).

        A log that cannot be opened leaves its partition unserved, and says so; the others go on.
        """
        kept = self._logs.get(key)
        if kept is not None and kept.topic_id not in (None, topic_id):
            self._logs.delete(key)
        try:
            opened = self._logs.create(key, topic_id=topic_id)
        except (KafkaError, CorruptLog) as error:
            log.error("a partition is not served", partition=str(key), reason=str(error))
            return None
        return Partition(
            self._node_id,
            topic_id,
            key,
            opened,
            high_watermark=self._logs.high_watermark(key),
            surroundings=self._surroundings,
            isr_change_wanted=self._isr_change_wanted,
        )

    def _remove(self, topic_id: bytes) -> None:
        topic = self._topics.pop(topic_id, None)
        if topic is None:
            return
        for index in range(len(topic.partitions)):
            partition = self._partitions.get(topic.name, index)
            if partition is not None and partition.topic_id == topic_id:
                self._take_away(partition)
        self._gone([TopicPartition(topic.name, index) for index in range(len(topic.partitions))])

    def _take_away(self, partition: Partition) -> None:
        led_before = partition.is_leader
        self._partitions.remove(partition.topic_partition)
        self._copies.leave(partition)
        partition.resign()
        if led_before:
            self._resigned(partition)
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
