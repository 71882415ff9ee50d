"""Storage: the logs of a node, in Apache Kafka's file formats.

A partition is a log, a log is a list of segments, and a segment is a file of record batches exactly as they were sent
(only base offset and leader epoch are assigned by the broker). All other files (indexes, producer snapshots, leader
epochs) can be rebuilt from the batches, and are rebuilt if they are missing or inconsistent. Kafka's `kafka-dump-log`
reads all these files.

The files on disk::

    data/                                         a data directory (log.dirs)
    ├── meta.properties                           node id, cluster id
    ├── .kafka_cleanshutdown                      exists only between a clean shutdown and the next start
    ├── recovery-point-offset-checkpoint          the offset up to which each log has been flushed
    ├── replication-offset-checkpoint             high watermarks
    ├── log-start-offset-checkpoint               log start offsets advanced by DeleteRecords
    └── flights-0/                                the log of a partition
        ├── partition.metadata                    the topic id
        ├── leader-epoch-checkpoint               the start offset of each leader epoch
        ├── 00000000000000000000.log              a segment
        ├── 00000000000000000000.index            offset to position, every `index.interval.bytes`
        ├── 00000000000000000000.timeindex        timestamp to offset
        ├── 00000000000000000000.txnindex         aborted transactions, if any
        ├── 00000000000000002120.snapshot         producer state before offset 2120
        ├── 00000000000000002120.log              the next segment
        └── …                                     *.deleted: to be removed; *.damaged: saved by recovery;
                                              *.cleaned, *.swap: written by the cleaner, to replace others

The path of an append: `Log.append` assigns offsets, rolls to a new segment if the active one is full, writes once, adds
an index entry every `index.interval.bytes`, and updates the producer state. Nothing is flushed: replication makes
records durable, unless `flush.messages` or `flush.ms` require a flush (`Log.flush_async`, in a worker thread).

The path of a read: `Log.read` finds the segment by its base offset, a start position in the sparse index, and the batch
by scanning headers from there; it returns a `FileSlice` for sendfile.

Opening a log: after a clean shutdown only the active segment is examined. After a crash everything beyond the recovery
point is verified and the other files are rebuilt. A torn end is truncated; corruption of flushed data is reported,
never truncated silently.

Errors: a data directory that fails takes only its own logs offline. While a directory is offline, no log is created
that may exist in that directory. After one failed write or fsync a log is offline until the next start. A corrupt batch
found by a read fails that read only. A full disk and missing descriptors (`disk_errors.py`) fail one operation only:
a half-done operation is undone, and the log stays in service.

A move to another data directory: `FutureLogs` makes a copy, `flights-0.<hex>-future`, which is filled like the log of a
follower, and takes the place of the log in one step when it has all records.

Compaction: `Compaction` chooses the log with the largest dirty ratio. A worker reads the keys of the dirty part into a
map of their last offsets, then writes the segments anew without the records that were replaced. The new segments take
the place of the old segments, which readers may still hold. Offsets, sequence numbers and the ends of batches stay.

    directories/     all logs of a node and the directories they are in: startup, shutdown, creation, deletion, moves
    logs/            the log of one partition: append, read, roll, flush, retention, recovery; producer state
    segments/        the files of a log: record batches, offset, time and transaction index
    compaction/      the log cleaner
    disks/           the file system: `Disk`, `RealDisk`, `MemoryDisk`; checkpoint files, workers
    log_config.py    the topic configs that a log uses
    steps.py         work in steps: pauses, and blocking calls in threads; used by all packages above
    waits.py         begins coroutines without a task; used by all packages above

*Caveats*

- The map of the cleaner takes 32 bytes of memory a key (24 in Kafka), or 192 bytes without numpy. With the default of
  `log.cleaner.dedupe.buffer.size` a cleaning covers 3,700,000 keys, or 620,000 without numpy. Logs with more keys are
  cleaned in several passes.
- Corrupt batches are not fetched again from other replicas. If the length of a batch is corrupt, the following batches
  are unreadable up to the next index entry (every `index.interval.bytes`). Corruption found while a log is modified, as
  in a truncation, takes its data directory offline, like a failed disk.
- A log start offset that DeleteRecords has moved is durable with the next checkpoint. If all in-sync replicas are
  killed before, the deleted records are back, as in Kafka.
- A `.txnindex` that disappears from a segment below the recovery point is not detected (nor in Kafka): no other file
  records its existence. It is rebuilt when the segment is scanned.
- A segment that disappears from the middle of a log below the recovery point is noticed when a read passes it, not at
  the start, which opens only the active segment: consumers skip its records, and the broker logs it.
- A checksum does not cover a batch's base offset and leader epoch (by design of the format): their corruption is
  detected only if offsets do not increase.
- The last entry of a time index below the recovery point is trusted: if it was truncated, a lookup by timestamp may
  skip the end of that segment.
- A restart without a power failure trusts the page cache. If an earlier fsync failed, the page cache may hold pages
  that are not on the device and count as clean. A later flush does not write these pages, and a power failure then
  loses them.
- Until a data directory has its first checkpoints (`log.flush.offset.checkpoint.interval.ms`), recovery assumes that
  gaps between segments of compacted logs come from the cleaner, since the logs may be copies. Gaps that a power failure
  has left are then not detected.
- If retention removed all records of a log, a power failure within the next second may forget the sequence numbers of
  their producers, and a new replica never learns of them, so that a retried batch may be appended twice. (Kafka forgets
  them with every restart, as it removes the snapshot at the log start offset.)
- A log whose recovery needs room that a full disk does not have is not opened before there is room.
- An operation that waits for an fsync runs in a thread (`steps.py`), except if the log must not be used before the
  fsync. These operations wait for the disk on the event loop: a truncation below the recovery point, the creation of a
  log within a second of its deletion, the creation of a copy, a copy that takes the place of a missing log, and setting
  a stray aside.
- If the data directory fails from which a replica is being moved, the copy keeps its disk space until the next start.
- Only format v2 (Kafka 0.11 and newer) is read, as in Kafka 4. No tiered storage.
- If a power failure happens while a copy takes the place of its log, and a disk of the node fails as well, both logs
  may be left. The node then refuses to start, and names both logs.
"""

from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.disk import Disk, File, FileSlice, MemoryDisk, RealDisk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_results import Appended, OffsetOutOfRange, UnexpectedOffset
from minikafka.storage.logs.producer_state import Duplicate, Origin, ProducerStates
from minikafka.storage.logs.recovery import CorruptLog

__all__ = [
    "Appended",
    "CorruptLog",
    "Disk",
    "Duplicate",
    "File",
    "FileSlice",
    "Log",
    "LogConfig",
    "LogManager",
    "MemoryDisk",
    "OffsetOutOfRange",
    "Origin",
    "ProducerStates",
    "RealDisk",
    "UnexpectedOffset",
]
