"""Planted bugs in what is done to logs in steps or in a thread: retention, loading, followers, searches, codecs."""

from mutations import TEST_ONLY, Mutation

_REPLAY = "tests/broker/coordinator/test_replay.py"
_UNREADABLE = "tests/broker/coordinator/test_unreadable_records.py"
_FOLLOWING = "tests/broker/replication/test_follower_fetch_state.py"

MUTATIONS = (
    Mutation(
        "a follower appends all that it has fetched of a partition in one step",
        "broker/replication/follower_fetch_state.py",
        "for part, count in parts(records):",
        "for part, count in [(records, 0)]:",
        (_FOLLOWING,),
    ),
    Mutation(
        "a follower handles the partitions of a response in one step",
        "broker/replication/follower_fetch_state.py",
        "is_due(items=PARTITION_WORK)",
        "is_due(items=0)",
        (_FOLLOWING,),
    ),
    Mutation(
        "a follower appends large batches without a pause",
        "broker/replication/follower_fetch_state.py",
        "items=count + len(part) // BYTES_OF_WORK",
        "items=count",
        (_FOLLOWING,),
    ),
    Mutation(
        "a follower appends the rest of a response for a partition that it no longer fetches",
        "broker/replication/follower_fetch_state.py",
        "self.partitions.get(state.key) is not state or partition.log",
        "partition.log",
        (_FOLLOWING,),
    ),
    Mutation(
        "a follower appends the rest of a response to a log that was truncated meanwhile",
        "broker/replication/follower_fetch_state.py",
        " or partition.log.end_offset != end_offset:",
        ":",
        (_FOLLOWING,),
    ),
    Mutation(
        "a follower appends the records behind those of a later epoch",
        "broker/replication/follower_fetch_state.py",
        "if appended_bytes < len(part):",
        "if appended_bytes < 0:",
        (_FOLLOWING,),
    ),
    Mutation(
        "a follower that appends in parts does not look at the length of a batch",
        "broker/partitions/follower_log.py",
        "length < LENGTH_MIN or end > size",
        "end > size",
        (_FOLLOWING,),
    ),
    Mutation(
        "one-record batches of a coordinator's log are applied in one step",
        "broker/coordinator/replay.py",
        "        if replayed.pauses.is_due(items=BATCH_WORK):\n",
        "        if Pauses(WORK_AT_ONCE).is_due(items=batch.record_count):\n",
        (_REPLAY,),
    ),
    Mutation(
        "a record that cannot be read replaces the readable one of its key",
        "broker/coordinator/replay.py",
        "        if unreadable:\n",
        "        if not unreadable:\n",
        (_UNREADABLE,),
    ),
    Mutation(
        "a record that cannot be read is taken for the reason to stop a load",
        "broker/coordinator/replay.py",
        "            self.skipped.add(record.offset, str(error))\n            return False\n",
        "            self.skipped.add(record.offset, str(error))\n            raise\n",
        (_UNREADABLE,),
    ),
    Mutation(
        "a transaction whose markers no partition takes is loaded",
        "broker/coordinator/transactions/transaction_records.py",
        "    _check_markers(value)\n",
        "",
        (_UNREADABLE,),
    ),
    Mutation(
        "a member of a classic group keeps protocols without the selected one",
        "broker/coordinator/groups/state/classic_member.py",
        "        if selected not in self.protocol_names or ",
        "        if ",
        (_UNREADABLE,),
    ),
    Mutation(
        "a leader that is no member is loaded with its group",
        "broker/coordinator/groups/state/classic_group.py",
        "value.leader if value.leader in self.members else next(iter(self.members), None)",
        "value.leader",
        (_UNREADABLE,),
    ),
    Mutation(
        "the records of a large batch of a coordinator's log are decoded at once",
        "protocol/records/large_batch.py",
        "if batch.record_count <= count_max:",
        "if batch.record_count >= 0:",
        (_REPLAY,),
    ),
    Mutation(
        "long values of a coordinator's log count as short ones",
        "broker/coordinator/replay.py",
        "    return APPLY_WORK + len",
        "    return APPLY_WORK + 0 * len",
        (_REPLAY,),
    ),
    Mutation(
        "retention deletes of many partitions in one step",
        "storage/directories/log_upkeep.py",
        "                if found or number",
        "                if again or number",
        ("tests/storage/directories/test_log_manager.py",),
    ),
    Mutation(
        "gzip and lz4 compress as much at once as zstd",
        "broker/partitions/batch_validation.py",
        "    is_slow = rules.codec in (Codec.GZIP, Codec.LZ4)\n",
        "    is_slow = False\n",
        ("tests/broker/partitions/test_batch_validation.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "small batches without the timestamp that their headers promise are searched without a pause",
        "storage/segments/timestamp_search.py",
        "pauses.is_due(items=batch.record_count + BATCH_COST)",
        "pauses.is_due(items=0)",
        ("tests/storage/segments/test_timestamp_search.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "all headers of a segment are read in one step",
        "storage/segments/segment.py",
        "                if number == headers_max:\n",
        "                if number == -1:\n",
        ("tests/storage/segments/test_timestamp_search.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the offset index may have no entry for gigabytes",
        "storage/log_config.py",
        "min(config.index_interval_bytes, INDEX_INTERVAL_BYTES_MAX)",
        "config.index_interval_bytes",
        ("tests/storage/segments/test_timestamp_search.py",),
        seeds=TEST_ONLY,
    ),
)
