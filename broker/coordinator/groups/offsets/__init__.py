"""Committed offsets of consumer groups: the requests and timers that read and change the `OffsetTable`.

    offset_commits.py    OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete
    request_parts.py     requests with very many partitions, as several decisions
    removal_in_steps.py  retention of offsets, removal of groups that are left empty, offsets in deleted partitions
"""
