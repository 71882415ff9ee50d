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

from contextlib import suppress
from random import Random

from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.directory_checkpoints import DirectoryCheckpoints
from minikafka.storage.directories.directory_identity import DirectoryIdentity, make_durable_directory
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.directory_room import Room
from minikafka.storage.disks.disk import Disk
from minikafka.storage.disks.disk_errors import not_half
from minikafka.storage.logs.log import Log


class DataDirectory:
    """One data directory. Methods may raise OSError, after which the directory must go offline.

    Attributes:
        identity: whose directory it is, and its id.
        checkpoints: what its checkpoint files say about its logs.
        shutdown: how the node that used it last has ended.
        logs: the open logs in this directory, by partition.
        futures: the open future logs in this directory, by partition.
        corrupt: the partitions with corrupt logs, which are not opened.
        unopened: the partitions with a log or future log that the start has found, and that is not open. The log is
            corrupt, cannot be opened now, or the metadata has to decide about it. Its checkpointed offsets are kept,
            and a shutdown does not count as clean: the next start must not trust or truncate a log that was never
            checked.
        failure: the error that took the directory offline, or None.
        room: tells whether the disk is full.
        cordoned: whether no new logs are to be created in the directory (KIP-1066).
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, Log] = {}
        self.corrupt: set[TopicPartition] = set()
        self.unopened: set[TopicPartition] = set()
        self.identity = DirectoryIdentity(disk, path)
        self.checkpoints = DirectoryCheckpoints(disk, path, self.logs, self.futures, self.unopened)
        self.shutdown = ShutdownMarker(disk, path)
        self.failure: Exception | None = None
        self.room = Room(path)
        self.cordoned = False
        self._disk = disk

    def open(self, node_id: int | None, cluster_id: str | None, *, random: Random) -> None:
        """Locks the directory and checks or writes `meta.properties`.

        Raises WrongDirectory; BrokenCheckpoint for an invalid `meta.properties`; BlockingIOError if the directory is in
        use.
        """
        make_durable_directory(self._disk, self.path)
        self._disk.lock(f"{self.path}/.lock")
        self.identity.claim(node_id, cluster_id, random=random)

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
        """The directory id, 16 bytes; `UNASSIGNED` before `open`."""
        return self.identity.id


class ShutdownMarker:
    """The clean-shutdown file of a data directory: written last at a clean shutdown, deleted first at the start.

    Attributes:
        was_clean: whether `take` has found the file, so that logs need no recovery.
        broker_epoch: the epoch of the broker that wrote the file (KIP-966); -1 if unknown.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self.was_clean = False
        self.broker_epoch = -1
        self._disk = disk
        self._path = path

    def take(self) -> None:
        """Reads and deletes the file, before any log is opened."""
        path = f"{self._path}/{checkpoint_files.CLEAN_SHUTDOWN}"
        with not_half():
            epoch = checkpoint_files.read_clean_shutdown(self._disk, path)
            self.was_clean = epoch is not None
            if epoch is not None:
                self.broker_epoch = epoch
                self._disk.remove(path)
                self._disk.sync_directory(self._path)

    def write(self, broker_epoch: int) -> None:
        """Writes the file: the last step of a clean shutdown."""
        checkpoint_files.write_clean_shutdown(
            self._disk, f"{self._path}/{checkpoint_files.CLEAN_SHUTDOWN}", broker_epoch
        )
