"""Opening a log: trust what was closed well, scan what a crash may have touched.

After a clean shutdown only the active segment is looked at. After a crash everything past the recovery point is
read again, batch by batch with its checksum; indexes, leader epochs and producers are rebuilt from the batches
(Kafka's `LogLoader`). What a scan may cut off depends on where it is (Alagappan et al., FAST 2018: a torn write
and corruption look alike only at the end):

- past the recovery point the log ends before the first bad batch. If valid batches follow, that is more than a
  torn write: the bytes are set aside as `.damaged` and `Recovery.damage` says so;
- below the recovery point every batch was synced, so a bad one is corruption: `CorruptLog`, nothing is cut. (To
  accept the loss, take the partition's line out of `recovery-point-offset-checkpoint`.)
"""

import re
from dataclasses import dataclass, field

from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, parse_header
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.batch_scan import Header, headers
from minikafka.storage.checkpoint_files import (
    EPOCHS,
    PARTITION_METADATA,
    BrokenCheckpoint,
    read_epochs,
    read_topic_id,
    write_topic_id,
)
from minikafka.storage.crash_leftovers import tidy
from minikafka.storage.disk import Disk
from minikafka.storage.leader_epochs import LeaderEpochs
from minikafka.storage.log_config import LogConfig
from minikafka.storage.producer_snapshots import SUFFIX as SNAPSHOT
from minikafka.storage.producer_snapshots import ProducerSnapshots
from minikafka.storage.producer_state import ProducerStates
from minikafka.storage.segment import OFFSET_DELTA_MAX, MisplacedBatches, Segment
from minikafka.storage.segments import Segments
from minikafka.storage.transaction_index import AbortedTransaction

DAMAGED = ".damaged"
_SCAN_SIZE = 1 << 20
_SEARCH_SIZE = 64 << 20


