"""Reading: from options to partitions and offsets on the driver, and from fetch responses to Arrow in executors.

    offset_resolution.py  options to partitions and offsets: subscriptions, starting and ending offsets, timestamps
    range_planner.py      ranges of offsets to input partitions: minPartitions, maxRecordsPerPartition
    micro_batches.py      streams: start and end of each micro-batch, re-created topics, commitOffsets
    input_partitions.py   the work that the driver sends to an executor task
    partition_reader.py   reads one range in an executor: fetch requests, read_committed, retries
    data_loss.py          failOnDataLoss: the error or the warning
"""
