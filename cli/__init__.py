"""The `minikafka` command.

One module for each subcommand, listed in `main.COMMANDS` and imported when the subcommand is called, so that
`minikafka server` does not load modules that only `minikafka produce` needs.

    minikafka server                  run a node in the foreground
    minikafka cluster --brokers 3     run a local cluster, one process per node
    minikafka topics list             list topics
    echo hello | minikafka produce t  send lines as records
    minikafka consume t               print records as lines
    minikafka groups lag g --watch    show how far a group is behind
    minikafka dump-log FILE           print the contents of a log file
    minikafka health                  check a cluster; the exit code is 1 if it is not well
    minikafka perf produce t          measure throughput

A command line takes this path: `main.main` picks the subcommand, click parses the options, the command's function
builds a client from them (`options.py`) and runs its async part (`running.py`), and `main.main` turns exceptions into
one line on standard error and an exit code.

    main.py             the table of subcommands, error messages, exit codes
    server.py           `server`: a node
    cluster.py          `cluster`: a local cluster until a signal
    topics.py           `topics`: create, list, describe, alter, delete
    produce.py          `produce`: lines of a file or of standard input
    consume.py          `consume`: records from a start position, as lines
    groups.py           `groups`: list, describe, members, lag, reset-offsets, delete
    group_rows.py       rows of groups: members, committed offsets, lag
    offset_reset.py     new offsets for a group, and the CSV of plans
    configs.py          `configs`: settings of brokers, topics and groups, with their sources
    client_quotas.py    `configs`: quotas of clients, users and addresses
    offsets.py          `offsets`: the first offsets and ends of partitions, or the offsets of a point in time
    delete_records.py   `delete-records`: up to an offset or a point in time, or all
    producers.py        `producers`: the producers that partitions know, with their epochs and transactions
    brokers.py          `brokers`: brokers, with the partitions that they lead and have
    top.py              `top`: looks at a cluster again and again
    top_rows.py         `top`: rates and rows (pure)
    completion.py       `completion`: for bash, zsh and fish
    health.py           `health`: checks of a cluster, for scripts
    log_dirs.py         `log-dirs`: data directories and the replicas in them
    features.py         `features`: levels, upgrades and downgrades
    api_versions.py     `api-versions`: APIs of a broker
    storage.py          `storage`: formats data directories
    quorum.py           `quorum`: describes the controller quorum, adds and removes voters
    controller_identity.py  node id, directory id and addresses of a controller, from its own files
    elect_leaders.py    `elect-leaders`: preferred and unclean elections
    reassign.py         `reassign`: partition reassignments from JSON plans
    dump_log.py         `dump-log`: segments, indexes, snapshots, checkpoints
    perf.py             `perf`: throughput and latency
    local_cluster.py    the class LocalCluster, also for tests, benchmarks and fault injection
    cluster_layout.py   nodes, ports and settings of a local cluster (pure)
    cluster_control.py  `cluster status`, `stop` and `restart`: nodes of a cluster, whoever started them
    supervisor_lock.py  the lock of the command that runs a cluster
    node_process.py     finds the process of a node, and sends signals to no other process
    cluster_view.py     the status table of `cluster` on a terminal
    keys.py             the key q, which ends a command that redraws the terminal
    redraw.py           lines that are redrawn in place
    options.py          options and checks that commands share
    context.py          `context`: names for clusters
    contexts.py         the file of contexts, and the choice of the cluster that a command asks
    output.py           tables or JSON, and words that commands share
    running.py          runs async code until it ends or a signal arrives
    lines.py            input lines as keys and values
    spread.py           the partitions of lines without keys (pure)
    failures.py         errors as text or JSON: codes and messages
    json_files.py       reads JSON files that people write, such as plans
    json_lines.py       input lines in the JSON of `consume --json` (pure)
    template.py         records as lines: --format and --json (pure)
    times.py            points in time in options (pure)
    tables.py           aligned tables (pure)
    statistics.py       latencies and rates in the format of Kafka's producer-perf-test (pure)
    progress.py         progress on a terminal
    reference_page.py   the page `docs/cli.md`, from the declarations of all commands

Results go to standard output; logs, progress and errors to standard error. User errors are one line that says what to
do; a traceback is a bug. Exit codes: 0 success, 1 failure, 2 usage error, 130 Ctrl-C, 143 SIGTERM. `consume` exits
with 0 when the reader of its output closes the pipe.

Caveats:
    * Shells complete commands, options and contexts, not the names of topics and groups.
    * `top` takes rates from offsets: markers of transactions count as records. It looks at a hundred groups, one after
      the other.
    * `produce` makes records of text lines; values with newlines need `--json`. That sends neither the partition nor
      the offset of a line: records without a key may end up in other partitions than they were read from.
    * `cluster` is for one machine: nodes listen on 127.0.0.1, without security. A `kill -9` of the command itself
      leaves its nodes running; `cluster --attach` takes them up, and `cluster stop` ends them.
    * A node of a cluster that was started by hand without its server.properties is known on Linux only.
    * `groups reset-offsets` reads state, offsets and ends one after the other. If a member joins in between, the commit
      is refused; but records that are written meanwhile move the end of a topic.
    * `groups` asks about one group at a time; without arguments that is a request or more for each group.
    * `consume --partition` assigns these partitions without a group, and commits nothing.
"""
