"""Logs: the log of one partition, an ordered list of segments with producer state and leader epochs.

`Log` appends, reads, rolls, flushes and closes. Work that takes many steps has a module of its own: lookups, flushes,
retention, truncation, and recovery, which opens a log after a crash.

    log.py                 the log of one partition: append, read, roll, flush, close
    log_guard.py           takes a log offline after a failed write or fsync
    log_state.py           the segments, offsets and caches of a log, on which flush, retention and truncation work
    log_context.py         what a log receives from its node and from its data directory
    unflushed.py           what of a log is not on the device yet
    producer_replay.py     brings the producer state up to date from batches
    log_results.py         the result of an append, OffsetOutOfRange, UnexpectedOffset
    log_lookup.py          lookups across segments: by offset, by timestamp, aborted transactions, producers' batches
    flush.py               fsync of a log's files, in order
    retention.py           deletion by retention.ms, retention.bytes and log start offset
    truncation.py          truncation to an offset, full truncation
    recovery.py            opening a log: clean, or with a scan after a crash; corruption
    leader_epochs.py       the leader epoch cache and its checkpoint
    producer_state.py      sequence numbers, open transactions, last stable offset
    producer_snapshots.py  snapshot files of the producer state
"""
