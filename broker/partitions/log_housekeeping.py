"""Periodic work on the logs: retention, flushes, checkpoints, expiry of producers, removal of deleted files.

Each task runs in a loop with its own interval; Node starts one `repeat` per entry of `Housekeeping.tasks`.
Uses trio to sleep. Source: Kafka's `LogManager`, `ReplicaManager` (highwatermark-checkpoint).
"""

from collections.abc import Awaitable, Callable

import structlog
import trio

from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.log_manager import LogManager

log = structlog.get_logger("minikafka.partitions")

FLUSH_CHECK_MS_MAX = 1000
DELETION_CHECK_MS = 1000
PRODUCER_CHECK_MS = 600_000
PARTITIONS_AT_ONCE = 1000
"""The number of partitions that are processed between two pauses."""


async def repeat(interval_ms: int, work: Callable[[], Awaitable[None]], name: str) -> None:
    """Run `work` periodically until cancelled. Errors are logged, and the next run tries again.

    Args:
        interval_ms: The time before the first run, and between the end of one run and the start of the next. With 0 or
            less there is only one run, as with Kafka's `KafkaScheduler`.
    """
    while True:
        await trio.sleep(max(0, interval_ms) / 1000)
        try:
            await work()
        except (KafkaError, OSError, MemoryError) as error:
            log.error("housekeeping failed", task=name, error=str(error) or type(error).__name__)
        if interval_ms <= 0:
            return


class Housekeeping:
    """The periodic tasks on the logs of a node.

    Args:
        config: The settings of the node, with the intervals.
        logs: The logs.
        partitions: The partitions, whose high watermarks bound what retention deletes.
    """

    def __init__(self, config: NodeConfig, logs: LogManager, partitions: Partitions) -> None:
        self._config = config
        self._logs = logs
        self._partitions = partitions

    def tasks(self) -> list[tuple[int, Callable[[], Awaitable[None]], str]]:
        """The loops to run, each as (interval in ms, work, name)."""
        number = self._config.number
        return [
            (number("log.retention.check.interval.ms"), self.retain, "retention"),
            (min(number("log.flush.scheduler.interval.ms"), FLUSH_CHECK_MS_MAX), self.flush, "flush"),
            (number("log.flush.offset.checkpoint.interval.ms"), self.checkpoint, "recovery points"),
            (number("replica.high.watermark.checkpoint.interval.ms"), self.checkpoint_watermarks, "watermarks"),
            (PRODUCER_CHECK_MS, self.expire_producers, "producers"),
            (DELETION_CHECK_MS, self.remove_deleted, "deletion"),
        ]

    async def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermark of each partition of this node. Other tasks run meanwhile."""
        found: dict[TopicPartition, int] = {}
        for number, partition in enumerate(list(self._partitions), 1):
            found[partition.topic_partition] = partition.high_watermark
            if number % PARTITIONS_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        return found

    def _high_watermark(self, key: TopicPartition) -> int | None:
        partition = self._partitions.get(*key)
        return None if partition is None else partition.high_watermark

    async def retain(self) -> None:
        """Delete segments by age and by size."""
        starts = [(partition, partition.log.start_offset) for partition in self._partitions]
        for _ in self._logs.upkeep.run_retention(self._high_watermark):
            await trio.lowlevel.checkpoint()
        for number, (partition, start_offset) in enumerate(starts, 1):
            if number % PARTITIONS_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
            if partition.log.start_offset != start_offset:
                partition.visible.grew(0)

    async def flush(self) -> None:
        """Flush rolled segments, and logs whose `flush.ms` has passed, to the device."""
        await self._logs.upkeep.flush_due()

    async def checkpoint(self) -> None:
        """Write recovery points and log start offsets."""
        await self._logs.upkeep.write_checkpoints_async()

    async def checkpoint_watermarks(self) -> None:
        """Write the high watermarks."""
        await self._logs.upkeep.write_high_watermarks(await self.high_watermarks())

    async def expire_producers(self) -> None:
        """Remove idempotent producers that were inactive for `producer.id.expiration.ms`."""
        await self._logs.upkeep.expire_producers()

    async def remove_deleted(self) -> None:
        """Remove files that were deleted `file.delete.delay.ms` ago."""
        await self._logs.upkeep.remove_deleted()
