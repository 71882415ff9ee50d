"""Planted bugs in the Spark sink and source: rows doubled or lost, as when tasks and micro-batches are repeated."""

from mutations import TEST_ONLY, Mutation

_EARLIER = "spark_connector/sink/earlier_attempts.py"
_TASKS = "spark_connector/sink/sink_tasks.py"
_DRIVER = "spark_connector/sink/driver_commits.py"
_ATOMIC = "spark_connector/sink/atomic_writes.py"
_REPEATED = "tests/spark/test_repeated_writes.py"
_EMPTY = "tests/spark/test_empty_responses.py"
_SINK_TASKS = "tests/spark/test_sink_tasks.py"
_ODD = "tests/spark/test_odd_metadata.py"
_TOGETHER = "tests/spark/test_atomic_writes.py"
_ATTEMPTS = "tests/spark/test_task_attempts.py"
_WRITERS = "spark_connector/sink/writers.py"

MUTATIONS = (
    Mutation(
        "the sink ignores the version of a write that it delivers at least once",
        "spark_connector/options/sink_options.py",
        "    if app_id and delivery == AT_LEAST_ONCE:\n",
        "    if False:\n",
        ("tests/spark/test_options.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a stream waits for the offsets of a topic that was deleted since it had the metadata, and then fails",
        "spark_connector/source/micro_batches.py",
        "wait_for_gone=late",
        "wait_for_gone=True",
        ("tests/spark/test_position.py::test_a_query_goes_on_without_a_topic_that_was_deleted[old]",),
    ),
    Mutation(
        "a query waits for added partitions of its unfinished micro-batch that are gone",
        "spark_connector/source/micro_batches.py",
        "        if absent := self._absent(begun, ended):\n",
        "        if absent := []:\n",
        ("tests/spark/test_odd_metadata.py::test_added_partitions_of_a_failed_batch_that_are_gone_are_data_loss",),
    ),
    Mutation(
        "the sink does not look for tasks that no longer exist",
        _DRIVER,
        "        check_other_tasks(brokers, write, tasks, timeout_ms)\n",
        "        pass\n",
        (f"{_REPEATED}::test_fewer_tasks_are_refused_before_anything_is_doubled[minikafka]",),
    ),
    Mutation(
        "the driver of the sink does not fence tasks that no longer exist",
        _EARLIER,
        "        Transaction(brokers, one).begin(timeout_ms)\n",
        "        pass\n",
        (f"{_REPEATED}::test_a_zombie_with_another_number_is_fenced_by_the_driver[content]",),
    ),
    Mutation(
        "a task of the sink that has no rows any more is not looked at",
        _DRIVER,
        "[one.task for one in results if one.rows]",
        "[one.task for one in results]",
        (f"{_REPEATED}::test_rows_that_left_a_task_are_found",),
    ),
    Mutation(
        "tasks of the sink commit by themselves what another attempt has begun",
        _TASKS,
        "    if earlier.begun:\n",
        "    if False:\n",
        (f"{_REPEATED}::test_fewer_tasks_are_refused_before_anything_is_doubled[minikafka]",),
    ),
    Mutation(
        "a task of the sink without a marker writes an older version",
        _TASKS,
        "    newest = max(earlier.newest, ",
        "    newest = max(-1, ",
        (f"{_REPEATED}::test_an_attempt_of_an_older_version_writes_nothing",),
    ),
    Mutation(
        "the sink takes every version of an attempt for its first",
        _EARLIER,
        "return write.version <= _FIRST",
        "return write.version <= 0 * _FIRST",
        (f"{_REPEATED}::test_only_the_first_version_of_an_attempt_may_repeat_another",),
    ),
    Mutation(
        "the sink takes another query's tasks for its own",
        _EARLIER,
        'f"{re.escape(name)}-(?:[0-9]+|{DRIVER})"',
        'f"{name}-(?:[0-9]+|{DRIVER})"',
        (f"{_REPEATED}::test_the_names_of_queries_are_told_apart",),
    ),
    Mutation(
        "an atomic write of the sink has no marker",
        _ATOMIC,
        "        if write.version >= 0:\n            content",
        "        if write.version < 0:\n            content",
        (f"{_TOGETHER}::test_a_driver_that_is_killed_at_each_request_leaves_all_or_nothing[answer]",),
    ),
    Mutation(
        "an atomic write of the sink reads its marker before it fences the older driver",
        _ATOMIC,
        "    transaction.begin(timeout_ms)\n    if write.version >= 0:\n        marker = transaction.marker()\n",
        "    marker = transaction.marker()\n    transaction.begin(timeout_ms)\n    if write.version >= 0:\n",
        (f"{_TOGETHER}::test_a_driver_that_commits_before_it_is_overtaken_is_noticed",),
    ),
    Mutation(
        "an atomic write of the sink commits before everything is acknowledged",
        _ATOMIC,
        "            sender.flush()\n",
        "            pass\n",
        (f"{_TOGETHER}::test_a_batch_that_is_refused_fails_the_write",),
    ),
    Mutation(
        "an atomic write of the sink doubles what its tasks wrote before delivery was changed",
        _ATOMIC,
        "            check_other_tasks(brokers, write, (), timeout_ms, _SAME_DELIVERY)\n",
        "            pass\n",
        (f"{_TOGETHER}::test_another_delivery_in_the_middle_of_a_version_doubles_nothing[minikafka]",),
    ),
    Mutation(
        "a task without rows does not wait for the end of the transaction before",
        "spark_connector/sink/task_transaction.py",
        "state.transaction_state.startswith(ENDING):",
        "state.transaction_state == ENDING:",
        ("tests/spark/test_sink_tasks.py::test_a_task_without_rows_waits_for_the_end_of_the_transaction_before",),
    ),
    Mutation(
        "a task of the sink looks for earlier attempts while their transactions are being ended",
        _EARLIER,
        "transactional_ids(brokers, write.name, ended=True)",
        "transactional_ids(brokers, write.name)",
        (f"{_REPEATED}::test_a_commit_that_has_not_reached_its_marker_counts_as_an_earlier_attempt",),
    ),
    Mutation(
        "the driver of the sink does not claim the query for its run",
        _DRIVER,
        "        claim(brokers, write, {tp.topic for one in results for tp in one.partitions})\n",
        "",
        (f"{_REPEATED}::test_a_zombie_that_begins_after_the_micro_batch_is_complete_writes_nothing",),
    ),
    Mutation(
        "the driver of the sink lists tasks before it claims the query",
        _EARLIER,
        "        brokers.commit(write.transactional_id(_CLAIM), {place: mine.version + 1}, mine.metadata())\n",
        "        transactional_ids(brokers, write.name)\n"
        "        brokers.commit(write.transactional_id(_CLAIM), {place: mine.version + 1}, mine.metadata())\n",
        (f"{_REPEATED}::test_a_zombie_that_is_fenced_before_it_finds_the_claim_writes_nothing",),
    ),
    Mutation(
        "a task of the sink that is not the first of its run does not look who has claimed the query",
        _TASKS,
        "check_claim(brokers, write, earlier if checked else None)",
        "check_claim(brokers, write, earlier) if checked else None",
        (f"{_REPEATED}::test_a_zombie_that_begins_after_the_micro_batch_is_complete_writes_nothing",),
    ),
    Mutation(
        "a task of the sink takes the claim of a run of before for one of a later run",
        _EARLIER,
        " or (before is not None and now == before.claim):\n",
        ":\n",
        (f"{_REPEATED}::test_a_run_goes_on_after_its_claim_and_after_runs_that_have_claimed_without_rows",),
    ),
    Mutation(
        "a task of the sink commits by itself what a run of before has claimed",
        _EARLIER,
        "others = [one for one in found.values() if one is not driver and",
        "others = [one for one in found.values() if one is not driver and one is not claim and",
        (f"{_REPEATED}::test_what_a_run_of_before_has_claimed_waits_for_the_driver",),
    ),
    Mutation(
        "an atomic write of the sink that is there is not claimed",
        _ATOMIC,
        "    if is_first:\n        claim(brokers",
        "    if is_first and batches and Transaction(brokers, write.transactional_id(DRIVER)).marker() is None:\n"
        "        claim(brokers",
        (f"{_TOGETHER}::test_a_run_goes_on_after_a_first_micro_batch_that_it_does_not_write",),
    ),
    Mutation(
        "an atomic write of the sink does not look who has claimed the query",
        _ATOMIC,
        '        elif options.replay_check != "none":\n',
        "        elif False:\n",
        (f"{_TOGETHER}::test_a_driver_of_before_doubles_nothing_that_tasks_have_written_since",),
    ),
    Mutation(
        "all attempts of a task in a batch write have one transactional id",
        _WRITERS,
        "write_for_driver(options, write, context.taskAttemptId(), iterator)",
        "write_for_driver(options, write, context.partitionId(), iterator)",
        (f"{_ATTEMPTS}::test_an_attempt_that_begins_after_another_has_ended_fences_nothing[minikafka]",),
    ),
    Mutation(
        "the driver of a batch write leaves the transactions open of attempts that Spark does not report",
        _WRITERS,
        "            end_attempts(self._options, self._write, messages)\n",
        "            pass\n",
        (f"{_ATTEMPTS}::test_the_attempt_that_spark_reports_is_committed[minikafka]",),
    ),
    Mutation(
        "the driver of a batch write that fails leaves the transactions open of attempts that it does not know",
        _WRITERS,
        "        if self._by_attempts:\n            end_attempts(self._options, self._write)\n        elif",
        "        if",
        (f"{_ATTEMPTS}::test_a_write_that_fails_ends_the_attempts_that_spark_does_not_report[minikafka]",),
    ),
    Mutation(
        "an attempt of a task writes after the driver has ended the write",
        _TASKS,
        "        if Transaction(brokers, write.transactional_id(DRIVER)).has_begun:\n",
        "        if False:\n",
        (f"{_ATTEMPTS}::test_an_attempt_that_begins_after_the_driver_has_ended_the_write_writes_nothing",),
    ),
    Mutation(
        "an attempt of a task looks whether the driver has ended the write before it can be listed",
        _TASKS,
        "        transaction.begin(options.transaction_timeout_ms or DRIVER_TIMEOUT_MS)\n        if "
        "Transaction(brokers, write.transactional_id(DRIVER)).has_begun:\n",
        "        is_over = Transaction(brokers, write.transactional_id(DRIVER)).has_begun\n"
        "        transaction.begin(options.transaction_timeout_ms or DRIVER_TIMEOUT_MS)\n        if is_over:\n",
        (f"{_ATTEMPTS}::test_an_attempt_that_stalls_before_its_first_request_writes_nothing[minikafka]",),
    ),
    Mutation(
        "the driver of a batch write lists attempts before it ends the write for later ones",
        _DRIVER,
        "    fence(brokers, [mine], timeout_ms)\n"
        "    kept = {mine, *(one.transactional_id for one in results if one is not None)}\n"
        "    fence(brokers, [one for one in transactional_ids(brokers, write.name) if one not in kept], timeout_ms)\n",
        "    kept = {mine, *(one.transactional_id for one in results if one is not None)}\n"
        "    fence(brokers, [one for one in transactional_ids(brokers, write.name) if one not in kept], timeout_ms)\n"
        "    fence(brokers, [mine], timeout_ms)\n",
        (f"{_ATTEMPTS}::test_an_attempt_that_begins_while_the_driver_commits_changes_nothing",),
    ),
    Mutation(
        "the sink waits once for each task of a cluster that is gone",
        _DRIVER,
        "        except RequestTimedOutError:\n            raise\n",
        "",
        ("tests/spark/test_dead_brokers.py",),
    ),
    Mutation(
        "tasks find out that nobody reaches the cluster, not the driver",
        "spark_connector/sink/writers.py",
        "    offset_reader_for(options.kafka).refresh(())\n",
        "",
        ("tests/spark/test_dead_brokers.py",),
    ),
    Mutation(
        "an end offset that has gone back once is data loss the next time",
        "spark_connector/source/micro_batches.py",
        "        self._back_since_s = {tp: before.get(tp, now_s) for tp in back}\n",
        "        self._back_since_s = before | {tp: before.get(tp, now_s) for tp in back}\n",
        ("tests/spark/test_position.py::test_an_end_offset_that_goes_back_for_a_moment_is_no_data_loss",),
    ),
    Mutation(
        "the Spark connector waits for a cluster without a word",
        "spark_connector/brokers/waiting.py",
        "                    wait.look()\n",
        "                    pass\n",
        ("tests/spark/test_waiting.py",),
    ),
    Mutation(
        "a fetch of a task of Spark waits without a word",
        "spark_connector/source/partition_reader.py",
        "                self._waits_for = error.message\n                self._unknown_count = 0\n",
        "                self._unknown_count = 0\n",
        ("tests/spark/test_waiting.py",),
    ),
    Mutation(
        "a job with AvailableNow does not notice that its topic is shorter than before",
        "spark_connector/source/micro_batches.py",
        "        while before:\n",
        "        while before and not before:\n",
        ("tests/spark/test_position.py::test_available_now_detects_what_a_stream_does",),
    ),
    Mutation(
        "a range is skipped if its leader returns no records twice",
        "spark_connector/source/partition_reader.py",
        "self._empty_responses >= _EMPTY_RESPONSES_MAX and self._is_compacted()",
        "self._empty_responses >= _EMPTY_RESPONSES_MAX",
        ("tests/spark/test_empty_responses.py",),
    ),
    Mutation(
        "a range is skipped if its partition has no leader",
        "spark_connector/source/partition_reader.py",
        "elif self._exists() or not isinstance(fault, ",
        "elif not isinstance(fault, ",
        ("tests/spark/test_empty_responses.py",),
    ),
    Mutation(
        "the time that Spark takes over a batch counts as a wait for the leader",
        "spark_connector/source/partition_reader.py",
        "        self._retries.reset()\n        while",
        "        while",
        ("tests/spark/test_empty_responses.py",),
    ),
    Mutation(
        "a task of Spark needs the right to look at the policy of its topic",
        "spark_connector/source/partition_reader.py",
        "                if error.retriable:\n                    raise\n",
        "                raise\n",
        ("tests/spark/test_empty_responses.py",),
    ),
    Mutation(
        "a replaced log is looked at anew whenever the offset of the old one is reached",
        "spark_connector/source/micro_batches.py",
        "self._restarted = {tp: one for tp, one in self._restarted.items() if self._is_restarted(tp, begun)}\n",
        "pass\n",
        ("tests/spark/test_position.py",),
    ),
    Mutation(
        "the first batch of a replaced log is lost if its run fails",
        "spark_connector/source/micro_batches.py",
        "        if first:  #",
        "        if False:  #",
        ("tests/spark/test_position.py",),
    ),
    Mutation(
        "batches are lost if the next request cannot be sent",
        "spark_connector/source/partition_reader.py",
        "            self._send_ahead()\n",
        "            self._send_fetch()\n",
        ("tests/spark/test_position.py::test_a_range_is_read_once_whichever_request_is_lost",),
    ),
    Mutation(
        "a task of Spark connects to a port beyond 65535",
        "spark_connector/brokers/sockets.py",
        "    if not 0 < port <= _PORT_MAX:",
        "    if port <= 0:",
        ("tests/spark/test_waiting.py",),
    ),
    # -- the source ---------------------------------------------------------------------------------------------------
    Mutation(
        "Spark reads the partitions of an assignment that exist, without a word of the others",
        "spark_connector/source/offset_resolution.py",
        "        _logger.warning(\"assigned partition does not exist, and is left out: %s\", tp)\n",
        "        pass\n",
        (f"{_EMPTY}::test_an_assigned_partition_that_does_not_exist_is_left_out_with_a_warning",),
    ),
    Mutation(
        "Spark believes a single metadata response that lacks a topic or partition",
        "spark_connector/source/offset_resolution.py",
        "    attempts, pause_s = options.retries + 1, ",
        "    attempts, pause_s = 1, ",
        (f"{_ODD}::test_a_topic_that_is_missing_for_a_moment_is_not_deleted",),
    ),
    Mutation(
        "Spark takes the error of a topic for deleted partitions",
        "spark_connector/source/offset_resolution.py",
        "        if error is not None and not isinstance(error, UnknownTopicOrPartitionError):\n",
        "        if False:\n",
        (f"{_ODD}::test_the_error_of_a_topic_is_no_data_loss",),
    ),
    Mutation(
        "Spark reads a topic from its start when brokers know it again",
        "spark_connector/source/micro_batches.py",
        "            low |= {tp: min(self._deleted[tp][1], ended[tp]) for tp in new if self._is_back(tp)}\n",
        "",
        (f"{_ODD}::test_a_topic_that_comes_back_is_read_from_where_it_was_left",),
    ),
    Mutation(
        "Spark starts in a topic made anew where it has left the one before",
        "spark_connector/source/micro_batches.py",
        "return topic_id != NIL_UUID and topic_id == self._brokers.metadata.topic_id(tp.topic)",
        "return topic_id != NIL_UUID",
        (f"{_ODD}::test_a_topic_that_comes_back_is_read_from_where_it_was_left",),
    ),
    Mutation(
        "Spark takes partitions for deleted that were missing when Trigger.AvailableNow looked for the ends",
        "spark_connector/source/micro_batches.py",
        "        if unpinned:  #",
        "        if False:  #",
        (f"{_ODD}::test_a_job_with_available_now_goes_on_with_what_its_first_metadata_lacked",),
    ),
    Mutation(
        "Spark forgets a topic's id when metadata lack it",
        "spark_connector/source/micro_batches.py",
        "{topic: topic_id for topic, topic_id in known.items() if topic_id != NIL_UUID}\n",
        "known\n",
        (f"{_ODD}::test_a_topic_that_was_made_anew_is_noticed_after_odd_metadata",),
    ),
    Mutation(
        "tasks of Spark write to the partitions that a topic had when their process began",
        "spark_connector/sink/task_writer.py",
        "        if sockets.now_s() >= self._metadata_due_s:\n",
        "        if False:\n",
        (f"{_SINK_TASKS}::test_partitions_that_a_topic_gets_are_used_by_the_next_task_or_after_the_age_of_metadata",),
    ),
    Mutation(
        "a long task of Spark does not see new partitions of its topic",
        "spark_connector/sink/task_writer.py",
        "self._metadata_due_s = sockets.now_s() + self._options.metadata_age_s\n",
        "self._metadata_due_s = float('inf')\n",
        (f"{_SINK_TASKS}::test_partitions_that_a_topic_gets_are_used_by_the_next_task_or_after_the_age_of_metadata",),
    ),
    Mutation(
        "a checkpoint of Spark may have any form",
        "spark_connector/options/offsets.py",
        "        return _offsets(by_topic), {",
        "        return {TopicPartition(t, int(p)): int(o) for t, ps in by_topic.items() for p, o in ps.items()}, {",
        ("tests/spark/test_offsets.py::test_a_checkpoint_of_another_form_raises_sparks_error_message",),
    ),
    Mutation(
        "Spark takes a negative offset for the end of a log",
        "spark_connector/brokers/offset_reader.py",
        "found[tp] < (0 if time in (EARLIEST, LATEST) else _NO_OFFSET):",
        "found[tp] < -(1 << 63):",
        (f"{_EMPTY}::test_an_offset_that_cannot_be_is_asked_for_again",),
    ),
    Mutation(
        "Spark ignores misspelled options that begin with kafka.",
        "spark_connector/options/source_options.py",
        'name.startswith("kafka.") and is_setting(name.removeprefix("kafka."))',
        'name.startswith("kafka.")',
        ("tests/spark/test_options.py::test_each_setting_of_kafkas_clients_is_an_option_and_none_that_lacks_a_letter",),
    ),
)
