"""Finds the part of a compacted log that may be cleaned, and tells whether cleaning is due.

    0 ── clean ── first dirty offset ── cleanable ── first uncleanable offset ── … active segment

A log is cleaned in whole segments. The active segment, segments beyond the last stable offset, and segments with
records younger than `min.compaction.lag.ms` are not cleaned. Only flushed segments are cleaned, so that recovery never
reads a segment that the cleaner has written. A cleaning is due if the cleanable part exceeds
`min.cleanable.dirty.ratio` of the whole, or has a record older than `max.compaction.lag.ms`.

Source: Kafka's `LogCleanerManager.cleanableOffsets`, `LogToClean`.
"""

from dataclasses import dataclass

from minikafka.storage.logs.log import Log


@dataclass(frozen=True, slots=True)
class CleanableRange:
    """The cleanable part of a log.

    Attributes:
        first_dirty_offset: the first offset that has not been cleaned yet.
        first_uncleanable_offset: the end of the cleanable part, which is the base offset of a segment.
        clean_bytes, cleanable_bytes: the sizes of the clean part and of the cleanable part.
        overdue: whether a record is older than `max.compaction.lag.ms`.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, log: Log) -> bool:
        """Whether the log should be cleaned now."""
        if not self.cleanable_bytes:
            return False
        return self.overdue or self.dirty_ratio > log.config.min_cleanable_dirty_ratio


def cleanable_range(log: Log, clean_offset: int, stable_offset: int, now_ms: int) -> CleanableRange:
    """Returns the part of a log that may be cleaned.

    Args:
        clean_offset: the offset up to which the log is clean, from the checkpoint; -1 without an entry.
        stable_offset: the last stable offset.
        now_ms: the wall clock.

    Raises:
        OSError, CorruptSegment: an index cannot be read.
    """
    valid = log.start_offset <= clean_offset <= log.end_offset
    first_dirty = clean_offset if valid else log.start_offset
    bases = log.segments.bases
    last = max(0, log.segments.floor(min(stable_offset, log.recovery_point)))
    dirty = max(0, log.segments.floor(first_dirty))
    if log.config.min_compaction_lag_ms > 0:
        too_young_ms = now_ms - log.config.min_compaction_lag_ms
        last = next((at for at in range(dirty, last) if log.segments[at].latest.timestamp > too_young_ms), last)
    last = max(dirty, last)
    sizes = [log.segments[at].size for at in range(last)]
    return CleanableRange(
        first_dirty,
        bases[last],
        sum(sizes[:dirty]),
        sum(sizes[dirty:]),
        any(_is_overdue(log, at, now_ms) for at in range(dirty, last)),
    )


def _is_overdue(log: Log, index: int, now_ms: int) -> bool:
    """Whether a segment starts with a batch older than `max.compaction.lag.ms`."""
    latest_ms = now_ms - log.config.max_compaction_lag_ms
    if latest_ms <= 0:
        return False
    first = next(log.segments[index].scan(log.segments.bases[index]), None)
    return first is not None and 0 < first.max_timestamp < latest_ms
