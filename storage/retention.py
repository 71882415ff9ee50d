"""What may be deleted at a log's start: by time, by size, by a start offset that has moved (Kafka's rules).

Time is that of the records, not of the files: a segment goes when its latest record is older than
`retention.ms`. Only from the first segment on, and never at or behind the high watermark (KAFKA-5634).
"""

from collections.abc import Callable

from minikafka.storage.disk import Disk
from minikafka.storage.log_state import LogState
from minikafka.storage.segment import Segment

Breach = Callable[[Segment], bool]


def delete_old_segments(log: LogState, high_watermark: int) -> int:
    """Delete what retention no longer keeps; how many segments went."""
    deleted = _delete_while(log, high_watermark, lambda segment: 0 <= segment.next_base <= log.start_offset)
    if log.config.deletes:
        if log.config.retention_bytes >= 0:
            deleted += _delete_while(log, high_watermark, _beyond_size(log))
        if log.config.retention_ms >= 0:
            deleted += _delete_while(log, high_watermark, _beyond_time(log))
    return deleted


def _beyond_size(log: LogState) -> Breach:
    excess = log.size_bytes - log.config.retention_bytes

    def breach(segment: Segment) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return breach


def _beyond_time(log: LogState) -> Breach:
    now_ms = log.now_ms()

    def breach(segment: Segment) -> bool:
        latest_ms = segment.latest.timestamp
        if latest_ms < 0:  # No record has a time.
            latest_ms = log.disk.modified_ms(segment.log.path)
        return now_ms - latest_ms > log.config.retention_ms

    return breach


def _delete_while(log: LogState, high_watermark: int, breach: Breach) -> int:
    segments, count = log.segments, 0
    while count < len(segments):
        segment = segments[count]
        end = log.end_offset if segment.next_base < 0 else segment.next_base
        is_empty_last = segment.next_base < 0 and segment.size == 0
        if end > high_watermark or is_empty_last or not breach(segment):
            break
        count += 1
    if count:
        delete_first(log, count)
    return count


def delete_first(log: LogState, count: int) -> None:
    """Delete the first segments; where these are all, a new one begins at the log's end."""
    if count == len(log.segments):
        log.roll()
    advance_start(log, log.segments.bases[count])
    # First first: here a gap would be one between what goes and what stays.
    for segment in log.segments.take(0, count):
        log.drop([segment])
    log.delete_later(log.snapshots.mark_deleted_below(log.segments.bases[0]))


def advance_start(log: LogState, offset: int) -> bool:
    """Move the log's start up; whether it moved."""
    if offset > log.end_offset:
        raise ValueError(f"a log that ends at {log.end_offset} cannot begin at {offset}")
    if offset <= log.start_offset:
        return False
    log.start_offset = offset
    log.epochs.truncate_from_start(offset)
    log.producers.start_offset_advanced(offset)
    return True


def remove_due(disk: Disk, doomed: list[tuple[int, str]], now_ms: int) -> list[tuple[int, str]]:
    """Remove the (due ms, path) files whose time has come; returns the others."""
    for due_ms, path in doomed:
        if due_ms <= now_ms and disk.exists(path):
            disk.remove(path)
    return [one for one in doomed if one[0] > now_ms]
