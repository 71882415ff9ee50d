"""Retention: deletes segments at the start of a log, by time, by size, and below the log start offset.

The rules are those of Kafka. Time is the time of the records, not of the files: a segment is deleted when its latest
record is older than `retention.ms`. Segments are deleted from the first on, never beyond the high watermark
(KAFKA-5634).
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from minikafka.storage.disks.disk import Disk
from minikafka.storage.logs.log_guard import LogGuard
from minikafka.storage.logs.log_state import LogState
from minikafka.storage.segments.segment import Segment
from minikafka.storage.steps import Steps

ALL = 1 << 62
Predicate = Callable[[Segment], bool]


def delete_old_segments(log: LogState, high_watermark: int, at_most: int = ALL) -> int:
    """Deletes the segments that retention permits to delete; returns their number.

    For each of the three reasons, at most `at_most` segments are deleted.
    """
    deleted = _delete_while(log, high_watermark, at_most, lambda segment: 0 <= segment.next_base <= log.start_offset)
    if log.config.deletes:
        if log.config.retention_bytes >= 0:
            deleted += _delete_while(log, high_watermark, at_most, _exceeds_size(log))
        if log.config.retention_ms >= 0:
            deleted += _delete_while(log, high_watermark, at_most, _exceeds_time(log))
    return deleted


def _exceeds_size(log: LogState) -> Predicate:
    excess = log.segments.size_bytes - log.config.retention_bytes

    def is_deletable(segment: Segment) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return is_deletable


def _exceeds_time(log: LogState) -> Predicate:
    now_ms = log.context.now_ms()

    def is_deletable(segment: Segment) -> bool:
        latest_ms = segment.latest.timestamp
        if latest_ms < 0:  # No record has a timestamp.
            latest_ms = log.disk.modified_ms(segment.log.path)
        return now_ms - latest_ms > log.config.retention_ms

    return is_deletable


def _delete_while(log: LogState, high_watermark: int, at_most: int, is_deletable: Predicate) -> int:
    segments, count = log.segments, 0
    while count < min(len(segments), at_most):
        segment = segments[count]
        end = log.end_offset if segment.next_base < 0 else segment.next_base
        is_empty_last = segment.next_base < 0 and segment.size == 0
        if end > high_watermark or is_empty_last or not is_deletable(segment):
            break
        count += 1
    if count:
        delete_first(log, count)
    return count


def delete_first(log: LogState, count: int) -> None:
    """Deletes the first `count` segments. If these are all segments, a new one is created at the log end offset."""
    if count == len(log.segments):
        log.roll()
    advance_start(log, log.segments.bases[count])
    # In ascending order: after a crash, the remaining segments have no gap.
    for segment in log.segments.take(0, count):
        log.drop([segment])
    log.delete_later(log.snapshots.mark_deleted_below(log.segments.bases[0], log.producers))


def advance_start(log: LogState, offset: int) -> bool:
    """Advances the log start offset to `offset`; returns whether it changed. Raises ValueError above the log end."""
    if offset > log.end_offset:
        raise ValueError(f"log start offset {offset} is beyond the log end offset {log.end_offset}")
    if offset <= log.start_offset:
        return False
    log.start_offset = offset
    log.epochs.truncate_from_start(offset)
    log.producers.start_offset_advanced(offset)
    return True


def remove_due(log: LogState, guard: LogGuard) -> Steps[None]:
    """Removes the deleted files whose delay has passed. Raises KafkaError."""
    now_ms = log.context.now_ms()
    due = [one for one in log.deleted_files if one[0] <= now_ms]
    if not due or guard.failure is not None:
        return
    log.deleted_files = [one for one in log.deleted_files if one[0] > now_ms]
    try:
        yield partial(_remove, log.disk, [path for _, path in due])
    except OSError as error:
        log.deleted_files += due
        raise guard.fail(error) from error


def _remove(disk: Disk, paths: list[str]) -> None:
    """Removes files. Missing files are ignored: they were moved with their directory, and are removed with it."""
    for path in paths:
        with suppress(FileNotFoundError):
            disk.remove(path)
