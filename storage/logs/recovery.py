"""Opens a log and, after an unclean shutdown, recovers it: checks and truncates the log (Kafka's `LogLoader`).

After a clean shutdown only the active segment is examined. After a crash everything beyond the recovery point is read
and its checksums are verified; indexes, leader epochs and producer state are rebuilt from the batches. What may be
truncated depends on the position of an invalid batch (Alagappan et al., FAST 2018: a torn write and corruption are
indistinguishable only at the end of the log):

- beyond the recovery point the log is truncated at the first invalid batch. If valid batches follow, it was not a torn
  write: the rest is saved in `.damaged` files and reported in `Recovery.damage`;
- below the recovery point every batch was flushed, so an invalid one is corruption: `CorruptLog` is raised and nothing
  is truncated. (To accept the loss, remove the partition's line from `recovery-point-offset-checkpoint`.)
"""

import re
from dataclasses import dataclass, field

from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, parse_header
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.disks.checkpoint_files import (
    EPOCHS,
    PARTITION_METADATA,
    BrokenCheckpoint,
    read_epochs,
    read_topic_id,
    write_topic_id,
)
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.leader_epochs import LeaderEpochs
from minikafka.storage.logs.log_context import Checkpointed, LogContext, LogOwner
from minikafka.storage.logs.log_state import LogState
from minikafka.storage.logs.producer_replay import replay, update_producer
from minikafka.storage.logs.producer_snapshots import SUFFIX as SNAPSHOT
from minikafka.storage.logs.producer_snapshots import ProducerSnapshots
from minikafka.storage.segments.batch_scan import Header, headers
from minikafka.storage.segments.segment import OFFSET_DELTA_MAX, Segment
from minikafka.storage.segments.segment_names import CorruptSegment
from minikafka.storage.segments.segments import Segments
from minikafka.storage.segments.temporary_files import clean_up

DAMAGED = ".damaged"
_SCAN_SIZE = 1 << 20
_SEARCH_SIZE = 64 << 20


