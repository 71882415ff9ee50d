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
    replica.py partition.py partitions.py waiting.py      what every replica is, its role, and who waits for it to grow
    reading.py replica_selection.py     what a fetch finds; which replica a consumer should ask (pure)
    replicas.py        a leader's view of its followers: how far is committed, who is in sync (pure)
    in_sync.py         has the controller change who is in sync
    copying.py following.py             a follower's questions, and what it does with the answers (no socket, no clock)
    replication.py     followers at work: a task for each leader
    throttle.py        how much a second leaders send and followers take of throttled replicas (pure)
    fetch_sessions.py  what consumers and followers need not say again (pure)
    lifecycle.py       metadata makes and removes partitions; retention, flushes, checkpoints
    coordinator/       consumer groups
    metadata.py advertising.py quorum.py producer_ids.py  small answers
    config*.py         a `server.properties` for Apache Kafka, read and checked

A Fetch goes down the same five rooms and comes back with a slice of a file, which leaves by `sendfile`: the broker
never holds the records it serves. A fetch that finds too little sleeps in `waiting.py` until its partitions grow.

A follower is a consumer with a name. Its fetch tells the leader what it has, and the leader's high watermark is the
least that an in-sync replica has told; a Produce with acks=all waits for that. Who leads, and who is in sync, comes by
the metadata log alone (`lifecycle.py`): `become` is told, and the partition is a leader or a follower from then on. A
follower appends what comes as it comes, and cuts its log only where the leader's answer says that the two part.

Caveats: one connection to each leader (`num.replica.fetchers` is not acted on), no moves between log directories. A
partition whose log cannot be opened stays unserved until an operator looks. No transactions, no compaction, no
security, no client quotas enforced (they are kept and described). Of a large uncompressed batch only the first 64
records are checked one by one (`validation.py`, DECISIONS.md 1). One Python process serves all connections on one
core.
"""