class CorruptLog(Exception):
    """Synced data of a log is damaged; it is not opened, and its files are as they were found."""

    def __init__(self, topic_partition: TopicPartition, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{topic_partition} is corrupt at offset {offset} ({path}): {reason}")
        self.topic_partition = topic_partition
        self.path = path
        self.offset = offset
        self.reason = reason


@dataclass(slots=True)
class Recovery:
    """What opening a log took and found.

    Attributes:
        clean: nothing had to be scanned.
        scanned_bytes, cut_bytes: read again; cut off as torn.
        damage: one sentence where data is gone that a torn write does not explain, else empty.
    """

    clean: bool = True
    scanned_bytes: int = 0
    cut_bytes: int = 0
    damage: str = ""


@dataclass(slots=True)
class Loader:
    """Opens one log. After `load` the attributes are the log's state.

    Attributes:
        recovery_point: all before it was synced.
        start_offset: of the log, from its checkpoint.
        topic_id: written down for a new log; of an old one the file's counts.
        unsynced_paths: small files that the next flush must sync.
    """

    disk: Disk
    directory: str
    topic_partition: TopicPartition
    config: LogConfig
    now_ms: int
    recovery_point: int
    start_offset: int
    producers: ProducerStates
    topic_id: bytes | None
    end_offset: int = 0
    created: bool = False
    is_new: bool = False  # Nothing needs to be looked for: a cluster makes thousands of logs at once.
    unsynced_paths: list[str] = field(default_factory=list[str])
    report: Recovery = field(default_factory=Recovery)
    segments: Segments = field(init=False)
    epochs: LeaderEpochs = field(init=False)
    snapshots: ProducerSnapshots = field(init=False)
    _epoch: int = field(init=False, default=-1)

    def load(self, *, clean: bool) -> None:
        """Raises CorruptLog and OSError, and then has no file open."""
        self._look()
        loaded = False
        try:
            self._load(clean=clean)
            loaded = True
        except (MisplacedBatches, CorruptRecords) as error:
            raise CorruptLog(self.topic_partition, self.directory, self.end_offset, str(error)) from error
        finally:
            if not loaded:
                for segment in self.segments.opened():
                    segment.close()

    def _look(self) -> None:
        """At the names in the directory, or make it."""
        try:
            names = tidy(self.disk, self.directory)
        except FileNotFoundError:
            self.disk.make_directory(self.directory)
            self.is_new, names = True, {}
        bases = sorted(int(text) for text in names.get(".log", ()) if text.isdigit())
        self.segments = Segments(self.disk, self.directory, self.config, bases)
        self.snapshots = ProducerSnapshots(self.disk, self.directory, names.get(SNAPSHOT, []))

    def _load(self, *, clean: bool) -> None:
        self._load_epochs()
        if not self.segments:
            self._create(self.start_offset)
        elif not (clean and self._open_clean()):
            self._recover()
        if self.end_offset < self.start_offset:
            self._discard_all()
        self.start_offset = max(self.start_offset, self.segments.bases[0])
        self.recovery_point = self.end_offset if self.report.clean else min(self.recovery_point, self.end_offset)
        self.epochs.truncate_from_end(self.end_offset)
        self.epochs.truncate_from_start(self.start_offset)
        self.snapshots.remove_strays(self.segments.bases)
        if self.report.clean:
            replay(self, self.end_offset)
        self.snapshots.take(self.producers)
        self._load_topic_id()

    def _load_topic_id(self) -> None:
        path = f"{self.directory}/{PARTITION_METADATA}"
        try:
            found = None if self.is_new else read_topic_id(self.disk, path)
        except BrokenCheckpoint:  # It was written without a sync, see below.
            found = None
        if found is None and self.topic_id is not None:
            write_topic_id(self.disk, path, self.topic_id, sync=False)
            self.unsynced_paths.append(path)
        self.topic_id = found or self.topic_id

    def _load_epochs(self) -> None:
        path = f"{self.directory}/{EPOCHS}"
        try:
            entries = None if self.is_new else read_epochs(self.disk, path)
            self.epochs = LeaderEpochs(self.disk, path, entries or [])
            missing = entries is None and len(self.segments) > 0
        except (BrokenCheckpoint, ValueError):
            self.epochs = LeaderEpochs(self.disk, path, [])
            missing = True
        if missing:
            self._rebuild_epochs()

    def _rebuild_epochs(self) -> None:
        """Find the epochs in the batches. They grow with the offsets, so a segment that begins in the epoch in
        which the next one begins need not be read."""
        firsts = [self._first(index) for index in range(len(self.segments))]
        for index, first in enumerate(firsts):
            if first is None:
                continue
            follower = firsts[index + 1] if index + 1 < len(firsts) else None
            segment = self.segments[index]
            same = follower is not None and follower.leader_epoch == first.leader_epoch
            for header in [first] if same else headers(segment.log, 0, segment.log.size_bytes):
                self._assign_epoch(header.leader_epoch, header.base_offset)

    def _first(self, index: int) -> Header | None:
        segment = self.segments[index]
        try:
            return next(headers(segment.log, 0, segment.log.size_bytes), None)
        except MisplacedBatches:
            return None

    def _assign_epoch(self, epoch: int, offset: int) -> None:
        latest = self.epochs.latest
        if epoch >= 0 and (latest is None or epoch > latest):
            # Nothing before the first batch is left (compaction took it), so its epoch may begin earlier.
            self.epochs.assign(epoch, offset if latest is not None else self.segments.bases[0])

    def _create(self, base_offset: int) -> None:
        self.segments.append(
            Segment.create(
                self.disk, self.directory, base_offset, self.config, now_ms=self.now_ms, in_new=self.is_new
            )
        )
        self.end_offset = base_offset
        self.created = True
        self.producers.clear(base_offset)
        self.snapshots.restart(base_offset)

    def _open_clean(self) -> bool:
        """Take the active segment as it was closed; whether it was closed well."""
        active = self.segments[-1]
        try:
            if not self._closed_well(active):
                return False
        except MisplacedBatches:
            return False
        active.created_ms = self.now_ms
        return active.latest is not None

    def _closed_well(self, active: Segment) -> bool:
        entry = active.offsets.last
        position, self.end_offset = entry.position, active.base_offset
        for header in headers(active.log, entry.position, active.log.size_bytes):
            if header.position == entry.position and entry.position and header.last_offset != entry.offset:
                return False
            if header.base_offset < self.end_offset:
                return False
            position, self.end_offset = header.position + header.size_bytes, header.last_offset + 1
        active.bytes_since_entry = position - entry.position
        return position == active.log.size_bytes and self.end_offset >= self.recovery_point

    def _recover(self) -> None:
        self.report.clean = False
        index = max(0, self.segments.floor(self.recovery_point))
        if index and self.segments.bases[index] == self.recovery_point:
            self.segments[index - 1].reseal(self.recovery_point)
        first = index
        while index < len(self.segments):
            segment = self.segments[index]
            if index > first and self._misfits(segment.base_offset):
                reason = f"the next segment begins at {segment.base_offset}, not at {self.end_offset}"
                self._end_log(index - 1, self.segments[index - 1].size_bytes, reason)
                break
            self.end_offset = segment.base_offset
            segment.open_unchecked()
            start = self._trusted(segment) if index == first else self._distrust(segment)
            position, reason = self._scan(segment, start)
            self.report.scanned_bytes += position - start
            if reason:
                self._end_log(index, position, reason)
                break
            self._finish(segment, last=index == len(self.segments) - 1)
            index += 1
        if self.end_offset < self.recovery_point:
            gone = f"offsets {self.end_offset} to {self.recovery_point - 1} are gone, which had been synced"
            self.report.damage = self.report.damage or gone

    def _misfits(self, base_offset: int) -> bool:
        """Whether a segment cannot follow at the log's end so far. Only the cleaner leaves gaps."""
        return base_offset < self.end_offset or (
            base_offset > self.end_offset and "compact" not in self.config.cleanup_policy
        )

    def _trusted(self, segment: Segment) -> int:
        """Begin with the segment that holds the recovery point: where to scan from, with the producers as
        they were there."""
        start = segment.trust_indexes(self.recovery_point)
        first = next(headers(segment.log, start, segment.log.size_bytes), None) if start else None
        self.end_offset = first.base_offset if first is not None else segment.base_offset
        segment.transactions.truncate_to(self.end_offset)
        replay(self, self.end_offset)
        return start

    def _distrust(self, segment: Segment) -> int:
        segment.clear_indexes()
        segment.transactions.truncate_to(segment.base_offset)
        self.producers.end_offset = segment.base_offset
        self.snapshots.take(self.producers)
        return 0

    def _scan(self, segment: Segment, position: int) -> tuple[int, str]:
        """Check and take in the batches from `position` on; returns where that ended, and why if not at the
        end of the file."""
        size = segment.log.size_bytes
        chunk, start = b"", position
        while position < size:
            at = position - start
            try:
                batch = _whole(chunk, at)
                if batch is None:
                    chunk, start = self._chunk(segment, position, size), position
                    batch = parse_header(chunk)
                batch.check_crc()
                self._check(segment, batch)
            except CorruptRecords as error:
                return position, str(error)
            self._take_in(segment, position, batch)
            position += len(batch.data)
        return position, ""

    def _chunk(self, segment: Segment, position: int, size: int) -> bytes:
        chunk = segment.log.pread(position, min(_SCAN_SIZE, size - position))
        length = int.from_bytes(chunk[8:12], "big", signed=True) + 12
        if len(chunk) < length <= size - position:
            chunk = segment.log.pread(position, length)
        return chunk

    def _check(self, segment: Segment, batch: Batch) -> None:
        if batch.base_offset < self.end_offset or batch.last_offset_delta < 0:
            raise CorruptRecords(f"offset {batch.base_offset} where {self.end_offset} was to come next")
        if 0 <= batch.leader_epoch < self._epoch:
            # What a truncation cut off and a crash brought back, behind what was written in its place.
            raise CorruptRecords(f"leader epoch {batch.leader_epoch} behind {self._epoch}")
        if batch.last_offset - segment.base_offset > OFFSET_DELTA_MAX or not segment.holds(batch.last_offset):
            raise CorruptRecords(f"offset {batch.last_offset} is not one of this segment")

    def _take_in(self, segment: Segment, position: int, batch: Batch) -> None:
        self.end_offset = batch.next_offset
        segment.enter([_header_of(batch, position)])
        self._epoch = max(self._epoch, batch.leader_epoch)
        self._assign_epoch(batch.leader_epoch, batch.base_offset)
        if batch.producer_id >= 0:
            take_in_producer(self.producers, segment, batch)
        self.producers.end_offset = self.end_offset

    def _finish(self, segment: Segment, *, last: bool) -> None:
        segment.seal()
        if last:
            segment.activate(now_ms=self.now_ms)

    def _end_log(self, index: int, position: int, reason: str) -> None:
        """Let the log end at a position of a segment, before a bad batch."""
        segment = self.segments[index]
        if self.end_offset < self.recovery_point:
            raise self._corrupt(segment, self.end_offset, f"{reason} (at byte {position})")
        self.report.cut_bytes += segment.log.size_bytes - position
        rest = self.segments.take(index + 1, len(self.segments))
        later = [one for one in rest if one.size]
        if later or valid_batch_after(segment, position, self.end_offset):
            self.report.damage = (
                f"{segment.path} is bad at byte {position} ({reason}), with valid batches behind; the log now"
                f" ends at offset {self.end_offset}, the rest is kept in files named {DAMAGED}"
            )
            self._set_aside(segment, position, later)
        for one in rest:
            one.mark_deleted()
        tidy(self.disk, self.directory)
        segment.cut(position)
        self._finish(segment, last=True)

    def _set_aside(self, segment: Segment, position: int, later: list[Segment]) -> None:
        path = f"{segment.path}{DAMAGED}"
        copy = self.disk.open(path, create=True)
        copy.truncate(0)
        for start in range(position, segment.log.size_bytes, _SCAN_SIZE):
            copy.append(segment.log.pread(start, _SCAN_SIZE))
        copy.sync()
        copy.close()
        for one in later:
            self.disk.rename(one.path, one.path + DAMAGED)

    def _corrupt(self, segment: Segment, offset: int, reason: str) -> CorruptLog:
        return CorruptLog(self.topic_partition, segment.path, offset, reason)

    def _discard_all(self) -> None:
        """The log start is beyond the log's end (segments were taken away): begin anew at the start."""
        self.report.damage = f"the log ends at {self.end_offset}, before its start {self.start_offset}"
        for segment in self.segments.take(0, len(self.segments)):
            segment.mark_deleted()
        self.epochs.clear()
        self._create(self.start_offset)


def replay(log: Loader, end_offset: int) -> None:
    """Bring the producers to their state before `end_offset`: the newest snapshot, then the headers since."""
    first = max(log.start_offset, log.segments.bases[0])
    log.snapshots.load(log.producers, start_offset=first, end_offset=end_offset, now_ms=log.now_ms)
    replay_headers(log.producers, log.segments, end_offset)


def replay_headers(producers: ProducerStates, segments: Segments, end_offset: int) -> None:
    """Take in the batches from the producers' end up to `end_offset`, by their headers."""
    for index in range(max(0, segments.floor(producers.end_offset)), len(segments)):
        segment = segments[index]
        if segment.base_offset >= end_offset or producers.end_offset >= end_offset:
            break
        for header in segment.scan(producers.end_offset):
            if header.base_offset >= end_offset:
                break
            if header.producer_id >= 0:
                batch = segment.batch(header) if header.attributes & 0x20 else header
                completed = producers.apply(batch)
                if completed is not None:
                    producers.complete(completed)
    producers.end_offset = end_offset


def take_in_producer(producers: ProducerStates, segment: Segment, batch: Batch) -> None:
    """Take in a batch with a producer id that lies in `segment`, and index the transaction it aborts."""
    completed = producers.apply(batch)
    if completed is not None:
        if completed.aborted:
            stable = producers.last_stable_offset(completed)
            segment.transactions.append(
                AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, stable
                )
            )
        producers.complete(completed)


