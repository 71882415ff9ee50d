"""`Segments`: the ordered list of a log's segments, opened on first access; decides when the next one begins."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from minikafka.storage.disks.disk import Disk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.segments.segment import OFFSET_DELTA_MAX, Segment


class Segments:
    """The segments of one log, in the order of their base offsets.

    Args:
        bases: the base offsets of the segments, ascending; may be empty until `append`.
    """

    def __init__(self, disk: Disk, directory: str, config: LogConfig, bases: list[int]) -> None:
        self._disk = disk
        self._known: dict[int, Segment] = {}
        self._latest: list[int] = []  # The latest timestamp up to each of the first segments, filled on demand.
        self.directory = directory
        self.config = config
        self.bases = bases
        self._sealed_bytes: int | None = None  # The size of all segments but the last, filled on demand.

    def __len__(self) -> int:
        return len(self.bases)

    def __getitem__(self, index: int) -> Segment:
        """Returns the segment at `index` (negative: from the end)."""
        base = self.bases[index]
        found = self._known.get(base)
        if found is None:
            follower = index + 1 if index >= 0 else len(self.bases) + index + 1
            next_base = self.bases[follower] if follower < len(self.bases) else -1
            found = Segment(self._disk, self.directory, base, self.config, next_base=next_base)
            self._known[base] = found
        return found

    @property
    def active(self) -> Segment:
        """The last segment, to which records are appended."""
        return self[-1]

    @property
    def size_bytes(self) -> int:
        """The size of all batches. The first call reads the file sizes of the sealed segments."""
        if self._sealed_bytes is None:
            self._sealed_bytes = sum(self[index].size for index in range(len(self.bases) - 1))
        return self._sealed_bytes + self.active.size_bytes

    def floor(self, offset: int) -> int:
        """Returns the index of the last segment with a base offset up to `offset`; -1 if there is none."""
        return bisect_right(self.bases, offset) - 1

    def first_since(self, timestamp: int, index: int) -> int:
        """Returns the index of the first segment from `index` on with a record at or after `timestamp` (ms).

        Returns `len(self)` if there is none. Raises OSError.
        """
        latest = self._latest[-1] if self._latest else -1
        while latest < timestamp and len(self._latest) < len(self.bases) - 1:
            latest = max(latest, self[len(self._latest)].latest.timestamp)
            self._latest.append(latest)
        # Segments before this index have only earlier records.
        index = max(index, bisect_left(self._latest, timestamp))
        while index < len(self.bases) and self[index].latest.timestamp < timestamp:
            index += 1
        return index

    def append(self, segment: Segment) -> None:
        assert not self.bases or self.bases[-1] < segment.base_offset, "base offsets must ascend"
        if self.bases:
            self.active.next_base = segment.base_offset
            if self._sealed_bytes is not None:
                self._sealed_bytes += self.active.size_bytes
        self.bases.append(segment.base_offset)
        self._known[segment.base_offset] = segment

    def take(self, first: int, last: int) -> list[Segment]:
        """Removes and returns the segments first..last-1."""
        taken = [self[index] for index in range(first, last)]
        if last == len(self.bases):
            self._sealed_bytes = None
        elif self._sealed_bytes is not None:
            self._sealed_bytes -= sum(segment.size for segment in taken)
        for segment in taken:
            del self._known[segment.base_offset]
        del self.bases[first:last]
        self._latest.clear()
        if self.bases and last > len(self.bases):
            self.active.next_base = -1
        return taken

    def insert(self, index: int, segment: Segment) -> None:
        """Inserts a segment at `index`, in the place of segments that `take` has removed."""
        self.bases.insert(index, segment.base_offset)
        self._known[segment.base_offset] = segment
        self._latest.clear()
        self._sealed_bytes = None

    def opened(self) -> list[Segment]:
        """Returns the segments that have been accessed so far."""
        return list(self._known.values())

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        for segment in self._known.values():
            segment.config = config

    def move(self, directory: str) -> None:
        """Sets the new path of the log's directory, which was renamed."""
        self.directory = directory
        for segment in self._known.values():
            segment.move(directory)


def should_roll(
    active: Segment, config: LogConfig, size_bytes: int, max_timestamp: int, last_offset: int, now_ms: Callable[[], int]
) -> bool:
    """Whether an append needs a new segment (Kafka's `LogSegment.shouldRoll`).

    Args:
        size_bytes, max_timestamp, last_offset: the size, the largest timestamp (ms) and the last offset of the append.
        now_ms: the wall clock.
    """
    used, first_ms = active.size_bytes, active.first_timestamp
    segment_ms = config.segment_ms if config.max_compaction_lag_ms >= config.segment_ms else config.segment_ms_max
    segment_ms -= active.jitter_ms
    if last_offset - active.base_offset > OFFSET_DELTA_MAX:
        return True
    if not used:
        return False
    if used > config.segment_bytes - size_bytes or active.is_full:
        return True
    if first_ms is not None and first_ms >= 0:
        return max_timestamp - first_ms > segment_ms
    return active.age_ms(max_timestamp, now_ms) > segment_ms
