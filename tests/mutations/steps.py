"""Planted bugs in what is done in steps: work without a bound, and what is missed while others run."""

from mutations import Mutation

_FETCH = "broker/apis/fetch.py"
_FETCHING = "tests/broker/replication/test_fetching.py"
_VALIDATION = "broker/partitions/batch_validation.py"
_VALIDATIONS = "tests/broker/partitions/test_batch_validation.py"
_SCAN = "broker/partitions/record_scan.py"
_SESSIONS = "broker/partitions/fetch_sessions.py"
_PARTS = "tests/broker/coordinator/groups/offsets/test_request_parts.py"
_RECORDS = "tests/controller/active/test_many_records.py"
_STEPS = "controller/metadata/steps.py"
_QUEUE = "controller/active/request_queue.py"
_LARGE = "broker/connections/large_messages.py"
_LARGE_TESTS = "tests/broker/connections/test_large_messages.py"

MUTATIONS = (
    Mutation(
        "long transactional ids are matched by a large pattern in the event loop's thread",
        "broker/coordinator/transactions/transaction_coordinator.py",
        "        if needed > WORK_AT_ONCE:\n",
        "        if needed < 0:\n",
        ("tests/broker/coordinator/transactions/test_transaction_coordinator.py",),
    ),
    Mutation(
        "many topics are matched by large patterns in one step",
        "broker/coordinator/groups/consumer/subscription_pattern.py",
        " or work >= WORK_AT_ONCE",
        "",
        ("tests/broker/coordinator/groups/consumer/test_subscription_pattern.py",),
    ),
    Mutation(
        "all replicas of a batch of metadata are created in one step",
        "broker/partitions/partition_lifecycle.py",
        "        if self._step_cost < STEP_COST_MAX:\n",
        "        if self._step_cost >= 0:\n",
        ("tests/broker/partitions/test_partition_lifecycle.py",),
    ),
    Mutation(
        "a node that stops while a topic is deleted keeps the other logs of it",
        "broker/partitions/partition_lifecycle.py",
        "        finally:\n            for partition in replicas:\n",
        "        finally:\n            for partition in ():\n",
        ("tests/broker/partitions/test_partition_lifecycle.py",),
    ),
    Mutation(
        "a request of many bytes in few elements is decoded and encoded in a step",
        _LARGE,
        "return 0 if is_long else ELEMENTS_AT_ONCE",
        "return ELEMENTS_AT_ONCE",
        (f"{_LARGE_TESTS}::test_a_request_of_many_bytes_is_decoded_and_encoded_in_the_thread",),
    ),
    Mutation(
        "the records of a large Produce are left to the thread for large messages",
        _LARGE,
        " and frame[:2] != _PRODUCE",
        "",
        (f"{_LARGE_TESTS}::test_a_request_of_many_bytes_is_decoded_and_encoded_in_the_thread",),
    ),
    Mutation(
        "a first record that claims more than the batch has is looked for before the batch",
        "protocol/records/batch_table.py",
        "        if not most:\n            return None\n",
        "",
        ("tests/protocol/records/test_numpy_scan.py"
         "::test_a_first_record_that_claims_more_than_there_is_is_left_to_the_loop",),
    ),
    Mutation(
        "a gzip member that ends too early is taken for a whole one",
        "protocol/records/compression.py",
        "if decompressor.eof and not",
        "if not",
        ("tests/protocol/records/test_compression.py::test_truncated_data_is_rejected_as_corrupt",),
    ),
    Mutation(
        "only the first gzip member is read",
        "protocol/records/compression.py",
        " and not decompressor.unused_data",
        "",
        ("tests/protocol/records/test_compression.py::test_gzip_with_several_members_is_read_completely",),
    ),
    Mutation(
        "the scan with numpy does not look at the second byte of offset deltas",
        "protocol/records/numpy_scan.py",
        "    if as_expected and np.array_equal(seconds, _SECOND[_ONE_BYTE:count]):\n",
        "    if as_expected:\n",
        ("tests/protocol/records/test_numpy_scan.py::test_each_byte_of_an_offset_delta_counts",),
    ),
    Mutation(
        "the scan with numpy does not look at offset deltas",
        "protocol/records/numpy_scan.py",
        "    as_expected = np.array_equal(buffer.take(position, mode=\"clip\"), _FIRST[:count])\n",
        "    as_expected = True\n",
        ("tests/protocol/records/test_numpy_scan.py::test_offset_deltas_with_a_gap_are_left_to_the_loop",),
    ),
    Mutation(
        "the scan with numpy takes records with headers",
        "protocol/records/numpy_scan.py",
        ' or buffer.take(position, mode="clip").any()',
        "",
        ("tests/protocol/records/test_numpy_scan.py::test_a_count_of_headers_without_headers_is_malformed",),
    ),
    Mutation(
        "a fetch sleeps through what grew while it let others run",
        _FETCH,
        " - answers.grown_meanwhile(answers.watched)\n",
        "\n",
        (f"{_FETCHING}::test_what_grows_during_the_pauses_of_a_fetch_is_seen",),
    ),
    Mutation(
        "what a consumer was given is no news, even if it asks again",
        _FETCH,
        "        changes.keys[key] = None\n",
        "",
        (f"{_FETCHING}::test_a_consumers_session_reads_only_partitions_with_news",),
    ),
    Mutation(
        "a consumer's session without news looks at all its partitions",
        _FETCH,
        "    if session is not None and (follows or not Fetcher.of(request, context).rack):\n",
        "    if session is not None and follows:\n",
        (f"{_FETCHING}::test_a_consumers_session_without_news_looks_at_none_of_its_partitions",),
    ),
    Mutation(
        "a coordinator loads all its partitions at the same time",
        "broker/coordinator/runtime.py",
        "        async with self._loading:\n",
        "        if self._loading:\n",
        ("tests/broker/coordinator/test_loading.py",),
    ),
    Mutation(
        "offsets of very many partitions are committed in one step",
        "broker/coordinator/groups/group_coordinator.py",
        "                if begun:\n                    await trio.lowlevel.checkpoint()\n",
        "",
        (f"{_PARTS}::test_each_part_is_a_batch_and_others_run_in_between",),
    ),
    Mutation(
        "the whole of a delete of offsets fails with its later part",
        "broker/coordinator/groups/offsets/request_parts.py",
        "    if not reply.error_code:\n        return reply\n",
        "    return reply\n",
        (f"{_PARTS}::test_what_refuses_a_later_part_of_a_delete_is_the_error_of_its_partitions",),
    ),
    Mutation(
        "the partitions of a new topic are placed and made in one step",
        "controller/decisions/request_table.py",
        "    CreateTopicsRequest: create_topics.deciding,\n",
        "",
        (f"{_RECORDS}::test_a_large_decision_is_made_in_steps_and_is_the_one_that_is_made_at_once",),
    ),
    Mutation(
        "very many elements of a request are decided in one step",
        _STEPS,
        "        self._count += count\n",
        "",
        (f"{_RECORDS}::test_many_changes_are_decided_in_steps",),
    ),
    Mutation(
        "partitions of which none matches are looked at in one step",
        _STEPS,
        "            work += 1\n",
        "",
        (f"{_RECORDS}::test_all_partitions_of_a_cluster_are_looked_at_in_steps",),
    ),
    Mutation(
        "many requests, each just too small for a pause, are decided in one step",
        _QUEUE,
        "                        work += pending.elements\n",
        "",
        (f"{_RECORDS}::test_others_run_after_decisions_that_may_have_taken_a_step_together",),
    ),
    Mutation(
        "decisions are not written while requests without a record keep coming",
        _QUEUE,
        " and requests_count < QUEUE_MAX",
        "",
        (f"{_RECORDS}::test_decisions_are_written_even_if_requests_without_a_record_keep_coming",),
    ),
    Mutation(
        "a node refuses a setting by values that change before it says so",
        "controller/decisions/forwarding_rules.py",
        "    image = _configs_of_brokers(image, request, context)  # as they are now\n",
        "",
        (f"{_RECORDS}::test_what_a_node_refuses_by_its_values_is_refused_even_if_they_change_between_the_steps",),
    ),
    Mutation(
        "reassignments are not listed if a topic is created meanwhile",
        "controller/decisions/list_partition_reassignments.py",
        "list(image.topics.values())",
        "image.topics.values()",
        (f"{_RECORDS}::test_very_much_is_described_in_steps_between_which_it_may_change",),
    ),
    Mutation(
        "the records of many small decisions are encoded in one step",
        "controller/metadata/metadata_log.py",
        "    count = 0\n    for records in decisions:\n",
        "    for records in decisions:\n        count = 0\n",
        (f"{_RECORDS}::test_records_are_encoded_in_steps",),
    ),
    Mutation(
        "the records of a large decision are encoded in one step",
        "controller/metadata/metadata_log.py",
        "            if count % RECORDS_IN_A_STEP == 0:\n                yield\n",
        "",
        (f"{_RECORDS}::test_records_are_encoded_in_steps",),
    ),
    Mutation(
        "a decision is written in a term that ended while it was encoded",
        "controller/active/leadership_term.py",
        "            written = not self._ended and ",
        "            written = ",
        (f"{_RECORDS}::test_a_term_that_ends_while_a_decision_is_made_or_encoded_writes_nothing",),
    ),
    Mutation(
        "who waits for a decision that is abandoned half-way hears nothing",
        _QUEUE,
        "                    abandoned.fail(self._closed())\n",
        "                    pass\n",
        (f"{_RECORDS}::test_a_term_that_ends_while_a_decision_is_made_or_encoded_writes_nothing",),
    ),
    Mutation(
        "large requests of any number of connections are in memory together",
        _LARGE,
        "        await memory.reserve(held_bytes)\n",
        "        memory.hold(held_bytes)\n",
        (f"{_LARGE_TESTS}::test_large_requests_wait_for_those_that_fill_the_memory",),
    ),
    Mutation(
        "the fetches of followers wait for room that requests hold which wait for followers",
        _LARGE,
        '_POOLS.get(api_key, "others")',
        '"others"',
        (f"{_LARGE_TESTS}::test_large_requests_wait_for_those_that_fill_the_memory",),
    ),
    Mutation(
        "the elements of a large response are freed in a step of the event loop",
        "broker/connections/dispatcher.py",
        "    free_elements(response)\n",
        "",
        (f"{_LARGE_TESTS}::test_the_elements_of_a_large_request_and_its_response_are_freed_in_the_thread",),
    ),
    Mutation(
        "the parts of a large response are joined in one step",
        "broker/connections/transport.py",
        "        if size_bytes >= PIECE_SIZE_BYTES_MIN:\n",
        "        if size_bytes < 0:\n",
        ("tests/broker/connections/test_transport.py",),
    ),
    Mutation(
        "all partitions of metadata are answered in one step",
        "broker/apis/cluster_answers.py",
        "        await pause()\n",
        "",
        ("tests/broker/apis/test_metadata.py",),
    ),
    Mutation(
        "records decompress to any size",
        _VALIDATION,
        "    return DECOMPRESSED_FACTOR * max(rules.max_message_bytes, AT_ONCE_SIZE_BYTES)\n",
        "    return 1 << 40\n",
        (f"{_VALIDATIONS}::test_records_may_decompress_to_sixteen_times_the_largest_batch",),
    ),
    Mutation(
        "the small batches of all requests are validated in one step",
        "broker/partitions/large_batches.py",
        "                raise LargeBatch\n",
        "                pass\n",
        ("tests/broker/partitions/test_large_batches.py",),
    ),
    Mutation(
        "small batches of earlier rounds of the loop let others run before the next one",
        "broker/partitions/large_batches.py",
        "if self._rounds() == self._round:",
        "if True:",
        ("tests/broker/partitions/test_large_batches.py",),
    ),
    Mutation(
        "numpy is imported in a step of the event loop",
        _VALIDATION,
        " or (record_count >= MANY_RECORDS and not is_scan_loaded())",
        "",
        (f"{_VALIDATIONS}::test_the_first_scan_is_for_a_thread_as_it_imports_numpy",),
    ),
    Mutation(
        "the headers of a record are skipped in one step",
        _SCAN,
        "now = min(left, HEADERS_AT_ONCE - seen)",
        "now = left",
        (f"{_VALIDATIONS}::test_many_headers_take_pauses",),
    ),
    Mutation(
        "a closed fetch session counts for the bound of all",
        _SESSIONS,
        "            self._partitions -= len(session.partitions)\n",
        "",
        ("tests/broker/partitions/test_fetch_sessions.py::test_all_sessions_together_have_a_bound",),
    ),
    Mutation(
        "a record of a coordinator's log keeps the place of the first one of its key",
        "broker/coordinator/replay.py",
        "            last.pop(record.key, None)\n",
        "",
        ("tests/broker/coordinator/test_replay.py::test_the_order_of_the_last_records_is_kept",),
    ),
    Mutation(
        "a leader looks at its clock before it hears what waits in its sockets",
        "controller/quorum/raft_driver.py",
        "            await self._hear_the_others()\n",
        "",
        ("tests/controller/quorum/test_raft_driver.py::"
         "test_a_node_that_was_busy_hears_what_waits_in_its_sockets_first",),
    ),
)
