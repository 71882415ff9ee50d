"""`Log`: the log of one partition (Kafka's `UnifiedLog`): append, read, roll, flush, truncate, delete.

An append is one write to the page cache: offsets are assigned in place, and batches are never decoded. A read returns a
slice of a file. Only `flush_async` waits, for the disk.

After a failed write or fsync the log is offline: each call raises KAFKA_STORAGE_ERROR until the node has recovered the
log from disk. A failed fsync must not be retried, since the kernel has marked the pages as clean (Rebello et al.,
USENIX ATC 2020; KAFKA-10778).
"""

from collections.abc import Callable, Generator
from struct import Struct

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch
from minikafka.storage.disks.disk import Disk, FileSlice
from minikafka.storage.disks.disk_errors import as_failure, is_passing
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.flush import Flush
from minikafka.storage.logs.leader_epochs import LeaderEpochs
from minikafka.storage.logs.log_context import UNOWNED, Checkpointed, LogContext, LogOwner
from minikafka.storage.logs.log_guard import FAILURES, LogGuard
from minikafka.storage.logs.log_lookup import (
    find_aborted,
    find_histories,
    find_slice,
    find_upper_bound,
)
from minikafka.storage.logs.log_results import Appended, OffsetOutOfRange, UnexpectedOffset
from minikafka.storage.logs.producer_replay import update_producer
from minikafka.storage.logs.producer_state import Histories, ProducerStates
from minikafka.storage.logs.recovery import Loader, load
from minikafka.storage.logs.retention import ALL, advance_start, delete_old_segments, remove_due
from minikafka.storage.logs.truncation import truncate_fully, truncate_to
from minikafka.storage.segments.segment import OFFSET_DELTA_MAX
from minikafka.storage.segments.segments import Segments, should_roll
from minikafka.storage.segments.timestamp_search import Found, search_max_timestamp, search_timestamp
from minikafka.storage.steps import Steps, at_once, in_steps
from minikafka.storage.waits import in_task

__all__ = ["Appended", "FileSlice", "Log", "LogConfig", "OffsetOutOfRange", "UnexpectedOffset"]

_ASSIGN = Struct(">qii")


