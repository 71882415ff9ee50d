"""The `minikafka` command.

One module for each subcommand, found by name in `main.COMMANDS` and imported when it is called, so that
`minikafka server` does not wait for what only `minikafka produce` needs.

    minikafka server                  a node in the foreground
    minikafka topics list             what there is
    echo hello | minikafka produce t  lines to records
    minikafka consume t               records to lines
    minikafka dump-log FILE           what is in a file of a log
    minikafka perf produce t          how fast

Everything goes to standard output except logs, progress and errors. What a user gets wrong is answered in one line
that says what to do; a traceback is a bug of ours.

Caveats: no shell completion is installed; `click` can generate it.
"""
