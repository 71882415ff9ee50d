"""`Compaction`: keeps the last record of each key in logs with `cleanup.policy=compact` (Kafka's `LogCleaner`).

    cleaning = await in_steps(compaction.choose())         the dirtiest log that is due
    if cleaning is not None:
        await compaction.clean(cleaning)

A cleaning reads the keys of the dirty part into a map, then writes the segments anew, without the records that
according to the map were replaced. A worker (`worker.py`) does the work in steps of a few MiB. Between two steps the
log may be truncated, be deleted, go offline, or lose its first segments. The cleaning then ends early.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass

import structlog

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.compaction.batch_filter import FilterRules, LastRecord
from minikafka.storage.compaction.cleanable_range import CleanableRange, cleanable_range
from minikafka.storage.compaction.cleaned_segment import remove_unfinished
from minikafka.storage.compaction.cleaning import (
    CleaningPlan,
    OldSegment,
    Step,
    advance_cleaning,
    begin_cleaning,
    end_cleaning,
)
from minikafka.storage.compaction.segment_replacement import replace_segments
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.directories.offset_checkpoint import write_prepared
from minikafka.storage.disks.disk_errors import is_passing
from minikafka.storage.disks.worker import Lane, WorkerLost
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_lookup import find_aborted
from minikafka.storage.segments.segment import Segment
from minikafka.storage.segments.segment_names import CorruptSegment

STEP_BYTES_MAX = 8 << 20
"""The number of bytes read and written in one step. It is limited since a stopping node waits for the step's end."""
LOGS_AT_ONCE = 1000
"""The number of logs that are looked at before other tasks run."""
RETRY_S = 300.0
"""The pause in seconds before a log is cleaned again whose worker was lost, or for which the disk had no room. Other
logs are cleaned in it."""
_THROTTLED_STEP_S = 0.1


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The settings `log.cleaner.*` of a node.

    Attributes:
        threads: the number of logs that are cleaned at the same time.
        map_size_bytes: the memory of all offset maps together.
        load_factor: the used part of the memory of a map, from 0 to 1.
        buffer_size_bytes: the memory of all I/O buffers together.
        io_bytes_per_second: the maximum rate of reads and writes together.
        backoff_ms: the pause if no log is due.
    """

    threads: int
    map_size_bytes: int
    load_factor: float
    buffer_size_bytes: int
    io_bytes_per_second: float
    backoff_ms: int


@dataclass(frozen=True, slots=True)
class Due:
    """A log whose cleaning is due, in the state in which it was chosen.

    Attributes:
        segments: the segments to clean, in order.
        directory, truncations: those of the log; if one of them changes, the cleaning ends.
    """

    log: Log
    range: CleanableRange
    segments: list[Segment]
    directory: str
    truncations: int


@dataclass(frozen=True, slots=True)
class Postponed:
    """A log whose worker was lost, or for which there was no room.

    Attributes:
        reason: what happened.
        until_s: when the log may be cleaned again.
    """

    log: Log
    reason: str
    until_s: float


class Compaction:
    """The cleaner of a node's logs.

    Args:
        stable_offset_of: returns the last stable offset of a partition; None for partitions to skip.
        settings: returns the settings in effect.
        now_ms: the wall clock.
        clock: a monotonic clock in seconds.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        logs: LogManager,
        *,
        stable_offset_of: Callable[[TopicPartition], int | None],
        settings: Callable[[], CompactionSettings],
        now_ms: Callable[[], int],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.settings = settings
        self._logs = logs
        self._stable_offset_of = stable_offset_of
        self._now_ms = now_ms
        self._clock = clock
        self._sleep = sleep
        self._in_progress: set[TopicPartition] = set()
        self._uncleanable: dict[TopicPartition, Log] = {}
        self._postponed: dict[TopicPartition, Postponed] = {}
        self._idle_at_s = 0.0
        self._logger = structlog.get_logger("minikafka.compaction")

    def choose(self) -> Generator[None, None, Due | None]:
        """Returns the log with the largest dirty ratio among the logs that are due; None if no log is due.

        The log counts as in progress until `clean` has ended. Other tasks may run at each `yield`. If another task has
        chosen the same log meanwhile, the search begins again.
        """
        known = self._logs.logs
        self._uncleanable = {key: log for key, log in self._uncleanable.items() if known.get(key) is log}
        self._postponed = {key: one for key, one in self._postponed.items() if known.get(key) is one.log}
        best: Due | None = None
        for count, (key, log) in enumerate([*known.items()], 1):
            found = self._due(key, log)
            if found is not None and (best is None or found.range.dirty_ratio > best.range.dirty_ratio):
                best = found
            if count % LOGS_AT_ONCE == 0:
                yield
        if best is not None and (best.log.topic_partition in self._in_progress or not self._is_current(best)):
            return (yield from self.choose())
        if best is not None:
            self._in_progress.add(best.log.topic_partition)
        return best

    def _due(self, key: TopicPartition, log: Log) -> Due | None:
        if len(log.segments) < 2 or not log.config.compacts or log.failure is not None:
            return None
        if key in self._logs.futures.logs:
            return None  # What is removed now may have been copied before.
        stable_offset = self._stable_offset_of(key)
        if stable_offset is None or key in self._in_progress or key in self._uncleanable:
            return None
        if key in self._postponed and self._clock() < self._postponed[key].until_s:
            return None
        try:
            found = cleanable_range(log, self._clean_offset(key), stable_offset, self._now_ms())
        except CorruptSegment as error:
            self._give_up(log, error)
            return None
        except OSError as error:
            log.fail(error)
            return None
        if not found.is_due(log):
            return None
        count = log.segments.floor(found.first_uncleanable_offset)
        segments = [log.segments[index] for index in range(count)]
        return Due(log, found, segments, log.directory, log.truncations)

    def _clean_offset(self, key: TopicPartition) -> int:
        for directory in self._logs.directories:
            if key in directory.logs:
                return directory.checkpoints.cleaner_offsets.offsets.get(key, -1)
        return -1

    async def clean(self, due: Due) -> bool:
        """Cleans a chosen log; returns whether the log was cleaned. Errors are logged.

        After cancellation, or if the log changes meanwhile, segments that have already been replaced stay replaced, and
        the next cleaning begins at the same offset.
        """
        log, lane = due.log, due.log.disk.lane(due.range.clean_bytes + due.range.cleanable_bytes)
        try:
            await self._flushed(log)
            end_offset = await self._clean(due, lane) if self._is_current(due) else None
            if end_offset is not None:
                await self._record(log, end_offset)
                self._postponed.pop(log.topic_partition, None)
            return end_offset is not None
        except KafkaError:
            return False  # The log and its directory are offline now, which the log manager has logged.
        except (WorkerLost, MemoryError) as error:
            self._postpone(log, str(error) or type(error).__name__)
            lane.close()
            await self._remove_unfinished(due)
            return False
        except OSError as error:
            self._failed(due, error)
            return False
        except Exception as error:  # noqa: BLE001 (as in Kafka, an error with one log neither ends others nor the node)
            self._give_up(log, error)
            return False
        finally:
            lane.close()
            self._in_progress.discard(log.topic_partition)

    async def _clean(self, due: Due, lane: Lane) -> int | None:
        """Returns the offset up to which the log is clean now; None if the cleaning had to end early."""
        directory, began_s = due.directory, self._clock()
        old = {segment.base_offset: segment for segment in due.segments}
        before_bytes = after_bytes = 0
        try:
            await lane.run(begin_cleaning, directory, self._plan(due))
            while True:
                step = await lane.run(advance_cleaning, directory, self._step_bytes())
                await self._throttle(step.io_bytes)
                if not self._is_current(due):
                    return None
                if step.finished:
                    replaced = [old[base] for base in step.finished]
                    before_bytes += sum([segment.size for segment in replaced])
                    after_bytes += step.written_bytes
                    if not await self._replace(due, replaced):
                        return None
                if step.end_offset >= 0:
                    self._report(due, step, before_bytes, after_bytes, self._clock() - began_s)
                    return step.end_offset
        finally:
            await lane.run(end_cleaning, directory)

    async def _replace(self, due: Due, replaced: list[Segment]) -> bool:
        log = due.log
        if not replace_segments(log, replaced, due.truncations):
            return False
        try:
            await log.disk.run(log.disk.sync_directory, due.directory)
        except OSError as error:
            if self._is_current(due):
                raise log.fail(error) from error
        return self._is_current(due)

    def _plan(self, due: Due) -> CleaningPlan:
        log, settings = due.log, self.settings()
        first, upper_bound = due.range.first_dirty_offset, due.range.first_uncleanable_offset
        rules = FilterRules(
            upper_bound,
            {one.producer_id: LastRecord(one.last_offset, one.epoch) for one in log.producers},
            self._now_ms(),
            log.config.delete_retention_ms,
        )
        threads = max(1, settings.threads)
        return CleaningPlan(
            due.directory,
            [_old_segment(log, segment) for segment in due.segments],
            first,
            log.config,
            rules,
            settings.map_size_bytes // threads,
            settings.load_factor,
            settings.buffer_size_bytes // threads // 2,
        )

    def _is_current(self, due: Due) -> bool:
        log = due.log
        known = self._logs.logs.get(log.topic_partition) is log and log.failure is None
        known &= log.topic_partition not in self._logs.futures.logs
        unchanged = log.directory == due.directory and log.truncations == due.truncations
        return known and unchanged and log.config.compacts

    def _step_bytes(self) -> int:
        return int(max(1, min(STEP_BYTES_MAX, self.settings().io_bytes_per_second * _THROTTLED_STEP_S)))

    async def _throttle(self, io_bytes: int) -> None:
        now_s = self._clock()
        self._idle_at_s = max(self._idle_at_s, now_s) + io_bytes / max(1.0, self.settings().io_bytes_per_second)
        if self._idle_at_s - now_s > 0.001:
            await self._sleep(self._idle_at_s - now_s)

    async def _flushed(self, log: Log) -> None:
        """Writes the recovery points, so that recovery does not take gaps left by the cleaner for lost segments."""
        for directory in self._logs.directories:
            if log.topic_partition in directory.logs:
                await write_prepared(log.disk, directory.checkpoints.prepare_recovery_points())

    async def _record(self, log: Log, end_offset: int) -> None:
        for directory in self._logs.directories:
            if directory.logs.get(log.topic_partition) is log:
                try:
                    preparing = directory.checkpoints.prepare_cleaner_offset(log.topic_partition, end_offset)
                    await write_prepared(log.disk, preparing)
                except OSError as error:
                    log.fail(error)

    def _failed(self, due: Due, error: OSError) -> None:
        """Handles an OSError of a step: postpones the cleaning, or takes the log offline.

        Files may be missing if the log changed.
        """
        if is_passing(error):
            self._postpone(due.log, str(error))
        elif isinstance(error, FileNotFoundError) and not (self._is_current(due) and _all_current(due)):
            self._logger.info("log cleaning abandoned", partition=str(due.log.topic_partition), error=str(error))
        else:
            due.log.fail(error)

    def _postpone(self, log: Log, reason: str) -> None:
        """Cleans other logs first. Logs the reason, unless it is that of another log or of an earlier try as well."""
        if all(one.reason != reason for one in self._postponed.values()):
            name = str(log.topic_partition)
            self._logger.warning("log cleaning interrupted", partition=name, error=reason, retry_s=RETRY_S)
        self._postponed[log.topic_partition] = Postponed(log, reason, self._clock() + RETRY_S)

    async def _remove_unfinished(self, due: Due) -> None:
        """Removes the files of a lost worker: recovery would take them for an interrupted replacement."""
        try:
            await due.log.disk.run(remove_unfinished, due.log.disk, due.directory)
        except OSError as error:
            self._failed(due, error)

    def _give_up(self, log: Log, error: Exception) -> None:
        self._uncleanable[log.topic_partition] = log
        unexpected = not isinstance(error, (CorruptRecords, CorruptSegment))
        name, trace = str(log.topic_partition), error if unexpected else None
        self._logger.error("log cannot be cleaned", partition=name, error=str(error), exc_info=trace)

    def _report(self, due: Due, step: Step, before_bytes: int, after_bytes: int, seconds: float) -> None:
        self._logger.info(
            "log cleaned",
            partition=str(due.log.topic_partition),
            first_dirty_offset=due.range.first_dirty_offset,
            end_offset=step.end_offset,
            before_bytes=before_bytes,
            after_bytes=after_bytes,
            seconds=round(seconds, 3),
        )


def _all_current(due: Due) -> bool:
    """Whether the log still has all segments that are being cleaned."""
    log = due.log
    return log.directory == due.directory and due.segments[0].base_offset in log.segments.bases


def _old_segment(log: Log, segment: Segment) -> OldSegment:
    aborted = find_aborted(log.segments, segment.base_offset, segment.next_base)
    indexes = (_size(log, segment.prefix + ".index"), _size(log, segment.prefix + ".timeindex"))
    return OldSegment(segment.base_offset, segment.next_base, segment.size, indexes, aborted)


def _size(log: Log, path: str) -> int:
    return log.disk.file_size(path) if log.disk.exists(path) else 0
