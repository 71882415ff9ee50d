"""`Log`: the log of one partition (Kafka's `UnifiedLog`): append, read, roll, flush, truncate, delete.

An append is one write to the page cache: offsets are assigned in place, and batches are never decoded. A read returns a
slice of a file. Only `flush_async` waits, for the disk.

After a failed write or fsync the log is offline: each call raises KAFKA_STORAGE_ERROR until the node has recovered the
log from disk. A failed fsync must not be retried, since the kernel has marked the pages as clean (Rebello et al.,
USENIX ATC 2020; KAFKA-10778).
"""

from collections.abc import Callable
from random import Random
from struct import Struct

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch
from minikafka.storage.disks.checkpoint_files import EPOCHS
from minikafka.storage.disks.disk import Disk, FileSlice
from minikafka.storage.disks.disk_errors import as_failure, is_passing
from minikafka.storage.disks.off_loop import Blocking, in_line, off_loop
from minikafka.storage.log_config import PRODUCER_EXPIRATION_MS, LogConfig
from minikafka.storage.logs.flush import Flush
from minikafka.storage.logs.guarded_log import FAILURES, GuardedLog
from minikafka.storage.logs.log_lookup import (
    find_aborted,
    find_histories,
    find_slice,
    find_upper_bound,
)
from minikafka.storage.logs.log_results import Appended, OffsetOutOfRange, UnexpectedOffset
from minikafka.storage.logs.producer_state import Histories, ProducerStates
from minikafka.storage.logs.recovery import Loader, update_producer
from minikafka.storage.logs.retention import ALL, advance_start, delete_old_segments, remove_due
from minikafka.storage.logs.truncation import truncate_fully, truncate_to
from minikafka.storage.segments.segment import OFFSET_DELTA_MAX, Segment
from minikafka.storage.segments.segments import should_roll
from minikafka.storage.segments.timestamp_search import Found, search_max_timestamp, search_timestamp
from minikafka.storage.waits import in_task

__all__ = ["Appended", "FileSlice", "Log", "LogConfig", "OffsetOutOfRange", "UnexpectedOffset"]

_ASSIGN = Struct(">qii")
OnFailure = Callable[["Log", Exception], None]


