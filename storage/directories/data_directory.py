"""One data directory (an entry of `log.dirs`): its identity, clean-shutdown file and checkpoints.

meta.properties                       node.id, cluster.id, directory.id: checked at startup
.kafka_cleanshutdown                  written last at shutdown, deleted first at startup
recovery-point-offset-checkpoint      the offsets up to which logs have been flushed
replication-offset-checkpoint         high watermarks
log-start-offset-checkpoint           log start offsets advanced by DeleteRecords
cleaner-offset-checkpoint             the offsets up to which compacted logs are clean
topic-partition/                      a log
topic-partition.<hex>-delete/         a deleted log, removed after file.delete.delay.ms
topic-partition.<hex>-future/         a copy of a log in another data directory, see `future_logs.py`
topic-partition.<hex>-stray/          a log that belongs to no partition of this node; never removed
"""

import posixpath
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random

from minikafka.protocol.names import TopicPartition, uuid_from_text, uuid_text
from minikafka.storage.directories.directory_ids import UNASSIGNED, is_reserved, new_directory_id
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint
from minikafka.storage.disks.directory_room import Room
from minikafka.storage.disks.disk import Disk
from minikafka.storage.disks.disk_errors import not_half
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import Checkpointed
from minikafka.storage.steps import Steps, at_once, in_steps

Offsets = dict[TopicPartition, int]
Prepared = Steps[Callable[[], None]]
"""Prepares a checkpoint in steps, and returns a function that writes the checkpoint. The yielded calls do nothing."""
LOGS_AT_ONCE = 1000


class WrongDirectory(ValueError):
    """The directory belongs to another node or another cluster."""


class DuplicateLog(WrongDirectory):
    """Two directories have a log of the same partition and topic, and it is unknown which log is current."""


def make_durable_directory(disk: Disk, path: str) -> None:
    """Creates a directory and its parents unless they exist; the new names survive a power failure. Raises OSError."""
    missing: list[str] = []
    at = path
    while at and not disk.exists(at):
        missing.append(at)
        at = posixpath.dirname(at)
    disk.make_directory(path)
    for made in missing:
        disk.sync_directory(posixpath.dirname(made) or ".")


