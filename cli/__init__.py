"""The `minikafka` command.

One module for each subcommand, found by name in `main.COMMANDS` and imported when it is called, so that
`minikafka server` does not wait for what only `minikafka produce` needs.

    minikafka server                  a node in the foreground
    minikafka cluster --brokers 3     a local cluster, each node a process
    minikafka topics list             what there is
    echo hello | minikafka produce t  lines to records
    minikafka consume t               records to lines
    minikafka dump-log FILE           what is in a file of a log
    minikafka perf produce t          how fast

    main.py            the table of commands, errors, exit codes
    server.py cluster.py topics.py produce.py consume.py quorum.py elect_leaders.py reassign.py perf.py dump_log.py
                       a command each
    local_cluster.py   the class LocalCluster, also for tests, benchmarks and chaos; cluster_layout.py: its nodes,
                       ports and settings (pure); cluster_view.py: the table on a terminal
    options.py         what commands share; running.py: Ctrl-C
    lines.py template.py times.py tables.py statistics.py progress.py  what can be tested without a broker

Everything goes to standard output except logs, progress and errors. What a user gets wrong is answered in one line
that says what to do; a traceback is a bug of ours. Exit codes: 0 it worked, 1 it did not, 2 it was used wrongly,
130 Ctrl-C (143 SIGTERM). `consume` ends with 0 when whoever reads its output has closed it.

Caveats:
    * No shell completion is installed; `click` can generate it.
    * `produce` makes text lines to records: for values with newlines in them use the client.
    * `cluster` is for one machine: its nodes listen on 127.0.0.1, without security. Nodes that a `kill -9` of the
      command itself leaves behind go on; the next `cluster` in that directory says so and does not start.
    * `consume --partition` keeps to those partitions, and commits for no group.
"""
