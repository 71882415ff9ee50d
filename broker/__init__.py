"""The broker: a node that listens for clients, keeps replicas of partitions, and answers requests.

    settings/      reads and checks the settings of a node: a `server.properties` for Apache Kafka
    node/          the process: main, start and stop, registration with the cluster
    connections/   listeners, frames, and the steps of a request
    apis/          a handler for each API
    coordinator/   consumer groups and their offsets, transactions
    partitions/    replicas, leaders and followers: appends, reads, high watermarks
    replication/   fetching from leaders, ISR changes, replication quotas
    security/      who a client or another node is: the login at a listener, TLS and its certificates
    quotas/        what clients may use, and how long they are throttled
    metrics/       the metrics of a node over HTTP
    telemetry/     the metrics that clients push to a broker

Of the packages node, apis, coordinator and replication, partitions, connections, settings, in this order, each imports
only packages that come after it. The cluster's metadata and settings are in `minikafka.controller`, log files in
`minikafka.storage`.

**Produce.** `Connection` cuts the byte stream into frames. `Dispatcher` decodes the request and finds its handler,
`apis/produce.py`, which looks up the `Partition`. The partition validates the batch, asks the log's producer state
whether it is a duplicate, and appends it. All of that happens without an `await`, so requests never interleave. Then
the handler waits until the batch is committed, and the response returns along the same path.

**Fetch** takes the same path and returns a slice of a file, which is sent with `sendfile`: the served records never
pass through the broker's memory. A fetch that finds less than `min_bytes` waits until its partitions grow: in a group
of equal requests and without a task (`connections/long_polls.py`), or in the task of its connection
(`partitions/request_waiters.py`).

**Replication.** A follower's fetch reports its log end offset to the leader; the leader's high watermark is the lowest
log end offset in the ISR, and a Produce with acks=all waits for it. Leaders and ISRs change only through the metadata
log (`partitions/partition_lifecycle.py`). A follower appends batches unchanged, and truncates its log only where the
leader's response reports a diverging epoch.

*Caveats*: one connection to each leader (`num.replica.fetchers` has no effect). A replica whose log cannot be opened
stays offline until an operator intervenes. Of a large uncompressed batch only the first
64 records are validated one by one (`partitions/batch_validation.py`, DECISIONS.md 1). One Python process serves all
connections on one core.
"""