def valid_batch_after(segment: Segment, position: int, next_offset: int) -> bool:
    """Whether somewhere behind a bad batch a good one lies: then it was no torn write."""
    log = segment.log
    data = log.pread(position, min(_SEARCH_SIZE, log.size_bytes - position))
    prefix = next_offset.to_bytes(8, "big")[:5]  # The next 16 million offsets begin like this.
    pattern = re.compile(re.escape(prefix) + rb".{11}\x02", re.DOTALL)
    found = pattern.search(data, 1)
    while found is not None:
        batch = _whole(data, found.start())
        if batch is not None and batch.base_offset >= next_offset and _is_valid(batch):
            return True
        found = pattern.search(data, found.start() + 1)
    return False


def _is_valid(batch: Batch) -> bool:
    try:
        batch.check_crc()
    except CorruptRecords:
        return False
    return True


def _whole(data: bytes, at: int) -> Batch | None:
    """The batch at `at` if all of it is in `data`."""
    try:
        return parse_header(data, at)
    except CorruptRecords:
        return None


def _header_of(batch: Batch, position: int) -> Header:
    return Header(
        position, len(batch.data), batch.base_offset, batch.last_offset, batch.leader_epoch,
        batch.attributes, batch.max_timestamp, batch.producer_id, batch.producer_epoch, batch.base_sequence,
    )  # fmt: skip