class CorruptLog(Exception):
    """Flushed data of a log is corrupt. The log is not opened, and its files are unchanged."""

    def __init__(self, topic_partition: TopicPartition, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{topic_partition} is corrupt at offset {offset} ({path}): {reason}")
        self.topic_partition = topic_partition
        self.path = path
        self.offset = offset
        self.reason = reason


@dataclass(slots=True)
class Recovery:
    """The outcome of opening a log.

    Attributes:
        clean: whether no scan was necessary.
        scanned_bytes, truncated_bytes: the numbers of bytes that were scanned and truncated.
        damage: a sentence about lost data that a torn write does not explain, or an empty string.
    """

    clean: bool = True
    scanned_bytes: int = 0
    truncated_bytes: int = 0
    damage: str = ""


def load(
    context: LogContext,
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    checkpointed: Checkpointed,
    topic_id: bytes | None,
    owner: LogOwner,
) -> "Loader":
    """Opens a log, as `Log.open` says. After an error no file is left open. Raises CorruptLog, OSError."""
    disk, is_new = context.disk, False
    try:
        names = clean_up(disk, directory)
    except FileNotFoundError:
        disk.make_directory(directory)
        is_new, names = True, {}
    bases = sorted(names.get(".log", ()))
    segments = Segments(disk, directory, config, bases)
    snapshots = ProducerSnapshots(disk, directory, names.get(SNAPSHOT, []))
    log = LogState(context, topic_partition, segments, snapshots, checkpointed, owner)
    loader = Loader(log, topic_id, checkpointed.cleaner_offset, is_new)
    loaded = False
    try:
        loader.load(clean=checkpointed.clean)
        loaded = True
    except (CorruptSegment, CorruptRecords) as error:
        raise CorruptLog(topic_partition, directory, log.end_offset, str(error)) from error
    finally:
        if not loaded:
            for segment in segments.opened():
                segment.close()
    return loader


@dataclass(slots=True)
class Loader:
    """Opens one log: after `load`, `log` is its state.

    Attributes:
        topic_id: written to `partition.metadata` of a new log; for an existing log, the file takes precedence.
        cleaner_offset: the offset in the cleaner's checkpoint; None if the directory has no checkpoints.
        is_new: whether the directory was just made. Saves lookups: a cluster creates thousands of logs at once.
        created: whether the log had no segments.
    """

    log: LogState
    topic_id: bytes | None
    cleaner_offset: int | None
    is_new: bool
    created: bool = False
    report: Recovery = field(default_factory=Recovery)
    _epoch: int = field(init=False, default=-1)
    _is_compacted: bool = field(init=False, default=False)
    _has_earlier: bool = field(init=False, default=False)

    def load(self, *, clean: bool) -> None:
        log = self.log
        self._load_epochs(clean=clean)
        if not log.segments:
            self._create(log.start_offset)
        elif not (clean and self._open_clean()):
            self._recover()
        if log.end_offset < log.start_offset:
            self._discard_all()
        log.start_offset = max(log.start_offset, log.segments.bases[0])
        flushed_offset = log.end_offset if self.report.clean else log.unflushed.recovery_point
        log.unflushed.recovery_point = min(flushed_offset, log.end_offset)
        log.epochs.truncate_from_end(log.end_offset)
        log.epochs.truncate_from_start(log.start_offset)
        log.snapshots.remove_strays(log.segments.bases)
        if self.report.clean:
            replay(log, log.end_offset)
        log.snapshots.take(log.producers)
        self._load_topic_id()
        log.epochs.unsynced |= not self.report.clean

    @property
    def may_be_unsynced(self) -> bool:
        """Whether the names of the log's files, and its small files, may not have been flushed: the previous process
        was killed, or the log has no records. A clean shutdown, too, flushes these only together with records."""
        log = self.log
        return self.created or not self.report.clean or log.end_offset == log.start_offset

    def _load_topic_id(self) -> None:
        """Reads the topic id, or writes it. The next flush includes a file that may be unsynced (`may_be_unsynced`)."""
        log = self.log
        path = f"{log.directory}/{PARTITION_METADATA}"
        try:
            found = None if self.is_new else read_topic_id(log.disk, path)
        except BrokenCheckpoint:  # It was written without a flush, see below.
            found = None
        if found is None and self.topic_id is not None:
            write_topic_id(log.disk, path, self.topic_id, sync=False)
            log.unflushed.paths.append(path)
        elif self.may_be_unsynced:
            log.unflushed.paths.append(path)
        self.topic_id = found or self.topic_id

    def _load_epochs(self, *, clean: bool) -> None:
        """Reads the leader epochs. Rebuilds the epochs of records whose deletion did not survive a crash, since the log
        start offset is stored later than the epochs. Otherwise the leader could not tell a follower where these epochs
        end, and the follower would keep its records of these epochs."""
        log = self.log
        path = f"{log.directory}/{EPOCHS}"
        try:
            entries = None if self.is_new else read_epochs(log.disk, path)
            start = max([log.start_offset, *log.segments.bases[:1]])
            if not clean and entries is not None and (not entries or entries[0][1] > start):
                entries = None
            log.epochs = LeaderEpochs(log.disk, path, entries or [])
            missing = entries is None and len(log.segments) > 0
        except (BrokenCheckpoint, ValueError):
            log.epochs = LeaderEpochs(log.disk, path, [])
            missing = True
        is_flushed = missing and log.unflushed.recovery_point > log.segments.bases[0]
        if missing and (clean or is_flushed):  # Otherwise the scan finds them.
            self._rebuild_epochs()

    def _rebuild_epochs(self) -> None:
        """Rebuilds the epochs from the batches. Epochs increase with offsets, so a segment with the same first epoch as
        the next segment need not be read."""
        log = self.log
        found: list[tuple[int, int]] = []
        firsts = [self._first(index) for index in range(len(log.segments))]
        for index, first in enumerate(firsts):
            if first is None:
                continue
            follower = firsts[index + 1] if index + 1 < len(firsts) else None
            segment = log.segments[index]
            same = follower is not None and follower.leader_epoch == first.leader_epoch
            expected = segment.base_offset
            for header in [first] if same else headers(segment.log, 0, segment.log.size_bytes):
                if header.base_offset < expected:  # A torn write, beyond the recovery point.
                    break
                expected = header.last_offset + 1
                if header.leader_epoch > (found[-1][0] if found else -1):  # See `_assign_epoch` for the first one.
                    found.append((header.leader_epoch, header.base_offset if found else log.segments.bases[0]))
        log.epochs.replace(found)

    def _first(self, index: int) -> Header | None:
        segment = self.log.segments[index]
        try:
            found = next(headers(segment.log, 0, segment.log.size_bytes), None)
        except CorruptSegment:
            return None
        return found if found is not None and found.base_offset >= segment.base_offset else None

    def _assign_epoch(self, epoch: int, offset: int) -> None:
        log = self.log
        latest = log.epochs.latest
        if epoch >= 0 and (latest is None or epoch > latest):
            # Compaction may have removed records before the first batch, so its epoch starts at the base offset.
            is_first = latest is None and not self._has_earlier
            log.epochs.assign(epoch, log.segments.bases[0] if is_first else offset)

    def _create(self, base_offset: int) -> None:
        log = self.log
        now_ms = log.context.now_ms()
        log.segments.append(
            Segment.create(log.disk, log.directory, base_offset, log.config, now_ms=now_ms, in_new=self.is_new)
        )
        log.end_offset = base_offset
        self.created = True
        log.producers.clear(base_offset)
        log.snapshots.restart(base_offset)

    def _open_clean(self) -> bool:
        """Opens the active segment without a scan; returns whether it is consistent with a clean shutdown."""
        log = self.log
        active = log.segments.active
        try:
            if not self._is_consistent(active):
                return False
        except CorruptSegment:
            return False
        active.created_ms = log.context.now_ms()
        return active.latest is not None

    def _is_consistent(self, active: Segment) -> bool:
        log = self.log
        entry = active.offsets.last
        position, log.end_offset = entry.position, active.base_offset
        for header in headers(active.log, entry.position, active.log.size_bytes):
            if header.position == entry.position and entry.position and header.last_offset != entry.offset:
                return False
            if header.base_offset < log.end_offset:
                return False
            position, log.end_offset = header.position + header.size_bytes, header.last_offset + 1
        active.bytes_since_entry = position - entry.position
        return position == active.log.size_bytes and log.end_offset >= log.unflushed.recovery_point

    def _recover(self) -> None:
        log = self.log
        self.report.clean = False
        index = max(0, log.segments.floor(log.unflushed.recovery_point))
        if index and log.segments.bases[index] == log.unflushed.recovery_point:
            log.segments[index - 1].reseal(log.unflushed.recovery_point)
            log.unflushed.touched[log.segments[index - 1]] = None
        first = index
        while index < len(log.segments):
            segment = log.segments[index]
            if index > first and self._is_out_of_order(index):
                reason = f"the next segment starts at offset {segment.base_offset}, expected {log.end_offset}"
                self._end_log(index - 1, log.segments[index - 1].size_bytes, reason)
                break
            log.end_offset = segment.base_offset
            segment.open_unchecked()
            start = self._resume(segment) if index == first else self._reset(segment)
            if index == first:
                log.epochs.truncate_from_end(log.end_offset)  # The file may be newer or older than the batches.
                self._has_earlier = log.end_offset > log.segments.bases[0]
            position, reason = self._scan(segment, start)
            self.report.scanned_bytes += position - start
            if reason:
                self._end_log(index, position, reason)
                break
            self._finish(segment, last=index == len(log.segments) - 1)
            index += 1
        if log.end_offset < log.unflushed.recovery_point:
            lost = f"flushed offsets {log.end_offset} to {log.unflushed.recovery_point - 1} are missing"
            self.report.damage = self.report.damage or lost

    def _is_out_of_order(self, index: int) -> bool:
        """Whether a segment cannot follow the log end offset so far.

        Cleaners leave gaps: minikafka's below the recovery point, Kafka's also beyond it, both below the offset of the
        cleaner's checkpoint. Without checkpoints the log may be a copy of a cleaned log. A follower leaves a gap if the
        leader has a gap larger than a segment. Any other gap is data lost in a power failure: if the gap were accepted,
        the log end offset would not change, and no leader would send the lost records again.
        """
        log = self.log
        base_offset = log.segments.bases[index]
        # The configs may be older than the log: at the start of a node they are not read yet.
        may_be_cleaned = self._is_compacted or log.config.compacts or bool(self.cleaner_offset)
        if base_offset <= log.end_offset or not may_be_cleaned:
            return base_offset != log.end_offset
        first = self._first(index)
        is_large = first is not None and first.last_offset + 1 - log.end_offset > OFFSET_DELTA_MAX
        is_cleaned = self.cleaner_offset is None or base_offset <= self.cleaner_offset
        return not (is_cleaned or is_large)

    def _resume(self, segment: Segment) -> int:
        """Prepares the segment of the recovery point: returns the position to scan from, and restores the producer
        state at that position."""
        log = self.log
        start = segment.keep_flushed_entries(log.unflushed.recovery_point)
        first = next(headers(segment.log, start, segment.log.size_bytes), None) if start else None
        log.end_offset = first.base_offset if first is not None else segment.base_offset
        # Flushed entries stay: rewritten ones would be lost in the next power failure.
        segment.transactions.truncate_to(max(log.end_offset, log.unflushed.recovery_point))
        replay(log, log.end_offset)
        return start

    def _reset(self, segment: Segment) -> int:
        """Prepares a segment beyond the recovery point, whose indexes are rebuilt."""
        log = self.log
        segment.clear_indexes()
        segment.transactions.truncate_to(segment.base_offset)
        log.producers.end_offset = segment.base_offset
        log.snapshots.take(log.producers)
        return 0

    def _scan(self, segment: Segment, position: int) -> tuple[int, str]:
        """Verifies and applies the batches from `position` on. Returns the end position, and the reason if it is not
        the end of the file."""
        size = segment.log.size_bytes
        chunk, start = b"", position
        while position < size:
            at = position - start
            try:
                batch = _parse_complete(chunk, at)
                if batch is None:
                    chunk, start = self._chunk(segment, position, size), position
                    batch = parse_header(chunk)
                batch.check_crc()
                self._check(segment, batch)
            except CorruptRecords as error:
                return position, str(error)
            self._apply(segment, position, batch)
            position += len(batch.data)
        return position, ""

    def _chunk(self, segment: Segment, position: int, size: int) -> bytes:
        chunk = segment.log.pread(position, min(_SCAN_SIZE, size - position))
        length = int.from_bytes(chunk[8:12], "big", signed=True) + 12
        if len(chunk) < length <= size - position:
            chunk = segment.log.pread(position, length)
        return chunk

    def _check(self, segment: Segment, batch: Batch) -> None:
        log = self.log
        if batch.base_offset < log.end_offset or batch.last_offset_delta < 0:
            raise CorruptRecords(f"offset {batch.base_offset}, expected {log.end_offset} or higher")
        if 0 <= batch.leader_epoch < self._epoch:
            # A crash restored a batch that had been truncated, behind its replacement.
            raise CorruptRecords(f"leader epoch {batch.leader_epoch} after {self._epoch}")
        if batch.last_offset - segment.base_offset > OFFSET_DELTA_MAX or not segment.contains(batch.last_offset):
            raise CorruptRecords(f"offset {batch.last_offset} does not belong to this segment")

    def _apply(self, segment: Segment, position: int, batch: Batch) -> None:
        log = self.log
        if batch.base_offset != log.end_offset or batch.record_count <= batch.last_offset_delta:
            self._is_compacted = True
        log.end_offset = batch.next_offset
        segment.index_batches([_header_of(batch, position)])
        self._epoch = max(self._epoch, batch.leader_epoch)
        self._assign_epoch(batch.leader_epoch, batch.base_offset)
        if batch.producer_id >= 0:
            update_producer(log.producers, segment, batch)
        log.producers.end_offset = log.end_offset

    def _finish(self, segment: Segment, *, last: bool) -> None:
        segment.seal()
        if last:
            segment.activate(now_ms=self.log.context.now_ms())

    def _end_log(self, index: int, position: int, reason: str) -> None:
        """Truncates the log at a position of a segment, before an invalid batch."""
        log = self.log
        segment = log.segments[index]
        if log.end_offset < log.unflushed.recovery_point:
            raise self._corrupt(segment, log.end_offset, f"{reason} (at byte {position})")
        self.report.truncated_bytes += segment.log.size_bytes - position
        rest = log.segments.take(index + 1, len(log.segments))
        later = [one for one in rest if one.size]
        if later or valid_batch_after(segment, position, log.end_offset):
            self.report.damage = (
                f"{segment.path} is corrupt at byte {position} ({reason}), and valid batches follow; the log was"
                f" truncated to offset {log.end_offset}, the rest was saved in files named {DAMAGED}"
            )
            self._save_damaged(segment, position, later)
        for one in rest:
            one.mark_deleted()
        clean_up(log.disk, log.directory)
        segment.truncate_at(position)
        self._finish(segment, last=True)

    def _save_damaged(self, segment: Segment, position: int, later: list[Segment]) -> None:
        log = self.log
        path = f"{segment.path}{DAMAGED}"
        copy = log.disk.open(path, create=True)
        copy.truncate(0)
        for start in range(position, segment.log.size_bytes, _SCAN_SIZE):
            copy.append(segment.log.pread(start, _SCAN_SIZE))
        copy.sync()
        copy.close()
        for one in later:
            log.disk.rename(one.path, one.path + DAMAGED)

    def _corrupt(self, segment: Segment, offset: int, reason: str) -> CorruptLog:
        return CorruptLog(self.log.topic_partition, segment.path, offset, reason)

    def _discard_all(self) -> None:
        """Empties a log that ends before its log start offset, because segments were removed."""
        log = self.log
        self.report.damage = f"the log ends at offset {log.end_offset}, before its start offset {log.start_offset}"
        for segment in log.segments.take(0, len(log.segments)):
            segment.mark_deleted()
        log.unflushed.touched.clear()
        log.epochs.clear()
        self._create(log.start_offset)


def valid_batch_after(segment: Segment, position: int, next_offset: int) -> bool:
    """Whether a valid batch follows an invalid one, which excludes a torn write."""
    log = segment.log
    data = log.pread(position, min(_SEARCH_SIZE, log.size_bytes - position))
    prefix = next_offset.to_bytes(8, "big")[:5]  # Common to the next 16 million offsets.
    pattern = re.compile(re.escape(prefix) + rb".{11}\x02", re.DOTALL)
    found = pattern.search(data, 1)
    while found is not None:
        batch = _parse_complete(data, found.start())
        if batch is not None and batch.base_offset >= next_offset and is_valid(batch):
            return True
        found = pattern.search(data, found.start() + 1)
    return False


def is_valid(batch: Batch) -> bool:
    """Whether the checksum of a complete batch is correct."""
    try:
        batch.check_crc()
    except CorruptRecords:
        return False
    return True


def _parse_complete(data: bytes, at: int) -> Batch | None:
    """Returns the batch at `at` if `data` contains all of it."""
    try:
        return parse_header(data, at)
    except CorruptRecords:
        return None


def _header_of(batch: Batch, position: int) -> Header:
    return Header(
        position, len(batch.data), batch.base_offset, batch.last_offset, batch.leader_epoch,
        batch.attributes, batch.max_timestamp, batch.producer_id, batch.producer_epoch, batch.base_sequence,
    )  # fmt: skip
