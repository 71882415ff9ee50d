"""The `minikafka` command.

A module of `commands/` for each subcommand in `main.COMMANDS`, imported when the subcommand is called, so that
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

A command line takes this path: `__main__.main` imports the rest, `main.main` picks the subcommand, click parses the
options, the command's function builds a client from them (`arguments/options.py`) and runs its async part
(`running.py`), and `main.main` turns exceptions into one line on standard error and an exit code.

    __main__.py        the start of the program
    main.py            the list of subcommands, error messages, exit codes
    commands/          the subcommands, one module for each
    arguments/         options that commands share, contexts, numbers and points in time
    records/           records as lines of text, and lines as records
    terminal/          tables and JSON, errors, progress, redrawn lines
    clusters/          nodes, ports, settings, files and processes of a local cluster
    local_cluster.py   the class LocalCluster, also for tests, benchmarks and fault injection
    running.py         runs async code until it ends or a signal arrives
    reference_page.py  the page `docs/cli.md`, from the declarations of all commands

Results go to standard output; logs, progress and errors to standard error. User errors are one line that says what to
do; a traceback is a bug. Exit codes: 0 success, 1 failure, 2 usage error, 130 Ctrl-C, 143 SIGTERM. `consume` exits
with 0 when the reader of its output closes the pipe.

Caveats:
    * Shells complete commands, options and contexts, not the names of topics and groups.
    * `top` takes rates from offsets: markers of transactions count as records. It looks at a hundred groups, one after
      the other.
    * `produce` makes records of text lines; values with newlines need `--json`. That sends neither the partition nor
      the offset of a line: records without a key may end up in other partitions than they were read from.
    * `cluster` is for one machine: nodes listen on 127.0.0.1. A `kill -9` of the command itself
      leaves its nodes running; `cluster --attach` takes them up, and `cluster stop` ends them.
    * A node of a cluster that was started by hand without its server.properties is known on Linux only.
    * `groups reset-offsets` reads state, offsets and ends one after the other. If a member joins in between, the commit
      is refused; but records that are written meanwhile move the end of a topic.
    * `groups` asks about one group at a time; without arguments that is a request or more for each group.
    * `consume --partition` assigns these partitions without a group, and commits nothing.
"""