class Log:
    """The log of one partition. Created by `Log.open`.

    Attributes:
        topic_id: 16 bytes; None without a valid `partition.metadata`.
        has_lost_id: whether a power failure has removed the topic id; the records may belong to a deleted topic.
        report: the outcome of opening the log.
        on_flushed: called after the recovery point has advanced.
        state: the segments, offsets and caches.
        guard: takes the log offline after an error.
    """

    def __init__(self, loaded: Loader, owner: LogOwner) -> None:
        self.state = state = loaded.log
        self.guard = LogGuard(state.topic_partition, owner)
        self.topic_id = loaded.topic_id
        self.has_lost_id = loaded.topic_id is None and not loaded.created
        self.report = loaded.report
        self.on_flushed: Callable[[], None] | None = None
        self._created = loaded.created
        state.unflushed.names = loaded.may_be_unsynced
        state.unflushed.has_changed = not loaded.report.clean
        state.producers.histories = self._producer_histories
        state.set_jitter()

    @classmethod
    def open(
        cls,
        context: LogContext,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        checkpointed: Checkpointed,
        *,
        topic_id: bytes | None = None,
        owner: LogOwner = UNOWNED,
    ) -> "Log":
        """Opens the log in a directory, or creates a new one.

        Args:
            topic_id: written to `partition.metadata` of a new log; for an existing log, the file takes precedence.

        Raises:
            CorruptLog: flushed data is corrupt. No batch has been changed.
            OSError: an I/O error.
        """
        return cls(load(context, directory, topic_partition, config, checkpointed, topic_id, owner), owner)

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.topic_partition

    @property
    def disk(self) -> Disk:
        return self.state.context.disk

    @property
    def directory(self) -> str:
        """The path of the log's directory."""
        return self.state.segments.directory

    @property
    def config(self) -> LogConfig:
        return self.state.segments.config

    @property
    def segments(self) -> Segments:
        return self.state.segments

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self.state.start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next append."""
        return self.state.end_offset

    @property
    def recovery_point(self) -> int:
        """Everything before this offset has been flushed."""
        return self.state.unflushed.recovery_point

    @property
    def truncations(self) -> int:
        """The number of truncations since the log was opened."""
        return self.state.unflushed.truncations

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epoch cache, which the log keeps up to date."""
        return self.state.epochs

    @property
    def producers(self) -> ProducerStates:
        """The producer state, which the log keeps up to date."""
        return self.state.producers

    @property
    def failure(self) -> Exception | None:
        """The error that took the log offline, or None."""
        return self.guard.failure

    def fail(self, error: Exception) -> KafkaError:
        """Takes the log offline permanently, unless the error is passing; returns the error to raise."""
        return self.guard.fail(error)

    @property
    def size_bytes(self) -> int:
        """The size of all batches. The first call reads the file sizes of the segments."""
        return self.state.segments.size_bytes

    @property
    def last_stable_offset_unbounded(self) -> int | None:
        """The first offset of the first unstable transaction, or None. The last stable offset is the minimum of this
        and the high watermark; see `high_watermark_advanced`."""
        first = self.producers.first_unstable_offset
        return None if first is None else max(first, self.state.start_offset)

    def high_watermark_advanced(self, high_watermark: int) -> None:
        """Called when the high watermark advanced: transactions with markers below it become stable."""
        self.producers.high_watermark_advanced(high_watermark)

    def append(
        self, data: bytearray | memoryview, batches: list[Batch], *, leader_epoch: int = -1, assign_offsets: bool = True
    ) -> Appended:
        """Appends validated batches, which `data` contains consecutively, and updates the producer state.

        On a leader, offsets and `leader_epoch` are assigned in place, in `data` and `batches`. On a follower
        (`assign_offsets=False`) they are kept; offsets must not be below the log end offset.

        Raises:
            KafkaError: RECORD_LIST_TOO_LARGE if the batches exceed `segment.bytes`; KAFKA_STORAGE_ERROR.
            UnexpectedOffset: a follower appends offsets that the log already has.
        """
        if self.guard.failure is not None:
            raise self.guard.offline()
        state, config = self.state, self.config
        size = len(data)
        if size > config.segment_bytes:
            raise error_for(ErrorCode.RECORD_LIST_TOO_LARGE, self._too_large(size))
        if assign_offsets:
            self._assign(data, batches, leader_epoch)
        elif batches[0].base_offset < state.end_offset:
            raise UnexpectedOffset(self._unexpected(batches))
        first_offset, last = batches[0].base_offset, batches[-1]
        end_offset = last.base_offset + last.last_offset_delta + 1
        max_timestamp = last.max_timestamp
        if len(batches) > 1:
            max_timestamp = max([batch.max_timestamp for batch in batches])
        try:
            for batch in batches:
                if batch.leader_epoch != state.epochs.latest and batch.leader_epoch >= 0:
                    state.epochs.assign(batch.leader_epoch, batch.base_offset)
            active = state.segments.active
            if should_roll(active, config, size, max_timestamp, end_offset - 1, state.context.now_ms):
                # Not at the first offset, though the leader's log may have a gap before it: segments have no gaps.
                self.roll(first_offset if end_offset - state.end_offset > OFFSET_DELTA_MAX else None)
                active = state.segments.active
            active.append(data, batches)
        except FAILURES as error:
            raise self.guard.fail(self._undone(error)) from error
        try:
            state.end_offset = end_offset
            state.unflushed.has_changed = True
            for batch in batches:
                if batch.producer_id >= 0:
                    update_producer(state.producers, active, batch)
            state.producers.end_offset = end_offset
        except FAILURES as error:
            raise self.guard.fail(as_failure(error)) from error
        flush_due = end_offset - state.unflushed.recovery_point >= config.flush_messages
        return Appended(first_offset, end_offset - 1, max_timestamp, flush_due)

    def _undone(self, error: Exception) -> Exception:
        """Undoes a failed append if its error is passing; returns the error to report."""
        try:
            if is_passing(error):
                self.segments.active.undo_append(self.end_offset)
        except FAILURES as worse:
            return as_failure(worse)
        return error

    @property
    def flush_due(self) -> bool:
        """Whether `flush.messages` requires a flush before the last records are acknowledged or read."""
        return self.end_offset - self.recovery_point >= self.config.flush_messages

    def _assign(self, data: bytearray | memoryview, batches: list[Batch], leader_epoch: int) -> None:
        offset, position = self.state.end_offset, 0
        for batch in batches:
            size = len(batch.data)
            _ASSIGN.pack_into(data, position, offset, size - 12, leader_epoch)
            batch.base_offset = offset
            batch.leader_epoch = leader_epoch
            offset += batch.last_offset_delta + 1
            position += size

    def _too_large(self, size: int) -> str:
        return f"append of {size} bytes to {self.topic_partition} exceeds segment.bytes {self.config.segment_bytes}"

    def _unexpected(self, batches: list[Batch]) -> str:
        first = batches[0].base_offset
        return f"append of offset {first} to {self.topic_partition}, whose log end offset is {self.end_offset}"

    def roll(self, first_offset: int | None = None) -> None:
        """Starts a new segment at the log end offset, or at `first_offset` if it is higher. An empty segment at that
        offset is kept (KAFKA-6388). Raises KafkaError."""
        self.guard.run(self.state.roll, first_offset)

    def read(
        self, offset: int, *, max_bytes: int, limit_offset: int | None = None, min_one_batch: bool = True
    ) -> FileSlice | None:
        """Returns the batches of one segment from the one that contains `offset`, up to `limit_offset` (the base offset
        of a batch; by default the log end offset). None if there are none.

        The slice has up to `max_bytes` bytes and may end within a batch. A first batch that is larger is returned alone
        and complete, or with `min_one_batch=False` not at all.

        Raises:
            OffsetOutOfRange: below the log start offset or above the log end offset.
            KafkaError: KAFKA_STORAGE_ERROR; CORRUPT_MESSAGE if the batches are corrupt.
        """
        state = self.state
        if self.guard.failure is not None:
            raise self.guard.offline()
        end = state.end_offset
        if not state.start_offset <= offset <= end:
            raise OffsetOutOfRange(offset, state.start_offset, end)
        limit = end if limit_offset is None or limit_offset > end else limit_offset
        if offset >= limit:
            return None
        return self.guard.read(find_slice, state, offset, max_bytes, limit, min_one_batch)

    def offset_for_timestamp(self, timestamp: int) -> Steps[Found]:
        """Finds the first record at or after `timestamp` (ms). Raises KafkaError."""
        return search_timestamp(self.guard.read_if_open, self.segments, timestamp, self.start_offset)

    def offset_of_max_timestamp(self) -> Steps[Found]:
        """Finds the first record with the largest timestamp (KIP-734). Raises KafkaError."""
        return search_max_timestamp(self.guard.read_if_open, self.segments, self.start_offset)

    def upper_bound_offset(self, offset: int, size_bytes: int) -> int:
        """Returns an upper bound of the offsets in a read of `size_bytes` from `offset`, for `aborted_transactions`
        (Kafka's `fetchUpperBoundOffset`). Raises KafkaError."""
        return self.guard.read(find_upper_bound, self.segments, offset, size_bytes, self.end_offset)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        """Returns (producer id, first offset) of the aborted transactions that overlap the range, in the order of their
        markers. Raises KafkaError."""
        found = self.guard.read(find_aborted, self.segments, from_offset, to_offset)
        return [(one.producer_id, one.first_offset) for one in found]

    def _producer_histories(self, end_offset: int) -> Histories:
        return self.guard.read(find_histories, self.segments, end_offset)

    @property
    def flush_wanted(self) -> bool:
        """Whether the log needs a flush: a rolled segment or its producer snapshot is not flushed yet, `flush.ms` has
        passed, or `flush.messages` requires a flush, for example after a crash or a cancelled request."""
        if self.failure is not None:
            return False
        if self.recovery_point >= self.end_offset:
            snapshots = self.state.snapshots
            return len(snapshots.unsynced) > 0 or snapshots.pending is not None
        return self.segments.active.base_offset > self.recovery_point or self._flush_overdue

    @property
    def _flush_overdue(self) -> bool:
        now_ms = self.state.context.now_ms()
        return self.flush_due or now_ms - self.state.unflushed.flushed_ms >= self.config.flush_ms

    def flush(self) -> None:
        """Flushes the log, blocking. Raises KafkaError."""
        end, is_behind = self.end_offset, True
        while is_behind and (flush := self._begin_flush(end)) is not None:
            is_behind = at_once(self._finish_flush(flush, end))

    async def flush_async(self, *, all_segments: bool = True) -> None:
        """Flushes the log in a worker thread; concurrent appends are not included. After cancellation the part that has
        begun is completed. Raises KafkaError.

        Args:
            all_segments: False excludes the active segment unless `flush.ms` or `flush.messages` requires its flush.
        """
        await in_task()
        end = self.end_offset if all_segments or self._flush_overdue else self.segments.active.base_offset
        is_behind = True
        while is_behind:
            async with self.disk.flush_turns.turn(self):
                flush = self._begin_flush(end)
                is_behind = flush is not None and await in_steps(self._finish_flush(flush, end), self.disk)

    def _finish_flush(self, flush: Flush, end: int) -> Steps[bool]:
        """Completes a flush that has begun. Returns whether another flush is needed to reach `end`."""
        try:
            yield flush.sync
        except OSError as error:
            if isinstance(error, FileNotFoundError) and flush.directory != self.directory:
                return False  # It was moved meanwhile: deleted, or replaced by its copy.
            raise self._flush_failed(flush, error) from error
        finally:
            flush.release()
        self._end_flush(flush)
        return flush.offset < min(end, self.end_offset)

    def _flush_failed(self, flush: Flush, error: OSError) -> KafkaError:
        flush.give_back(self.state)
        return self.guard.fail(error)

    def _begin_flush(self, offset: int) -> Flush | None:
        offset = min(offset, self.end_offset)  # It may have been truncated while it waited.
        behind = offset > self.recovery_point or self.state.unflushed.has_files
        return self.guard.run_if_open(Flush, self.state, offset) if behind or self.failure is not None else None

    def _end_flush(self, flush: Flush) -> None:
        if self.failure is not None:
            raise self.guard.offline()  # The kernel reports lost pages to one of several flushes only.
        unflushed = self.state.unflushed
        unflushed.flushed_ms = self.state.context.now_ms()
        self.guard.run(flush.end, self.state)
        if flush.truncations == unflushed.truncations:
            unflushed.recovery_point = max(unflushed.recovery_point, flush.offset)
            if self.on_flushed is not None:
                self.on_flushed()

    def truncate_to(self, offset: int) -> bool:
        """Removes all records from `offset` on, including the whole batch that contains `offset`; the log then ends at
        `offset`. Returns whether anything was removed. Raises KafkaError."""
        return self.guard.run(truncate_to, self.state, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Removes all records and restarts the log at `offset`. Raises KafkaError."""
        self.guard.run(truncate_fully, self.state, offset)

    def advance_start_offset(self, offset: int) -> bool:
        """Advances the log start offset (DeleteRecords), at most to the high watermark; returns whether it changed.
        Raises KafkaError; ValueError above the log end offset."""
        return self.guard.run(advance_start, self.state, offset)

    def delete_old_segments(self, high_watermark: int, *, at_most: int = ALL) -> int:
        """Deletes about `at_most` of the segments that retention permits to delete, never beyond the high watermark;
        returns their number. Raises KafkaError."""
        return self.guard.read(delete_old_segments, self.state, high_watermark, at_most)

    def removing_deleted(self) -> Steps[None]:
        """Removes the deleted files whose delay has passed. Raises KafkaError."""
        return remove_due(self.state, self.guard)

    def expire_producers(self) -> Generator[None, None, None]:
        """Removes producers without appends for `producer.id.expiration.ms`. Other tasks may run at each `yield`."""
        return self.producers.expire(self.state.context.expired_ms)

    def update_config(self, config: LogConfig) -> None:
        """Applies changed configs."""
        self.state.update_config(config)

    def move(self, directory: str) -> None:
        """Sets the new path of the log's directory, which was renamed."""
        self.state.move(directory)

    def take_over(self, source: "Log") -> None:
        """Takes over from a log with the same records the state that the records do not contain: producers of deleted
        records, leader epochs without records, the log start offset. Raises KafkaError."""
        state = self.state
        source.state.snapshots.drop_pending()
        state.producers = source.producers
        state.producers.histories = self._producer_histories
        state.unflushed.has_changed = True
        self.update_config(source.config)
        state.epochs.replace(source.epochs.entries)
        self.guard.run(state.snapshots.take, state.producers)
        if source.start_offset > self.start_offset:
            self.advance_start_offset(source.start_offset)

    def close(self, *, clean: bool = True) -> None:
        """Closes all files. With `clean`, flushes first if the log has changed, so that it can be opened without a
        scan.

        Raises KafkaError.
        """
        flush = at_once(self.begin_close()) if clean else None
        if flush is not None:
            at_once(self._finish_flush(flush, flush.offset))
        self.guard.is_closed = True
        for segment in self.segments.opened():
            segment.close()

    def begin_close(self) -> Steps[Flush | None]:
        """Seals the log for a clean shutdown; returns the flush to perform, if any. Raises KafkaError."""
        state, guard = self.state, self.guard
        if guard.is_closed or guard.failure is not None or not (state.unflushed.has_changed or self._created):
            return None
        guard.run(state.segments.active.seal)
        if not state.unflushed.has_changed:  # An empty log is created again if a power failure removes it.
            return None
        while state.snapshots.pending is not None and (flush := self._begin_flush(self.end_offset)) is not None:
            yield from self._finish_flush(flush, flush.offset)  # Otherwise there is none of the end.
        guard.run(state.snapshots.take_later, state.producers)
        if self.recovery_point >= self.end_offset:  # The seal is flushed, also if all batches are.
            state.unflushed.touched[state.segments.active] = None
        while (flush := self._begin_flush(self.end_offset)) is not None and flush.offset < self.end_offset:
            yield from self._finish_flush(flush, flush.offset)
        return flush

    def end_close(self, flush: Flush | None, error: OSError | None) -> None:
        """Completes `begin_close` after `Flush.sync`, which may have raised `error`. Raises KafkaError."""
        if flush is not None:
            flush.release()
            if error is not None:
                raise self._flush_failed(flush, error) from error
            self._end_flush(flush)
        self.close(clean=False)
