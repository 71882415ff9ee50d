"""A node: it listens, keeps partitions, answers.

Start with the life of a Produce. A `Connection` cuts the byte stream into frames and hands each to the `Dispatcher`,
which finds the API's module in `apis/` and decodes the request. `apis/produce.py` runs the checks that come before the
log's, finds the `Partition`, and the partition has `validation` look at the batch, asks the log's producers whether it
is a duplicate, and appends it. All of that happens without an `await`, so nothing can come between. Only then the
handler waits, until the batch is committed, and the answer goes back the way it came.

    main.py log_output.py   the outside world enters: clock, disk, randomness, signals; what is logged
    node.py            where the rooms meet; start and stop, in order
    roles.py registration.py     alone, one of several, or a mere controller; how a broker joins, is heard, and goes
    server.py          listeners, limits, the reaper of idle connections
    connection.py transport.py dispatch.py context.py     a frame's way in and an answer's way out
    apis/<api>.py      one module for each API
    validation.py      what a producer's batch must be (pure)
    partition.py partitions.py waiting.py                 replicas, and who waits for them to grow
    fetch_sessions.py  what consumers need not say again (pure)
    lifecycle.py       metadata makes and removes partitions; retention, flushes, checkpoints
    coordinator/       consumer groups
    metadata.py advertising.py quorum.py producer_ids.py  small answers
    config*.py         a `server.properties` for Apache Kafka, read and checked

A Fetch goes down the same five rooms and comes back with a slice of a file, which leaves by `sendfile`: the broker
never holds the records it serves. A fetch that finds too little sleeps in `waiting.py` until its partitions grow.

Caveats: the node is alone: it leads every partition and is its own controller; replication, elections and a quorum of
several voters are still to come. No transactions, no compaction, no security, no quotas enforced (they are kept and
described). Of a large uncompressed batch only the first 64 records are checked one by one (`validation.py`,
DECISIONS.md 1). One Python process serves all connections on one core.
"""
