"""Commands: one module for each subcommand of `minikafka`, named like it, and what one or two of them need alone.

`main.COMMANDS` lists them; a module is imported when its subcommand is called.

    server.py               `server`: a node
    cluster.py              `cluster`: a local cluster until a signal
    topics.py               `topics`: create, list, describe, alter, delete
    produce.py              `produce`: lines of a file or of standard input
    consume.py              `consume`: records from a start position, as lines
    groups.py               `groups`: list, describe, members, lag, reset-offsets, delete
    group_rows.py           rows of groups: members, committed offsets, lag
    offset_reset.py         new offsets for a group, and the CSV of plans
    configs.py              `configs`: settings of brokers, topics and groups, with their sources
    client_quotas.py        `configs`: quotas of clients, users and addresses
    offsets.py              `offsets`: the first offsets and ends of partitions, or the offsets of a point in time
    delete_records.py       `delete-records`: up to an offset or a point in time, or all
    producers.py            `producers`: the producers that partitions know, with their epochs and transactions
    brokers.py              `brokers`: brokers, with the partitions that they lead and have
    top.py                  `top`: looks at a cluster again and again
    top_rows.py             `top`: rates and rows (pure)
    completion.py           `completion`: for bash, zsh and fish
    health.py               `health`: checks of a cluster, for scripts
    log_dirs.py             `log-dirs`: data directories and the replicas in them
    features.py             `features`: levels, upgrades and downgrades
    api_versions.py         `api-versions`: APIs of a broker
    storage.py              `storage`: formats data directories
    quorum.py               `quorum`: describes the controller quorum, adds and removes voters
    controller_identity.py  node id, directory id and addresses of a controller, from its own files
    unregister_broker.py    `unregister-broker`: removes a broker that has left
    elect_leaders.py        `elect-leaders`: preferred and unclean elections
    reassign.py             `reassign`: partition reassignments from JSON plans
    dump_log.py             `dump-log`: segments, indexes, snapshots, checkpoints
    perf.py                 `perf`: throughput and latency
    cluster_control.py      `cluster status`, `stop` and `restart`: nodes of a cluster, whoever started them
    cluster_view.py         the status table of `cluster` on a terminal
    context.py              `context`: names for clusters
    statistics.py           latencies and rates in the format of Kafka's producer-perf-test (pure)
    record_text.py          keys and values of records as text; those of internal topics decoded
    acls.py                 `acls`: lists, adds and removes ACLs
    users.py                `users`: users of SCRAM, and their passwords
    tokens.py               `tokens`: delegation tokens
    transactions.py         `transactions`: lists, describes, finds and aborts hanging ones
"""
