"""The partitions of this broker: replicas and their logs, checks before an append, reads, and waiting for new records.

A partition on this node is a *replica* with a role: the leader appends what clients produce and tracks its followers,
a follower appends what it fetches. The role and the in-sync replicas change only when a record of the metadata log is
applied.

A Produce: `apis/produce.py` finds the `Partition` in the `partition_table`; `partition.py` has `batch_validation.py`
check the batch, asks the log's producer state whether it is a duplicate, and appends it. There is no `await` in
between. The handler then waits in `Partition.committed` for the high watermark. A Fetch: `apis/fetch.py` resumes its
session (`fetch_sessions.py`), reads a slice of the file (`fetch_result.py`), and if that is too little waits until its
partitions grow: without a task in `connections/long_polls.py`, or in the task of its connection in
`request_waiters.py`. A fetch that resumes a session, except one of a consumer with a rack, waits for the session's
`ChangedPartitions`, and reads only those that have changed. The fetch of a follower also reports its log end offset
(`follower_progress.py`), which moves the high watermark and may change the ISR.

While `flush.messages` requires a flush, the high watermark does not pass the log's recovery point. So a record is
neither acknowledged nor read before the leader has it on its device, and does not count as replicated before the
follower has it on its device. Kafka flushes within the append. Here tasks that wait for a flush share it
(`SharedFlush`); housekeeping makes the flushes that no task waits for, within a second.

    partition_table.py           Partitions: all replicas of the node, by name and topic id
    partition_lifecycle.py       MetadataFollower: creates, changes and removes replicas as the metadata log says
    replica_logs.py              ReplicaLogs: opens and deletes the logs of replicas, reports where they are
    stray_logs.py                renames logs that belong to no partition, when the broker starts
    log_housekeeping.py          periodic retention, flushes, checkpoints, expiry of producers
    log_cleaner.py               the loops that compact logs
    replica.py                   Replica: the code that leaders and followers share: reads, high watermark, waiting
    partition.py                 Partition: a replica with its role: append, commit, ISR, truncation
    batch_validation.py          checks of a produced batch (pure)
    record_scan.py               scans the records of a batch, without an object for each (pure)
    large_batches.py             validates batches that take long in steps, while other tasks run
    follower_log.py              appends fetched batches and finds the truncation offset (pure)
    follower_progress.py         LeaderState: the leader's view of its followers: high watermark and ISR (pure)
    preferred_read_replica.py    the replica that a consumer should fetch from, by rack (pure)
    fetch_result.py              FetchResult: the result of a read, and where logs diverge
    fetch_sessions.py            incremental fetch sessions of consumers and followers (pure)
    request_waiters.py           waiting until partitions grow or offsets are committed
    traffic.py                   Traffic: counters of a topic's appends and reads, for the metrics
    verification.py              Verifications: which transactional batches may open a transaction (pure)

*Caveats:* a replica whose log cannot be opened is not served until the broker restarts; another one leads. One
replica at a time is copied to another data directory (`num.replica.alter.log.dirs.threads` has no effect), and none
while a data directory is offline, as in Kafka. Of a large uncompressed batch only the first 64 records are checked one
by one (`batch_validation.py`, DECISIONS.md 1).
"""
