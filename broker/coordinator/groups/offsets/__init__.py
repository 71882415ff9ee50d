"""Committed offsets of consumer groups: the requests and timers that read and change the `OffsetTable`.

    offset_commits.py    OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete
    request_parts.py     requests with very many partitions, as several decisions
    offset_expiry.py     retention of offsets and removal of groups that are left empty
"""
