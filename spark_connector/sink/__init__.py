"""Writing: from Spark's Arrow batches to record batches and transactions, once for each micro-batch.

    sink_columns.py      the columns of the sink: types, casts, the partition of each row
    writers.py           the writers that Spark calls: the tasks' work, the driver's commit and abort
    sink_tasks.py        the work of one task of a write: transactions, markers, at_least_once
    atomic_writes.py     `delivery` atomic: tasks encode, the driver sends everything in one transaction
    driver_commits.py    the driver ends the transactions that tasks have left open
    earlier_attempts.py  rows that earlier attempts have committed, even with other tasks; the claim of the query
    task_transaction.py  a task's requests to the coordinators of its transaction and its marker
    task_writer.py       a task's rows to record batches of limited size, with sequence numbers
    batch_sender.py      sends record batches to the leaders of their partitions; retries
    replay_check.py      checks whether a repeated task has the same rows as before
"""
