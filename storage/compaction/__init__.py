"""Compaction: the log cleaner, which keeps the last record of each key.

`Compaction` chooses the log with the largest dirty ratio. A worker reads the keys of the dirty part into a map of their
last offsets, then writes the segments anew without the records that were replaced; the new segments take the place of
the old segments.

    compaction.py            chooses a log to clean, has a worker clean it, replaces its segments
    cleanable_range.py       finds the part of a log that may be cleaned, and tells whether cleaning is due
    cleaning.py              one cleaning in steps: reads the keys, writes the new segments
    offset_map.py            the last offset of each key, in bounded memory (pure)
    numpy_offset_map.py      the same map, made of numpy arrays (pure)
    keyed_records.py         the records of many batches, column by column (pure)
    batch_filter.py          decides which records of a batch the cleaner keeps (pure)
    cleaned_transactions.py  decides which transactional data and markers may be removed (pure)
    cleaned_segment.py       the files of a segment that the cleaner writes
    segment_replacement.py   replaces segments by a cleaned segment
"""
