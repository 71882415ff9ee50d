"""Truncates the end of a log, for a follower whose log diverges from that of its leader (KIP-101)."""

from minikafka.storage.disks.disk_errors import not_half
from minikafka.storage.logs.log_state import LogState
from minikafka.storage.logs.producer_replay import replay
from minikafka.storage.segments.segment import Segment


def truncate_to(log: LogState, offset: int) -> bool:
    """Removes all records from `offset` on, as `Log.truncate_to` says."""
    if offset < 0:
        raise ValueError(f"cannot truncate a log to offset {offset}")
    if offset >= log.end_offset:
        # A leader that appended nothing in its epoch left an entry at the log end offset.
        log.epochs.truncate_from_end(log.end_offset)
        return False
    if offset < log.segments.bases[0]:
        truncate_fully(log, offset)
        return True
    log.lower_recovery_point(offset)
    with not_half():
        keep = log.segments.floor(offset) + 1
        log.drop(log.segments.take(keep, len(log.segments)))
        active = log.segments.active
        active.truncate_to(offset)
        log.unflushed.touched[active] = None
        active.activate(now_ms=log.context.now_ms())
        log.end_offset = offset
        log.start_offset = min(log.start_offset, offset)
        log.epochs.truncate_from_end(offset)
        _rebuild_producers(log)
    return True


def _rebuild_producers(log: LogState) -> None:
    if len(log.producers) or log.snapshots.offsets:
        replay(log, log.end_offset)
    log.producers.end_offset = log.end_offset


def truncate_fully(log: LogState, offset: int) -> None:
    """Removes all records and restarts the log at `offset`, as `Log.truncate_fully_and_start_at` says.

    The recovery point stays at or below the base offset of the old segments until the next flush, since after a power
    failure the old segments may be back.
    """
    log.lower_recovery_point(min(offset, log.segments.bases[0]))
    with not_half():
        log.drop(log.segments.take(0, len(log.segments)))
        log.segments.append(Segment.create(log.disk, log.directory, offset, log.config, now_ms=log.context.now_ms()))
        log.start_offset = log.end_offset = offset
        log.epochs.clear()
        log.producers.clear(offset)
        log.snapshots.restart(offset)
