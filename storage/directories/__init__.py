"""Data directories: the entries of `log.dirs`, and all logs of a node in them.

`LogManager` opens all logs at the start, creates and deletes logs, and closes them at the end; `LogUpkeep` flushes them
and applies retention from time to time. A data directory that fails takes only its own logs offline.

    log_manager.py     all logs of a node: startup, shutdown, creation, deletion, periodic flush and retention
    data_directory.py  one entry of log.dirs: its logs, and its clean-shutdown file
    directory_identity.py     meta.properties: whose directory it is
    directory_checkpoints.py  what its checkpoint files say about its logs
    offset_checkpoint.py      one checkpoint file, prepared in steps
    directory_ids.py   the ids of data directories, and the reserved ones
    log_placement.py   chooses the data directory in which a new log is created
    directory_scan.py  finds the logs in the data directories, and duplicates
    log_upkeep.py      periodic work on all logs
    log_failures.py    takes failed directories and their logs offline
    future_logs.py     copies of logs in another directory, which are to replace the logs
    renamed_logs.py    log directories that were deleted or set aside: `-delete`, `-stray`
    log_closing.py     closes many logs with concurrent fsyncs
"""
