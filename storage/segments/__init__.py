"""Segments: the files of a log, each a range of its record batches with indexes.

A segment is an append-only file of record batches as they were sent. Its indexes are sparse: a search takes the nearest
entry before the offset or timestamp, and scans batch headers from there. An interrupted deletion or replacement of
segments is completed or undone at the next start (`temporary_files.py`).

    deleted_files.py      names of files that are removed later
    temporary_files.py    completes or undoes interrupted deletions and swaps (.deleted, .swap, .cleaned, .tmp)
    segments.py           the ordered list of a log's segments
    segment.py            one segment: append, search, index maintenance, truncation
    segment_names.py      names of a segment's files, positions of batches, errors
    batch_scan.py         iterates over batch headers in a file
    index.py              offset index and time index
    transaction_index.py  aborted transactions of a segment
    timestamp_search.py   the first record at or after a timestamp
"""
