"""Bytes that survive: the logs of a node, in Apache Kafka's own files.

The idea: a partition is a log, a log is a row of segments, a segment is a file of record batches exactly as they
came over the wire (only base offset and leader epoch are set by us). Everything beside it (indexes, producer
snapshots, leader epochs) can be made again from the batches, and is when it is missing or lies. A JVM's
`kafka-dump-log` reads all of it.

The data on disk::

    data/                                         data_directory.py, logs.py
    ├── meta.properties                           whose it is
    ├── .kafka_cleanshutdown                      present only between a clean shutdown and the next start
    ├── recovery-point-offset-checkpoint          up to where each log is known to be on the device
    ├── replication-offset-checkpoint             high watermarks
    ├── log-start-offset-checkpoint               where DeleteRecords moved a log's start
    └── flights-0/                                log.py, segments.py
        ├── partition.metadata                    the topic's id
        ├── leader-epoch-checkpoint               which epoch began where: epochs.py
        ├── 00000000000000000000.log              a segment: segment.py, scan.py
        ├── 00000000000000000000.index            offset → position, every `index.interval.bytes`: index.py
        ├── 00000000000000000000.timeindex        timestamp → offset
        ├── 00000000000000000000.txnindex         aborted transactions, where there are any: transactions.py
        ├── 00000000000000002120.snapshot         producers before offset 2120: producers.py, snapshots.py
        ├── 00000000000000002120.log              the next segment
        └── …                                     *.deleted: going; *.damaged: set aside by recovery

The life of an append: `Log.append` sets offsets, rolls to a new segment if the old one is full, writes once,
adds an index entry about every `index.interval.bytes`, and updates the producer state. Nothing is synced: replication
is what makes records safe, unless `flush.messages` or `flush.ms` say otherwise (`Log.flush_async`, in a worker thread).

The life of a read: `Log.read` finds the segment among the bases, a starting point in the sparse index, the batch
by scanning headers from there, and answers with a `FileSlice` for sendfile.

Opening (`recovery.py`): after a clean shutdown only the active segment is looked at, however many there are.
After a crash all past the recovery point is checked and the rest of the files are made anew. A torn end is
cut; damage to synced data is never cut silently. After one failed write or sync a log is offline until then. What turns
out to be rotten when it is read is missing to who asks for it; the rest goes on.

All files go through `disk.py`; `MemoryDisk` is a disk in memory that loses its power when a test says so.

Caveats:

- No log cleaner yet: `compaction.py` comes with its own issue. Compacted logs read and recover as they should.
- What is rotten stays so: it is not fetched anew from other replicas. With a batch that cannot be walked over, those
  behind it are missing up to the next index entry (every `index.interval.bytes`). Damage that is met while a log is
  changed, as when it is cut, takes its data directory offline, as a disk that fails does.
- A `.txnindex` that vanishes from a segment below the recovery point is not missed (in Kafka neither): nothing says
  that there was one. It is rebuilt where a segment is scanned.
- A checksum does not cover a batch's base offset and leader epoch (the format's choice): damage to them is seen
  only where offsets stop growing.
- The last entry of a time index below the recovery point is believed: if it is cut off, a lookup by time may
  pass over that segment's end.
- Only format v2 (Kafka 0.11 and newer) is read, like in Kafka 4. No tiered storage, no log directories moves.
"""

from minikafka.storage.disk import Disk, File, FileSlice, MemoryDisk, RealDisk
from minikafka.storage.log import Log
from minikafka.storage.log_config import LogConfig
from minikafka.storage.log_manager import LogManager
from minikafka.storage.log_results import Appended, OffsetOutOfRange, UnexpectedOffset
from minikafka.storage.producer_state import Duplicate, Origin, ProducerStates
from minikafka.storage.recovery import CorruptLog

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
