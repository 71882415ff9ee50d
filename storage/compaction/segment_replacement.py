"""Replaces segments of a log by the segment that the cleaner made of them, while readers may hold the old files.

    a.cleaned              written and flushed by the cleaner
    a.swap                 from here on the replacement is completed, also after a crash
    a.deleted, b.deleted   the old files; readers that hold them keep reading, until `file.delete.delay.ms` has passed
    a                      the new segment

After a crash between any two of these renames, `temporary_files.clean_up` makes the log consistent again. Without a
`.swap` file, or with a `.cleaned` file beside it, the old segments stay. Otherwise the new segment replaces them.

Source: Kafka's `LocalLog.replaceSegments`.
"""

from collections.abc import Sequence

from minikafka.storage.compaction.cleaned_segment import CLEANED, remove_cleaned
from minikafka.storage.disks.disk import Disk
from minikafka.storage.disks.disk_errors import as_failure
from minikafka.storage.logs.log import Log
from minikafka.storage.segments.segment import Segment
from minikafka.storage.segments.segment_names import SUFFIXES
from minikafka.storage.segments.temporary_files import SWAP


def replace_segments(log: Log, old: Sequence[Segment], truncations: int) -> bool:
    """Replaces segments by the finished `.cleaned` segment that has the base offset of the first of them.

    Readers see the new segment at once. The change is durable after the directory has been synced.

    Args:
        old: the adjacent segments, as they were when the cleaning began.
        truncations: the log's number of truncations at that time.

    Returns:
        False if the segments of the log have changed since then. The `.cleaned` files are then removed.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR: a rename failed, and the log is offline.
    """
    if log.failure is not None:
        raise log.guard.offline()
    prefix = old[0].prefix
    try:
        if log.truncations != truncations or not _are_current(log, old):
            remove_cleaned(log.disk, prefix)
            return False
        _rename_all(log.disk, prefix, CLEANED, SWAP)
        first = log.segments.bases.index(old[0].base_offset)
        new = Segment(log.disk, log.directory, old[0].base_offset, log.config, next_base=old[-1].next_base)
        taken = log.segments.take(first, first + len(old))
        log.state.drop(taken)
        _rename_all(log.disk, prefix, SWAP, "")
        log.segments.insert(first, new)
        log.state.snapshots.remove_strays(log.segments.bases)
    except OSError as error:
        raise log.fail(as_failure(error)) from error
    return True


def _are_current(log: Log, old: Sequence[Segment]) -> bool:
    known = log.segments
    if old[0].base_offset not in known.bases:
        return False
    first = known.bases.index(old[0].base_offset)
    # The last segment is active, and never cleaned.
    if first + len(old) >= len(known.bases):
        return False
    return all(known[first + index] is segment for index, segment in enumerate(old))


def _rename_all(disk: Disk, prefix: str, old_suffix: str, new_suffix: str) -> None:
    """Renames the files of a segment, the log file first: `clean_up` relies on this order."""
    for suffix in SUFFIXES:
        path = f"{prefix}{suffix}{old_suffix}"
        if disk.exists(path):
            disk.rename(path, f"{prefix}{suffix}{new_suffix}")
