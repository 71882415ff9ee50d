"""Disks: the file system as storage uses it, its checkpoint files, and the threads and processes of its blocking work.

`Disk` is the interface. `RealDisk` runs blocking calls in worker threads and limits open descriptors; `MemoryDisk` is a
file system in memory, with power failures and I/O errors, for tests and the simulation. Compaction runs in a worker
process of a disk. Only this package touches the operating system's files, threads and processes.

    flush_turns.py       limits the number of logs and segments that are flushed at a time
    worker.py            runs functions that need much processor time, in a thread or process
    worker_process.py    starts and calls a worker in a process of its own
    worker_main.py       the program of that process
    checkpoint_files.py  formats of checkpoints, meta.properties, partition.metadata, .kafka_cleanshutdown
    disk.py              the file system: `Disk`, `File`, `RealDisk`
    open_files.py        limits the open descriptors of a RealDisk
    disk_errors.py       tells failures of a disk from errors that only fail one call
    directory_room.py    whether a data directory's disk is full
    memory_disk.py       an in-memory disk with power failures and I/O errors, for tests
    memory_content.py    the files and directories of the in-memory disk
"""