class DataDirectory:
    """One data directory. Methods may raise OSError, after which the directory must go offline.

    Attributes:
        logs: the open logs in this directory, by partition.
        futures: the open future logs in this directory, by partition.
        corrupt: the partitions with corrupt logs, which are not opened.
        unopened: the partitions with a log or future log that the start has found, and that is not open. The log is
            corrupt, cannot be opened now, or the metadata has to decide about it. Its checkpointed offsets are kept,
            and a shutdown does not count as clean: the next start must not trust or truncate a log that was never
            checked.
        clean: whether the last shutdown was clean.
        failure: the error that took the directory offline, or None.
        directory_id: the id in `meta.properties`; "" before `open`.
        was_blank: whether `open` has found no `meta.properties`.
        room: tells whether the disk is full.
        cordoned: whether no new logs are to be created in the directory (KIP-1066).
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, Log] = {}
        self.corrupt: set[TopicPartition] = set()
        self.unopened: set[TopicPartition] = set()
        self.clean = False
        self.broker_epoch = -1
        self.failure: Exception | None = None
        self.room = Room(path)
        self.cordoned = False
        self.directory_id = ""
        self.was_blank = False
        self.recovery_points: Offsets = {}
        self.start_offsets: Offsets = {}
        self.high_watermarks: Offsets = {}
        self.cleaner_offsets: Offsets = {}
        self._disk = disk
        self._written: dict[str, Offsets] = {}
        self._prepared: dict[str, Offsets] = {}
        self._number = 0
        self._collections: list[set[TopicPartition]] = []
        """For each checkpoint in preparation, the logs that were forgotten since the preparation began."""
        self._newest: dict[str, int] = {}
        self._one_writer = disk.mutex()

    def open(self, node_id: int | None, cluster_id: str | None, *, random: Random) -> None:
        """Locks the directory and checks or writes `meta.properties`.

        Raises WrongDirectory; BrokenCheckpoint for an invalid `meta.properties`; BlockingIOError if the directory is in
        use.
        """
        make_durable_directory(self._disk, self.path)
        self._disk.lock(f"{self.path}/.lock")
        found = checkpoint_files.read_properties(self._disk, self._at(checkpoint_files.META_PROPERTIES))
        self.was_blank = found is None
        found = found or {}
        self._compare("node.id", found, None if node_id is None else str(node_id))
        self._compare("cluster.id", found, cluster_id)
        self.directory_id = self._valid_id(found.get("directory.id")) or uuid_text(new_directory_id(random))
        if found.get("directory.id") != self.directory_id and node_id is not None and cluster_id is not None:
            named = {"directory.id": self.directory_id, "version": "1", "cluster.id": cluster_id}
            complete = {**found, "node.id": str(node_id), **named}
            checkpoint_files.write_properties(self._disk, self._at(checkpoint_files.META_PROPERTIES), complete)

    def sizes(self) -> tuple[int, int] | None:
        """The total bytes and the free bytes of the disk; None if the directory is offline or its disk cannot be read.

        After a write to a full disk was refused, 0 bytes are free until a file can be written again, whatever the file
        system says.
        """
        if self.failure is None:
            with suppress(OSError):  # it fails from now on, and goes offline when it is used next
                total_bytes, free_bytes = self._disk.total_bytes(self.path), self._disk.free_bytes(self.path)
                return total_bytes, 0 if self.room.is_full else free_bytes
        return None

    @property
    def id(self) -> bytes:
        """`directory_id` as 16 bytes; `UNASSIGNED` before `open`."""
        return uuid_from_text(self.directory_id) if self.directory_id else UNASSIGNED

    def _valid_id(self, text: str | None) -> str | None:
        """Checks a directory id; None for a missing id, as in directories from before KIP-858.

        Raises BrokenCheckpoint.
        """
        if text is None:
            return None
        try:
            reserved = is_reserved(uuid_from_text(text))
        except ValueError:
            reserved = True
        if reserved:
            raise BrokenCheckpoint(f"{self._at(checkpoint_files.META_PROPERTIES)} has an invalid directory.id: {text}")
        return text

    def _compare(self, name: str, found: Mapping[str, str], expected: str | None) -> None:
        if expected is not None and found.get(name, expected) != expected:
            raise WrongDirectory(f"{self.path} belongs to {name} {found[name]}, not {expected}")

    def take_marker(self) -> None:
        """Reads and deletes the clean-shutdown file, before any log is opened."""
        path = self._at(checkpoint_files.CLEAN_SHUTDOWN)
        with not_half():
            epoch = checkpoint_files.read_clean_shutdown(self._disk, path)
            self.clean = epoch is not None
            if epoch is not None:
                self.broker_epoch = epoch
                self._disk.remove(path)
                self._disk.sync_directory(self.path)

    def write_marker(self, broker_epoch: int) -> None:
        """Writes the clean-shutdown file: the last step of a clean shutdown."""
        checkpoint_files.write_clean_shutdown(self._disk, self._at(checkpoint_files.CLEAN_SHUTDOWN), broker_epoch)

    def read_checkpoints(self) -> list[str]:
        """Reads the checkpoints, and returns messages about invalid ones, which safely count as empty."""
        warnings: list[str] = []
        for name, offsets in (
            (checkpoint_files.RECOVERY_POINTS, self.recovery_points),
            (checkpoint_files.LOG_START_OFFSETS, self.start_offsets),
            (checkpoint_files.HIGH_WATERMARKS, self.high_watermarks),
            (checkpoint_files.CLEANER_OFFSETS, self.cleaner_offsets),
        ):
            try:
                offsets.update(checkpoint_files.read_offsets(self._disk, self._at(name)))
                self._written[name] = dict(offsets)
            except BrokenCheckpoint as error:
                warnings.append(str(error))
        return warnings

    def forget(self, key: TopicPartition) -> None:
        """Removes the checkpointed offsets of an earlier log with the same name."""
        for offsets in (self.recovery_points, self.start_offsets, self.high_watermarks, self.cleaner_offsets):
            offsets.pop(key, None)
        for forgotten in self._collections:
            forgotten.add(key)
        for name, write in (
            (checkpoint_files.CLEANER_OFFSETS, self.write_cleaner_offsets),
            (checkpoint_files.RECOVERY_POINTS, self.write_recovery_points),
            (checkpoint_files.LOG_START_OFFSETS, self.write_start_offsets),
        ):
            if key in self._written.get(name, ()) or key in self._prepared.get(name, ()):
                write()

    def checkpointed(self, key: TopicPartition) -> Checkpointed:
        """What the directory knows about a log that is not open yet."""
        recovery_point, start_offset = self.recovery_points.get(key, 0), self.start_offsets.get(key, 0)
        cleaner_offset = self.cleaner_offsets.get(key, 0 if self.recovery_points else None)
        return Checkpointed(self.clean, recovery_point, start_offset, cleaner_offset)

    def truncated(self, key: TopicPartition, recovery_point: int) -> None:
        """Called before a log is truncated to its recovery point, which has been lowered.

        Writes the recovery points, and lowers the cleaner offset: records that are appended later are not clean.
        """
        self.write_recovery_points()
        self.lower_cleaner_offset(key, recovery_point)

    def lower_cleaner_offset(self, key: TopicPartition, offset: int) -> None:
        """Writes the cleaner offset of a log if it is beyond `offset`."""
        if self.cleaner_offsets.get(key, 0) > offset:
            self.set_cleaner_offset(key, offset)

    def set_cleaner_offset(self, key: TopicPartition, offset: int) -> None:
        """Writes the offset up to which a log is clean."""
        at_once(self.prepare_cleaner_offset(key, offset))()

    def prepare_cleaner_offset(self, key: TopicPartition, offset: int) -> Prepared:
        """As `set_cleaner_offset`, but the returned function writes the checkpoint. For a worker thread."""
        self.cleaner_offsets[key] = offset
        return self._prepare_cleaner_offsets()

    def write_cleaner_offsets(self) -> None:
        at_once(self._prepare_cleaner_offsets())()

    def _prepare_cleaner_offsets(self) -> Prepared:
        kept = self.cleaner_offsets
        return self._prepare(checkpoint_files.CLEANER_OFFSETS, kept, self._open(), lambda key, _: kept.get(key))

    def write_recovery_points(self) -> None:
        """Writes the recovery point of each log, except of logs that have lost their topic id."""
        at_once(self.prepare_recovery_points())()

    def prepare_recovery_points(self) -> Prepared:
        """As `write_recovery_points`, but the returned function writes the checkpoint. For a worker thread."""
        return self._prepare(checkpoint_files.RECOVERY_POINTS, self.recovery_points, self._open(), _recovery_point)

    def write_start_offsets(self) -> None:
        """Writes the log start offsets that differ from the base offset of the first segment."""
        at_once(self.prepare_start_offsets())()

    def prepare_start_offsets(self) -> Prepared:
        """As `write_start_offsets`, but the returned function writes the checkpoint. For a worker thread."""
        return self._prepare(checkpoint_files.LOG_START_OFFSETS, self.start_offsets, self._open(), _moved_start)

    def prepare_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> Prepared:
        """Returns a function that writes the high watermarks, for a worker thread.

        Logs without an entry in `high_watermarks`, whose partitions are not served yet, keep their earlier value.
        """
        kept = self.high_watermarks

        def known(key: TopicPartition, _: Log) -> int | None:
            if key in high_watermarks:
                kept[key] = high_watermarks[key]
            return kept.get(key)

        return self._prepare(checkpoint_files.HIGH_WATERMARKS, kept, self.logs, known)

    def _open(self) -> dict[TopicPartition, Log]:
        return {**self.futures, **self.logs} if self.futures else self.logs

    def _prepare(
        self,
        name: str,
        kept: Offsets,
        logs: Mapping[TopicPartition, Log],
        offset_of: Callable[[TopicPartition, Log], int | None],
    ) -> Prepared:
        """Collects the offsets of the open logs, in steps, and returns a function that writes them.

        The earlier offsets of existing logs that are not open (corrupt logs) are kept. Logs that are closed or
        forgotten during the steps are left out. A checkpoint whose preparation begins later counts as newer, even if
        that preparation ends earlier.
        """
        self._number += 1
        number, offsets, forgotten = self._number, Offsets(), set[TopicPartition]()
        self._collections.append(forgotten)
        try:
            for count, (key, offset) in enumerate([*kept.items()], 1):
                is_open = key in self.logs or key in self.futures
                if not is_open and (key in self.unopened or self._disk.exists(f"{self.path}/{key}")):
                    offsets[key] = offset
                if count % LOGS_AT_ONCE == 0:
                    yield nothing_to_write
            for count, (key, log) in enumerate([*logs.items()], 1):
                is_open = self.logs.get(key) is log or self.futures.get(key) is log
                found = offset_of(key, log) if is_open else None
                if found is not None:
                    offsets[key] = found
                if count % LOGS_AT_ONCE == 0:
                    yield nothing_to_write
        finally:
            self._collections.remove(forgotten)
        for key in forgotten:
            offsets.pop(key, None)
        if self._prepared.get(name) == offsets == self._written.get(name):
            return nothing_to_write
        self._prepared[name] = offsets
        return partial(self._write, name, number, offsets)

    def _write(self, name: str, number: int, offsets: Offsets) -> None:
        """Writes a checkpoint, unless a newer one has been written. So the newest content stays, whatever the order of
        the threads."""
        with self._one_writer:
            if number < self._newest.get(name, 0):
                return
            if self._written.get(name) != offsets:
                checkpoint_files.write_offsets(self._disk, self._at(name), offsets)
                self._written[name] = offsets
            self._newest[name] = number

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}"


async def write_prepared(disk: Disk, preparing: Prepared) -> None:
    """Prepares a checkpoint, and writes the checkpoint in a worker thread."""
    await disk.run(await in_steps(preparing, disk))


def nothing_to_write() -> None:
    """Does nothing. The `prepare_…` methods return it if the checkpoint has not changed since it was last written."""


def _recovery_point(_: TopicPartition, log: Log) -> int | None:
    return None if log.has_lost_id else log.recovery_point


def _moved_start(_: TopicPartition, log: Log) -> int | None:
    return log.start_offset if log.start_offset > log.segments.bases[0] else None
