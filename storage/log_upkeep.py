"""The base class of `LogManager`: what is done to all logs from time to time."""

from collections.abc import Callable, Generator

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.disk import Disk
from minikafka.storage.future_logs import FutureLogs
from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig
from minikafka.storage.renamed_logs import RenamedLogs

__all__ = ["LogUpkeep"]

SEGMENTS_AT_ONCE, LOGS_AT_ONCE = 64, 256
"""How many segments retention deletes, and how many logs it looks at, between two pauses; about 10 ms."""


class LogUpkeep:
    """See above.

    Attributes:
        logs: the open logs, except those in failed directories.
        futures: copies of logs in other directories, which are to take their places.
    """

    logs: dict[TopicPartition, Log]
    futures: FutureLogs
    config_of: Callable[[str], LogConfig]
    _disk: Disk
    _gone: RenamedLogs

    async def flush_due(self) -> int:
        """Flushes the logs with a rolled segment that is not flushed, or whose `flush.ms` has passed; returns their
        number."""
        due = [log for log in self.logs.values() if log.flush_wanted]
        for log in due:
            if self.logs.get(log.topic_partition) is not log:
                continue  # It was deleted or replaced meanwhile.
            try:
                await log.flush_async(all_segments=False)
            except KafkaError:
                pass  # The log and its directory are offline now, which `_offline` has logged.
        return len(due)

    def run_retention(
        self, high_watermark_of: Callable[[TopicPartition], int | None]
    ) -> Generator[None, None, int]:
        """Deletes old segments; returns their number. `remove_deleted` removes the files.

        Other tasks may run at each `yield`, and append, truncate or delete logs.

        Args:
            high_watermark_of: returns None for partitions to skip.
        """
        deleted = 0
        for number, (key, log) in enumerate([*self.logs.items(), *self.futures.logs.items()], 1):
            again = True
            while again:
                found = self._delete_segments(key, log, high_watermark_of(key))
                deleted += found
                again = found >= SEGMENTS_AT_ONCE
                if again or number % LOGS_AT_ONCE == 0:
                    yield
        return deleted

    def _delete_segments(self, key: TopicPartition, log: Log, high_watermark: int | None) -> int:
        """Deletes up to `SEGMENTS_AT_ONCE` segments of a log that is still there; returns their number."""
        is_there = self.logs.get(key) is log or self.futures.logs.get(key) is log
        if high_watermark is None or log.failure is not None or not is_there:
            return 0
        try:
            return log.delete_old_segments(min(high_watermark, log.end_offset), at_most=SEGMENTS_AT_ONCE)
        except KafkaError:
            return 0  # Logged by `_offline` or `_log_damage`.

    async def remove_deleted(self) -> None:
        """Removes the deleted logs, in a worker thread, and segments whose `file.delete.delay.ms` has passed.

        Cancellation waits for the log in progress; the next start removes the others.
        """
        for path in self._gone.take_due():
            await self._disk.run(self._gone.remove, path)
        for log in list(self.logs.values()):
            try:
                log.remove_deleted()
            except KafkaError:
                continue

    def expire_producers(self) -> None:
        """Removes producers without appends for `producer.id.expiration.ms`."""
        for log in self.logs.values():
            log.expire_producers()

    def update_config(self, topic: str) -> None:
        """Applies changed configs of a topic."""
        config = self.config_of(topic)
        for key, log in self.logs.items():
            if key.topic == topic:
                log.update_config(config)
