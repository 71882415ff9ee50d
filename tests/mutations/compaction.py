"""Planted bugs in the log cleaner: what it keeps, what it puts in place of what, and what a crash leaves."""

from mutations import STORY_ONLY, TEST_ONLY, Mutation

_TESTS = "tests/storage/test_compaction.py"
_STORIES = "tests/simulation/test_compaction_stories.py"
_MODEL = "tests/storage/test_compaction_model.py"
_FILTER = "storage/batch_filter.py"
_CLEANING = "storage/cleaning.py"
_REPLACEMENT = "storage/segment_replacement.py"

MUTATIONS = (
    Mutation(
        "a tombstone gets a new horizon with each cleaning, and never goes",
        _FILTER,
        "        if tombstones and not batch.has_delete_horizon and self._new_horizon_ms is not None:\n",
        "        if tombstones and self._new_horizon_ms is not None:\n",
        (f"{_STORIES}::test_each_key_keeps_its_last_value",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a tombstone goes with the first cleaning",
        _FILTER,
        "        return batch.has_delete_horizon and batch.base_timestamp <= self._rules.now_ms\n",
        "        return batch.base_timestamp <= self._rules.now_ms\n",
        (f"{_TESTS}::test_a_tombstone_goes_after_its_retention",),
        seeds=3,
    ),
    Mutation(
        "the last batch of a producer goes when nothing of it is left",
        _FILTER,
        "            return batch.last_offset == last.last_offset\n",
        "            return False\n",
        (f"{_STORIES}::test_a_batch_that_is_sent_again_is_known_though_nothing_is_left_of_it",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the end of the cleaned range goes when nothing of it is left",
        _FILTER,
        "        if batch.next_offset == self._rules.upper_bound:\n            return True\n",
        "",
        (f"{_TESTS}::test_the_end_of_the_cleaned_range_stays",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a record beyond a map that is full is compared with it",
        _FILTER,
        "if offsets[index] in latest or offsets[index] > known_offset]\n",
        "if offsets[index] in latest]\n",
        (f"{_STORIES}::test_each_key_keeps_its_last_value",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a record without a key in the clean part stays",
        _FILTER,
        "            replaced_from[index] = _NEVER\n",
        "            replaced_from[index] = 0\n",
        (f"{_TESTS}::test_records_without_a_key_go",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the clean records of a chunk are taken for dirty ones",
        _FILTER,
        "        for part in (batches[:dirty], batches[dirty:]):\n            if part:\n"
        "                yield from self._filter(part, dirty=part[0].base_offset >= self._first_dirty)\n",
        "        yield from self._filter(batches, dirty=dirty < len(batches))\n",
        (f"{_STORIES}::test_each_key_keeps_its_last_value",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "two new keys of one call share a slot of the map",
        "storage/numpy_offset_map.py",
        "                winners = empty[self._offsets[claimed] == empty]\n",
        "                winners = empty\n",
        ("tests/storage/test_offset_map.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the records of all batches of one size are taken to be at the same places",
        "protocol/records/batch_table.py",
        "        rows, places = rows[alike], places[alike]\n",
        "",
        (f"{_STORIES}::test_each_key_keeps_its_last_value",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "an abort marker goes while batches of its transaction are left",
        "storage/cleaned_transactions.py",
        "                self.retained(transaction)\n                return False\n",
        "                self.retained(transaction)\n",
        (f"{_STORIES}::test_an_aborted_value_replaces_nothing_and_what_follows_it_is_committed",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the transaction index of a cleaned segment is empty",
        _CLEANING,
        "        transactions.retained = cleaned.add_aborted\n",
        "",
        (f"{_TESTS}::test_an_empty_aborted_batch_keeps_its_marker_and_index",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "keys of aborted records replace those before them",
        _CLEANING,
        " and not (batch.is_control or discard)\n        ]\n        if data:",
        " and not batch.is_control\n        ]\n        if data:",
        (f"{_TESTS}::test_aborted_data_goes_at_once_and_its_marker_later",),
        seeds=8,
    ),
    Mutation(
        "a corrupt batch is written anew with a valid checksum",
        _CLEANING,
        "                for batch in found:\n                    batch.check_crc()\n",
        "",
        (f"{_STORIES}::test_the_cleaner_does_not_hide_that_a_record_has_changed_on_the_disk",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "segments are replaced although the log was truncated meanwhile",
        "storage/compaction.py",
        "        unchanged = log.directory == due.directory and log.truncations == due.truncations\n",
        "        unchanged = log.directory == due.directory\n",
        (f"{_TESTS}::test_a_truncation_during_a_cleaning_ends_it",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the checkpoint of the cleaner survives a truncation",
        "storage/data_directory.py",
        "        self.lower_cleaner_offset(log.topic_partition, log.recovery_point)\n",
        "",
        (f"{_STORIES}::test_what_replaces_truncated_records_is_cleaned_too",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the log is cleaned beyond the last stable offset",
        "storage/cleanable_range.py",
        "    last = max(0, log.segments.floor(min(stable_offset, log.recovery_point)))\n",
        "    last = max(0, log.segments.floor(log.recovery_point))\n",
        (f"{_STORIES}::test_an_aborted_value_replaces_nothing_and_what_follows_it_is_committed",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the old segments are renamed before the new one is sure to replace them",
        _REPLACEMENT,
        '        _rename_all(log.disk, prefix, CLEANED, SWAP)\n',
        "",
        (f"{_TESTS}::test_the_last_record_of_each_key_is_left_at_its_offset", _MODEL),
        seeds=3,
    ),
    Mutation(
        "the files of a segment that was replaced twice have one name",
        "storage/deleted_files.py",
        "        if not disk.exists(new_path):\n            break\n",
        "        break\n",
        (f"{_TESTS}::test_a_reader_that_holds_an_old_segment_reads_on",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "recovery leaves the transaction index of a segment that was replaced",
        "storage/temporary_files.py",
        "            if name.endswith(SUFFIXES) and (offset in replaced or _offset_of(logs[0]) <= offset < end):\n",
        "            if name.endswith(SUFFIXES[:3]) and _offset_of(logs[0]) <= offset < end:\n",
        (f"{_TESTS}::test_recovery_removes_all_files_of_a_replaced_segment",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a log is rolled behind a gap of the leader's log",
        "storage/log.py",
        "                self.roll(first_offset if end_offset - self.end_offset > OFFSET_DELTA_MAX else None)\n",
        "                self.roll(first_offset)\n",
        (f"{_TESTS}::test_a_follower_rolls_where_its_log_ends_not_behind_a_gap",),
    ),
)
