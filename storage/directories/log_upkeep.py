"""`LogUpkeep`: the work on all logs of a node that `log_housekeeping.py` of the broker starts periodically: flushes,
checkpoints, expiry; and the shutdown.

A node may have tens of thousands of logs. Work on all logs pauses regularly, so that other tasks run.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from functools import partial

import trio

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.future_logs import FutureLogs
from minikafka.storage.directories.log_closing import close_logs
from minikafka.storage.directories.log_failures import LogFailures
from minikafka.storage.directories.offset_checkpoint import Prepared, nothing_to_write
from minikafka.storage.directories.renamed_logs import RenamedLogs
from minikafka.storage.disks.disk import Disk
from minikafka.storage.logs.log import Log
from minikafka.storage.steps import Steps, at_once, in_steps

__all__ = ["LogUpkeep"]

SEGMENTS_AT_ONCE, LOGS_AT_ONCE = 32, 256
"""The number of segments of one log that retention deletes, and of logs that it looks at, between two pauses (8 ms)."""


class LogUpkeep:
    """The periodic work on the logs of a node, and their shutdown.

    Args:
        logs: the open logs by partition, except logs in failed directories.
        futures: copies of logs in other directories, which are to replace the logs.
        gone: the deleted logs.
    """

    def __init__(
        self,
        disk: Disk,
        directories: list[DataDirectory],
        logs: dict[TopicPartition, Log],
        futures: FutureLogs,
        gone: RenamedLogs,
        failures: LogFailures,
    ) -> None:
        self._disk = disk
        self._directories = directories
        self._logs = logs
        self._futures = futures
        self._gone = gone
        self._failures = failures

    async def flush_due(self) -> int:
        """Flushes the logs that need it (`Log.flush_wanted`), for example because `flush.ms` has passed.

        Returns the number of logs.
        """
        flushed = 0
        for log in self._each():
            if log is None:
                await trio.lowlevel.checkpoint()
            elif log.flush_wanted:
                flushed += 1
                try:
                    await log.flush_async(all_segments=False)
                except KafkaError:
                    pass  # The log and its directory are offline now, which `LogFailures` has logged.
        return flushed

    def _each(self) -> Iterator[Log | None]:
        """Yields the present logs, and None where the caller should pause. Logs deleted meanwhile are left out."""
        for number, (key, log) in enumerate(list(self._logs.items()), 1):
            if number % LOGS_AT_ONCE == 0:
                yield None
            if self._logs.get(key) is log:
                yield log

    def run_retention(self, high_watermark_of: Callable[[TopicPartition], int | None]) -> Generator[None, None, int]:
        """Deletes the segments that retention permits to delete; returns their number.

        `remove_deleted` removes the files later. Other tasks may run at each `yield`, and append to, truncate or delete
        logs. There is a `yield` after each log with a deleted segment, since replacing the only segment of a log takes
        half a millisecond.

        Args:
            high_watermark_of: returns the high watermark of a partition; None for a partition to skip.
        """
        deleted = 0
        for number, (key, log) in enumerate([*self._logs.items(), *self._futures.logs.items()], 1):
            again = True
            while again:
                found = self._delete_segments(key, log, high_watermark_of(key))
                deleted += found
                again = found >= SEGMENTS_AT_ONCE
                if found or number % LOGS_AT_ONCE == 0:
                    yield
        return deleted

    def _delete_segments(self, key: TopicPartition, log: Log, high_watermark: int | None) -> int:
        """Deletes about `SEGMENTS_AT_ONCE` segments of a log, if the log still exists; returns their number."""
        is_there = self._logs.get(key) is log or self._futures.logs.get(key) is log
        if high_watermark is None or log.failure is not None or not is_there:
            return 0
        try:
            return log.delete_old_segments(min(high_watermark, log.end_offset), at_most=SEGMENTS_AT_ONCE)
        except KafkaError:
            return 0  # Logged by `LogFailures`.

    async def remove_deleted(self) -> None:
        """Removes the deleted logs and segments whose `file.delete.delay.ms` has passed, in a worker thread.

        The new names of the deleted logs are made durable, and the checkpoints without these logs are written, at once.
        After cancellation the removal of the current log is completed; the next start removes the other logs.
        """
        for path in self._gone.take_due():
            await self._disk.run(self._gone.remove, path)
        if self._gone.unsynced:
            await self.write_checkpoints_async()  # Whoever makes such a log anew need not wait for the disk.
        for log in self._each():
            if log is None:
                await trio.lowlevel.checkpoint()
            elif log.state.deleted_files:
                with suppress(KafkaError):
                    await in_steps(log.removing_deleted(), self._disk)

    async def expire_producers(self) -> None:
        """Removes producers without appends for `producer.id.expiration.ms`."""
        for log in self._each():
            if log is None:
                await trio.lowlevel.checkpoint()
            else:
                await in_steps(log.expire_producers())

    def check_room(self) -> bool:
        """Tries to write to each directory whose disk was full; returns whether a directory has room again."""
        found = False
        for directory in self._directories:
            if directory.failure is None and directory.room.is_full:
                self._failures.attempt(directory, partial(directory.room.check, self._disk))
                found |= not directory.room.is_full
        return found

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Writes the changed recovery points, log start offsets and, if given, high watermarks. Blocking."""
        at_once(self._checkpoints(high_watermarks))

    async def write_checkpoints_async(self) -> None:
        """As `write_checkpoints` without high watermarks, in worker threads. `write_high_watermarks` may overlap."""
        for directory in self._directories:
            for part in self._checkpoints_of(directory):
                await in_steps(part, self._disk)
                await trio.lowlevel.checkpoint()

    async def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Writes the high watermarks in worker threads."""
        for directory in self._directories:
            await in_steps(self._watermarks(directory, high_watermarks), self._disk)

    def _checkpoints(self, high_watermarks: Mapping[TopicPartition, int] | None) -> Steps[None]:
        for directory in self._directories:
            for part in self._checkpoints_of(directory):
                yield from part
            if high_watermarks is not None:
                yield from self._watermarks(directory, high_watermarks)

    def _checkpoints_of(self, directory: DataDirectory) -> Iterator[Steps[object]]:
        yield self._written(directory, directory.checkpoints.prepare_recovery_points)
        yield self._written(directory, directory.checkpoints.prepare_start_offsets)
        yield self._renamed(directory)

    def _renamed(self, directory: DataDirectory) -> Steps[None]:
        try:
            yield from self._gone.syncing(directory)
        except OSError as error:
            self._failures.offline(directory, error)

    def _watermarks(self, directory: DataDirectory, found: Mapping[TopicPartition, int]) -> Steps[bool]:
        return self._written(directory, partial(directory.checkpoints.prepare_high_watermarks, found))

    def _written(self, directory: DataDirectory, prepare: Callable[[], Prepared]) -> Steps[bool]:
        """Prepares and writes a checkpoint of a directory. Returns whether this succeeded; takes it offline if not."""
        if directory.failure is None:
            try:
                write = yield from prepare()
                if write is not nothing_to_write:
                    yield write
            except OSError as error:
                self._failures.offline(directory, error)
            else:
                return True
        return False

    # -- the end -------------------------------------------------------------------------------------------------

    def closing(self, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int) -> Steps[None]:
        """Closes all logs and writes the checkpoints, as `LogManager.close` says."""
        for directory in self._directories:
            succeeded = directory.failure is None and not directory.unopened
            succeeded &= yield from close_logs(self._disk, [*directory.logs.values(), *directory.futures.values()])
            sync = partial(self._disk.sync_directory, directory.path)
            succeeded &= yield from self._written(directory, partial(_ready, sync))
            succeeded &= yield from self._written(directory, directory.checkpoints.prepare_recovery_points)
            succeeded &= yield from self._written(directory, directory.checkpoints.prepare_start_offsets)
            succeeded &= yield from self._watermarks(directory, high_watermarks)
            if succeeded:
                yield from self._written(directory, partial(_ready, partial(directory.shutdown.write, broker_epoch)))
            directory.logs.clear()
            directory.futures.clear()
        self._logs.clear()
        self._futures.logs.clear()


def _ready(write: Callable[[], None]) -> Prepared:
    """Returns `write`, as a prepared function that needs no preparation."""
    yield from ()
    return write
