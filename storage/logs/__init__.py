"""Logs: the log of one partition, an ordered list of segments with producer state and leader epochs.

`Log` appends, reads, rolls, flushes and closes. Work that takes many steps has a module of its own: lookups, flushes,
retention, truncation, and recovery, which opens a log after a crash.

    log.py                 the log of one partition: append, read, roll, flush, close
    guarded_log.py         the base class of Log: takes a log offline after a failed write or fsync
    log_state.py           the part of a log that flush, retention and truncation work on (a Protocol)
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
