"""Replication: fetching partitions from their leaders, changing the ISR, and throttling both.

A follower fetches like a consumer, with its node id. `MetadataFollower` (`partitions/partition_lifecycle.py`) calls
`follow` when another broker leads a partition; the fetcher of that broker then adds the partition to its fetch session.
A fetch reports the follower's log end offset to the leader; the leader's high watermark is the lowest log end offset of
the in-sync replicas. The follower appends the response unchanged, and truncates its log only where the leader reports a
diverging epoch (`partitions/follower_log.py`). The connection to a leader is one of `minikafka.client`, which does TLS
and logs in as the node (`broker/security/between_nodes.py`). When a follower has caught up or lags, the leader asks the
controller for another ISR.

    replica_parts.py            ReplicaParts: creates and connects what keeps a node's replicas
    replica_fetcher.py          ReplicaFetcherManager, ReplicaFetcher: one task and one connection per leader
    follower_fetch_state.py     FollowerFetchState: the fetch session with one leader, requests and responses (pure)
    fetch_backoff.py            delays after a failed fetch or connection (pure)
    isr_changes.py              AlterPartitionManager: asks the controller to expand or shrink the ISR
    replica_moves.py            ReplicaMoves: copies replicas to other data directories of this node (KIP-113)
    replication_throttle.py     throttles of replication for leaders and followers (KIP-73), and of moves (pure)

*Caveats:* one connection per leader (`num.replica.fetchers` has no effect).
"""