class Log(GuardedLog):
    """The log of one partition. Created by `Log.open`.

    Attributes:
        topic_id: 16 bytes; None without a valid `partition.metadata`.
        has_lost_id: whether a power failure has removed the topic id; the records may belong to a deleted topic.
        start_offset, end_offset: the first offset that can be read, and the offset of the next append.
        recovery_point: everything before this offset has been flushed.
        epochs, producers: the leader epoch cache and the producer state, which the log keeps up to date.
        report: the outcome of opening the log.
        failure: the error that took the log offline, or None.
        on_flushed: called after the recovery point has advanced.
    """

    def __init__(
        self, loaded: Loader, clock: Callable[[], int], *, random: Random, on_failure: OnFailure | None,
        on_damage: OnFailure | None, on_truncation: "Callable[[Log], None] | None",
    ) -> None:  # fmt: skip
        super().__init__(
            loaded.topic_partition,
            on_failure=None if on_failure is None else lambda error: on_failure(self, error),
            on_damage=None if on_damage is None else lambda error: on_damage(self, error),
        )
        self.disk = loaded.disk
        self.directory = loaded.directory
        self.topic_id = loaded.topic_id
        self.config = loaded.config
        self.start_offset = loaded.start_offset
        self.end_offset = loaded.end_offset
        self.recovery_point = loaded.recovery_point
        self.has_lost_id = loaded.topic_id is None and not loaded.created
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.report = loaded.report
        self.on_flushed: Callable[[], None] | None = None
        self.segments = loaded.segments
        self.snapshots = loaded.snapshots
        self.active = self.segments[-1]
        self.last_flush_ms = clock()
        self.directory_unsynced = loaded.may_be_unsynced
        self.unsynced_paths = loaded.unsynced_paths
        self.unsettled: Callable[[], None] | None = None
        self.touched = loaded.touched  # To flush also below the recovery point: rolled or truncated.
        self.truncations = 0
        self.now_ms = clock
        self._random = random
        self._on_truncation = on_truncation
        self.deleted_files: list[tuple[int, str]] = []
        self._dirty = not loaded.report.clean
        self._created = loaded.created
        self._sizes_known: int | None = None
        self.producers.histories = self._producer_histories
        self._set_jitter()

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: Callable[[], int],
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cleaner_offset: int | None = None,
        topic_id: bytes | None = None,
        random: Random | None = None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        on_failure: OnFailure | None = None,
        on_damage: OnFailure | None = None,
        on_truncation: "Callable[[Log], None] | None" = None,
    ) -> "Log":
        """Opens the log in a directory, or creates a new one.

        Args:
            clean: whether the last shutdown was clean, so that the files are trusted.
            recovery_point, log_start_offset, cleaner_offset: the offsets in the checkpoints, as of `Loader`.
            topic_id: written to `partition.metadata` of a new log; for an existing log, the file takes precedence.
            random: the source of `segment.jitter.ms`.
            on_failure: called when the log goes offline.
            on_damage: called for each read of corrupt batches.
            on_truncation: called before flushed data is truncated, with the lowered recovery point, which must be
                written to the checkpoint first.

        Raises:
            CorruptLog: flushed data is corrupt. No batch has been changed.
            OSError: an I/O error.
        """
        producers = ProducerStates(topic_partition, expiration_ms=producer_expiration_ms)
        loader = Loader(
            disk, directory, topic_partition, config, now_ms(), recovery_point, log_start_offset, producers,
            topic_id, cleaner_offset,
        )  # fmt: skip
        loader.load(clean=clean)
        return cls(
            loader, now_ms, random=random or Random(0), on_failure=on_failure, on_damage=on_damage,
            on_truncation=on_truncation,
        )  # fmt: skip

    @property
    def size_bytes(self) -> int:
        """The size of all batches. The first call reads the file sizes of the segments."""
        if self._sizes_known is None:
            inactive = range(len(self.segments) - 1)
            self._sizes_known = sum(self.segments[index].size for index in inactive)
        return self._sizes_known + self.active.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self.segments)

    @property
    def last_stable_offset_unbounded(self) -> int | None:
        """The first offset of the first unstable transaction, or None. The last stable offset is the minimum of this
        and the high watermark; see `high_watermark_advanced`."""
        first = self.producers.first_unstable_offset
        return None if first is None else max(first, self.start_offset)

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
        if self.failure is not None:
            raise self.offline()
        size = len(data)
        if size > self.config.segment_bytes:
            raise error_for(ErrorCode.RECORD_LIST_TOO_LARGE, self._too_large(size))
        if assign_offsets:
            self._assign(data, batches, leader_epoch)
        elif batches[0].base_offset < self.end_offset:
            raise UnexpectedOffset(self._unexpected(batches))
        first_offset, last = batches[0].base_offset, batches[-1]
        end_offset = last.base_offset + last.last_offset_delta + 1
        max_timestamp = last.max_timestamp
        if len(batches) > 1:
            max_timestamp = max([batch.max_timestamp for batch in batches])
        try:
            for batch in batches:
                if batch.leader_epoch != self.epochs.latest and batch.leader_epoch >= 0:
                    self.epochs.assign(batch.leader_epoch, batch.base_offset)
            if should_roll(self.active, self.config, size, max_timestamp, end_offset - 1, self.now_ms):
                # Not at the first offset, though the leader's log may have a gap before it: segments have no gaps.
                self.roll(first_offset if end_offset - self.end_offset > OFFSET_DELTA_MAX else None)
            self.active.append(data, batches)
        except FAILURES as error:
            raise self.fail(self._undone(error)) from error
        try:
            self.end_offset = end_offset
            self._dirty = True
            producers = self.producers
            for batch in batches:
                if batch.producer_id >= 0:
                    update_producer(producers, self.active, batch)
            producers.end_offset = end_offset
        except FAILURES as error:
            raise self.fail(as_failure(error)) from error
        flush_due = end_offset - self.recovery_point >= self.config.flush_messages
        return Appended(first_offset, end_offset - 1, max_timestamp, flush_due)

    def _undone(self, error: Exception) -> Exception:
        """Undoes a failed append if its error is passing; returns the error to report."""
        try:
            if is_passing(error):
                self.active.undo_append(self.end_offset)
        except FAILURES as worse:
            return as_failure(worse)
        return error

    @property
    def flush_due(self) -> bool:
        """Whether `flush.messages` requires a flush before the last records are acknowledged or read."""
        return self.end_offset - self.recovery_point >= self.config.flush_messages

    def _assign(self, data: bytearray | memoryview, batches: list[Batch], leader_epoch: int) -> None:
        offset, position = self.end_offset, 0
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
        self._guarded(self._roll, max(first_offset or 0, self.end_offset))

    def _roll(self, base: int) -> None:
        active = self.active
        if base == active.base_offset:
            return
        active.seal()
        new = Segment.create(self.disk, self.directory, base, self.config, now_ms=self.now_ms())
        self.touched[active] = None
        if self._sizes_known is not None:
            self._sizes_known += active.size_bytes
        self.segments.append(new)
        self.active = new
        self.directory_unsynced = self._dirty = True
        self.producers.end_offset = base
        self.snapshots.take_later(self.producers)
        self._set_jitter()

    def _set_jitter(self) -> None:
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        self.active.jitter_ms = self._random.randrange(limit) if limit > 0 else 0

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
        if self.failure is not None:
            raise self.offline()
        end = self.end_offset
        if not self.start_offset <= offset <= end:
            raise OffsetOutOfRange(offset, self.start_offset, end)
        limit = end if limit_offset is None or limit_offset > end else limit_offset
        if offset >= limit:
            return None
        return self._reading(find_slice, self.segments, offset, max_bytes, limit, end, min_one_batch)

    def offset_for_timestamp(self, timestamp: int) -> Blocking[Found]:
        """Finds the first record at or after `timestamp` (ms). Raises KafkaError."""
        return search_timestamp(self._reading_if_open, self.segments, timestamp, self.start_offset)

    def offset_of_max_timestamp(self) -> Blocking[Found]:
        """Finds the first record with the largest timestamp (KIP-734). Raises KafkaError."""
        return search_max_timestamp(self._reading_if_open, self.segments, self.start_offset)

    def upper_bound_offset(self, offset: int, size_bytes: int) -> int:
        """Returns an upper bound of the offsets in a read of `size_bytes` from `offset`, for `aborted_transactions`
        (Kafka's `fetchUpperBoundOffset`). Raises KafkaError."""
        return self._reading(find_upper_bound, self.segments, offset, size_bytes, self.end_offset)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        """Returns (producer id, first offset) of the aborted transactions that overlap the range, in the order of their
        markers. Raises KafkaError."""
        found = self._reading(find_aborted, self.segments, from_offset, to_offset)
        return [(one.producer_id, one.first_offset) for one in found]

    def _producer_histories(self, end_offset: int) -> Histories:
        return self._reading(find_histories, self.segments, end_offset)

    @property
    def flush_wanted(self) -> bool:
        """Whether the log needs a flush: a rolled segment or its producer snapshot is not flushed yet, `flush.ms` has
        passed, or `flush.messages` requires a flush, for example after a crash or a cancelled request."""
        if self.failure is not None:
            return False
        if self.recovery_point >= self.end_offset:
            return len(self.snapshots.unsynced) > 0 or self.snapshots.pending is not None
        if self.active.base_offset > self.recovery_point or self.flush_due:
            return True
        return self.now_ms() - self.last_flush_ms >= self.config.flush_ms

    def flush(self) -> None:
        """Flushes the log, blocking. Raises KafkaError."""
        end, is_behind = self.end_offset, True
        while is_behind and (flush := self._begin_flush(end)) is not None:
            is_behind = in_line(self._finish_flush(flush, end))

    async def flush_async(self, *, all_segments: bool = True) -> None:
        """Flushes the log in a worker thread; concurrent appends are not included. After cancellation the part that has
        begun is completed. Raises KafkaError.

        Args:
            all_segments: False excludes the active segment unless `flush.ms` or `flush.messages` requires its flush.
        """
        await in_task()
        overdue = self.flush_due or self.now_ms() - self.last_flush_ms >= self.config.flush_ms
        end = self.end_offset if all_segments or overdue else self.active.base_offset
        is_behind = True
        while is_behind:
            async with self.disk.flush_turns.turn(self):
                flush = self._begin_flush(end)
                is_behind = flush is not None and await off_loop(self.disk, self._finish_flush(flush, end))

    def _finish_flush(self, flush: Flush, end: int) -> Blocking[bool]:
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
        flush.give_back(self)
        return self.fail(error)

    def _begin_flush(self, offset: int) -> Flush | None:
        offset = min(offset, self.end_offset)  # It may have been truncated while it waited.
        behind = offset > self.recovery_point or self.unsynced_paths or self.directory_unsynced or self.touched
        return self._guarded_if_open(Flush, self, offset) if behind or self.failure is not None else None

    def _end_flush(self, flush: Flush) -> None:
        if self.failure is not None:
            raise self.offline()  # The kernel reports lost pages to one of several flushes only.
        self.last_flush_ms = self.now_ms()
        self._guarded(flush.end, self)
        if flush.truncations == self.truncations:
            self.recovery_point = max(self.recovery_point, flush.offset)
            if self.on_flushed is not None:
                self.on_flushed()

    def truncate_to(self, offset: int) -> bool:
        """Removes all records from `offset` on, including the whole batch that contains `offset`; the log then ends at
        `offset`. Returns whether anything was removed. Raises KafkaError."""
        return self._guarded(truncate_to, self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Removes all records and restarts the log at `offset`. Raises KafkaError."""
        self._guarded(truncate_fully, self, offset)

    def advance_start_offset(self, offset: int) -> bool:
        """Advances the log start offset (DeleteRecords), at most to the high watermark; returns whether it changed.
        Raises KafkaError; ValueError above the log end offset."""
        return self._guarded(advance_start, self, offset)

    def delete_old_segments(self, high_watermark: int, *, at_most: int = ALL) -> int:
        """Deletes about `at_most` of the segments that retention permits to delete, never beyond the high watermark;
        returns their number. Raises KafkaError."""
        return self._reading(delete_old_segments, self, high_watermark, at_most)

    def drop(self, segments: list[Segment], *, size_bytes: int | None = None) -> None:
        """Deletes segments that were removed from `segments`, the last segment first, so that a crash leaves no gap.
        `size_bytes` is the size of the segments, if they were sealed and no segment replaces them; None otherwise."""
        known, self._sizes_known = self._sizes_known, None
        for segment in reversed(segments):
            self.delete_later(segment.mark_deleted())
            self.touched.pop(segment, None)
        self.directory_unsynced = self._dirty = True
        self._sizes_known = None if known is None or size_bytes is None else known - size_bytes

    def delete_later(self, paths: list[str]) -> None:
        """Removes files after `file.delete.delay.ms`."""
        due_ms = self.now_ms() + self.config.file_delete_delay_ms
        self.deleted_files += [(due_ms, path) for path in paths]

    def removing_deleted(self) -> Blocking[None]:
        """Removes the deleted files whose delay has passed. Raises KafkaError."""
        return remove_due(self)

    def expire_producers(self) -> None:
        """Removes producers without appends for `producer.id.expiration.ms`."""
        self.producers.expire(self.now_ms())

    def update_config(self, config: LogConfig) -> None:
        """Applies changed configs."""
        self.config = config
        self.segments.update_config(config)
        self._set_jitter()

    def move(self, directory: str) -> None:
        """Takes notice of the new path of the log's directory, which was renamed."""
        self.directory = self.snapshots.directory = directory
        self.segments.move(directory)
        self.epochs.path = f"{directory}/{EPOCHS}"
        self.deleted_files.clear()  # They are removed with the directory.

    def take_over(self, source: "Log") -> None:
        """Takes over from a log with the same records the state that the records do not contain: producers of deleted
        records, leader epochs without records, the log start offset. Raises KafkaError."""
        source.snapshots.drop_pending()
        self.producers = source.producers
        self.producers.histories = self._producer_histories
        self._dirty = True
        self.update_config(source.config)
        self.epochs.replace(source.epochs.entries)
        self._guarded(self.snapshots.take, self.producers)
        if source.start_offset > self.start_offset:
            self.advance_start_offset(source.start_offset)

    def close(self, *, clean: bool = True) -> None:
        """Closes all files. With `clean`, flushes first if the log has changed, so that it can be opened without a
        scan.

        Raises KafkaError.
        """
        flush = in_line(self.begin_close()) if clean else None
        if flush is not None:
            in_line(self._finish_flush(flush, flush.offset))
        self.is_closed = True
        for segment in self.segments.opened():
            segment.close()

    def begin_close(self) -> Blocking[Flush | None]:
        """Seals the log for a clean shutdown; returns the flush to perform, if any. Raises KafkaError."""
        if self.is_closed or self.failure is not None or not (self._dirty or self._created):
            return None
        self._guarded(self.active.seal)
        if not self._dirty:  # An empty log is created again if a power failure removes it.
            return None
        while self.snapshots.pending is not None and (flush := self._begin_flush(self.end_offset)) is not None:
            yield from self._finish_flush(flush, flush.offset)  # Otherwise there is none of the end.
        self._guarded(self.snapshots.take_later, self.producers)
        if self.recovery_point >= self.end_offset:  # The seal is flushed, also if all batches are.
            self.touched[self.active] = None
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

    def lower_recovery_point(self, offset: int) -> None:
        """Lowers the recovery point to `offset`. Must be called before flushed data from `offset` on is truncated."""
        self.truncations += 1
        if offset < self.recovery_point:
            self.recovery_point = offset
            if self._on_truncation is not None:
                self._on_truncation(self)
