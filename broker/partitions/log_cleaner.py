"""Cleans the compacted logs of this node: loops that choose the dirtiest log, clean it, and sleep if none is due.

Uses trio to sleep, and to clean several logs at once (`log.cleaner.threads`). Source: Kafka's `LogCleaner`.
"""

from collections.abc import Callable

import trio

from minikafka.broker.partitions.partition_table import Partitions
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.settings.registry import SettingValue
from minikafka.storage.compaction.compaction import Compaction, CompactionSettings
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.steps import in_steps

BACKOFF_MS_MIN = 10
"""The shortest sleep. With `log.cleaner.backoff.ms=0` a cleaner thread of Kafka never sleeps; here the cleaner shares
the processor with all other tasks."""


class LogCleaner:
    """Cleans the compacted logs of this node.

    Args:
        logs: The logs.
        partitions: The partitions, whose last stable offsets bound the cleaning.
        setting: Returns the value of a broker config that is in effect.
        now_ms: The wall clock.
    """

    def __init__(
        self,
        logs: LogManager,
        partitions: Partitions,
        setting: Callable[[str], SettingValue],
        now_ms: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._setting = setting
        self.compaction = Compaction(
            logs,
            stable_offset_of=self._stable_offset,
            settings=self._settings,
            now_ms=now_ms,
            clock=trio.current_time,
            sleep=trio.sleep,
        )

    async def run(self) -> None:
        """Clean until cancelled; a step that has begun is completed. No effect if `log.cleaner.enable` is false."""
        if not self._setting("log.cleaner.enable"):
            return
        while True:
            await self._clean_all_due(self._settings().threads)
            await trio.sleep(max(BACKOFF_MS_MIN, self._settings().backoff_ms) / 1000)

    async def _clean_all_due(self, threads: int) -> None:
        if threads == 1:
            await self._clean_one_by_one()
            return
        async with trio.open_nursery() as nursery:
            for _ in range(threads):
                nursery.start_soon(self._clean_one_by_one)

    async def _clean_one_by_one(self) -> None:
        while (due := await in_steps(self.compaction.choose())) is not None and await self.compaction.clean(due):
            await trio.lowlevel.checkpoint()

    def _stable_offset(self, key: TopicPartition) -> int | None:
        partition = self._partitions.get(key.topic, key.partition)
        return None if partition is None else partition.last_stable_offset

    def _settings(self) -> CompactionSettings:
        def number(name: str) -> int:
            value = self._setting(f"log.cleaner.{name}")
            assert isinstance(value, int), "it is a number with a default"
            return value

        def fraction(name: str) -> float:
            value = self._setting(f"log.cleaner.{name}")
            assert isinstance(value, float), "it is a fraction with a default"
            return value

        return CompactionSettings(
            threads=number("threads"),
            map_size_bytes=number("dedupe.buffer.size"),
            load_factor=fraction("io.buffer.load.factor"),
            buffer_size_bytes=number("io.buffer.size"),
            io_bytes_per_second=fraction("io.max.bytes.per.second"),
            backoff_ms=number("backoff.ms"),
        )
